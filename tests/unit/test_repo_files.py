"""Files that editors, containers and code hosts read: what they say of the repository is so."""

from __future__ import annotations

import configparser
import json
import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any, Final

import pytest
import typer
import yaml  # type: ignore[import-untyped]

from entrepot.gateway.cli.app import app
from entrepot.gateway.settings import Settings

ROOT: Final = Path(__file__).resolve().parents[2]
MAKEFILE: Final = (ROOT / "Makefile").read_text()
TEMPLATES: Final = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))
PROJECT: Final = tomllib.loads((ROOT / "pyproject.toml").read_text())


def has_target(name: str) -> bool:
    return re.search(rf"^{name}:", MAKEFILE, re.MULTILINE) is not None


def editor_rules() -> configparser.ConfigParser:
    rules = configparser.ConfigParser()
    rules.read_string("[top]\n" + (ROOT / ".editorconfig").read_text())
    return rules


def test_editors_have_the_lines_of_the_linter() -> None:
    rules = editor_rules()
    assert rules["top"]["root"] == "true"
    assert rules["*.{py,pyi}"]["max_line_length"] == str(PROJECT["tool"]["ruff"]["line-length"])


def test_files_are_as_editors_write_them() -> None:
    """Else an editor that saves one changes lines that its author did not."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    of_others = next(name for name in editor_rules().sections() if name.startswith("{"))
    left_out = [f":!{name.removesuffix('/**')}" for name in of_others.strip("{}").split(",")]
    assert all((ROOT / name.removeprefix(":!")).exists() for name in left_out)
    listed = subprocess.run(["git", "ls-files", "-z", "--", ".", *left_out], cwd=ROOT, capture_output=True, check=True)
    wrong = []
    for name in listed.stdout.decode().split("\0"):
        path = ROOT / name
        if path.is_symlink() or not path.is_file() or b"\0" in (data := path.read_bytes()):
            continue
        data.decode()
        if (data and not data.endswith(b"\n")) or b"\r" in data:
            wrong.append(f"{name}: lines do not end with LF")
        if path.suffix != ".patch" and re.search(rb"[ \t]$", data, re.MULTILINE):
            wrong.append(f"{name}: blanks at the end of a line")
    assert wrong == []


def test_hooks_are_the_tools_of_make_check_and_fetch_nothing() -> None:
    found = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())
    assert [each["repo"] for each in found["repos"]] == ["local"]
    hooks = found["repos"][0]["hooks"]
    assert {each["language"] for each in hooks} == {"system"}
    for each in hooks:
        command = each["entry"].removesuffix(" --force-exclude")
        assert f"\t{command.replace('.venv/bin', '$(BIN)')}" in MAKEFILE, f"{command} is not what make check runs"


def test_the_container_has_the_ports_of_a_first_start() -> None:
    container = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text())
    settings = Settings()
    ports = [settings.mqtt.port, settings.amqp.port, settings.http.port, settings.grpc.port]
    assert container["forwardPorts"] == ports
    assert list(container["portsAttributes"]) == list(map(str, ports))
    least = PROJECT["project"]["requires-python"].removeprefix(">=")
    assert container["image"].endswith(f":{least}")
    assert has_target(container["postCreateCommand"].removeprefix("make "))


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.stem)
def test_a_form_is_one_that_the_host_reads(path: Path) -> None:
    form = yaml.safe_load(path.read_text())
    assert form["name"] and form["description"]
    fields: list[dict[str, Any]] = [each for each in form["body"] if each["type"] != "markdown"]
    assert len({each["id"] for each in fields}) == len(fields)
    assert all(each["attributes"]["label"] for each in fields)
    assert any(each.get("validations", {}).get("required") for each in fields)
    for each in fields:
        assert each["type"] in ("input", "textarea", "dropdown", "checkboxes")
        assert (each["type"] == "dropdown") is ("options" in each["attributes"])


def test_forms_name_commands_that_there_are() -> None:
    text = "".join(path.read_text() for path in TEMPLATES)
    named = re.findall(r"`entrepot ([a-z ]+)`", text)
    assert named
    for words in named:
        command: Any = typer.main.get_command(app)
        for word in words.split():
            command = command.get_command(None, word)
            assert command is not None, words
    request = (ROOT / ".github" / "PULL_REQUEST_TEMPLATE.md").read_text()
    targets = re.findall(r"`make ([a-z-]+)`", request)
    assert targets and all(map(has_target, targets))


def test_each_room_has_an_owner_and_each_owned_path_is_there() -> None:
    lines = [
        line.split() for line in (ROOT / ".github" / "CODEOWNERS").read_text().splitlines() if line[:1] not in ("", "#")
    ]
    assert lines[0][0] == "*", "the rule for all others comes first: the last one that matches decides"
    paths = [path for path, *_ in lines[1:]]
    assert [path for path in paths if not (ROOT / path.strip("/")).exists()] == []
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    folders = {f"/{name.partition('/')[0]}/" for name in tracked.splitlines() if "/" in name and name[0] != "."}
    assert folders <= set(paths)
    assert [owners for _, *owners in lines if not all(map(re.compile(r"@[\w-]+/[\w-]+").fullmatch, owners))] == []
