"""The references of the documentation say what the program has, today."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import typer

from entrepot.gateway.cli.app import app
from entrepot.gateway.cli.references import PAGES, write
from entrepot.gateway.settings import Settings, known_keys, listeners

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"


@pytest.mark.parametrize("name", PAGES)
def test_a_reference_is_current(name: str) -> None:
    assert (DOCS / name).read_text(encoding="utf-8") == PAGES[name](), "make docs writes it anew"


def test_every_setting_and_every_command_is_there(tmp_path: Path) -> None:
    write(tmp_path)
    settings, commands = ((tmp_path / name).read_text() for name in ("settings.md", "cli.md"))
    assert [key for key in known_keys() if f"| `{key}` |" not in settings] == []
    for command in ("serve", "topic delete", "message receive", "ingest status", "store verify", "config schema"):
        assert f"# entrepot {command}\n" in commands
    assert "| `--create` | Create the topic and the group if they do not exist. |" in commands


def test_the_readme_names_every_command() -> None:
    said = re.search(r"^The command is `.venv/bin/entrepot`:(.+?)\n\n", (ROOT / "README.md").read_text(), re.M | re.S)
    assert said is not None
    commands = typer.main.get_command(app).list_commands(None)  # type: ignore[attr-defined, arg-type]
    assert sorted(re.findall(r"`([a-z][a-z-]*)`", said[1])) == sorted(commands)


def test_the_ready_file_is_shown_with_every_door_of_a_first_start() -> None:
    shown = re.search(r"`(\{\"mqtt\".+?\})`", (DOCS / "operations.md").read_text())
    assert shown is not None
    ports = {
        door: f"127.0.0.1:{getattr(Settings(), door).port}"
        for door in listeners()
        if door not in ("broker", "nameserver", "controller")
    }
    assert json.loads(shown[1]) == {door: ports[door] for door in ("mqtt", "amqp", "grpc", "http")}
