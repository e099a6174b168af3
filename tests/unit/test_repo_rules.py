"""Rules about the repository itself."""

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("domain", "protocols", "broker", "store_client", "gateway")
UPWARD = re.compile(r"(?:\.\./)+\w[\w./-]*")
LINK = re.compile(r"\]\((?!\w+:|#)([^)#\s]+)")


def tracked() -> list[Path]:
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout.decode()
    return [path for name in listed.split("\0") if name and (path := ROOT / name).is_file()]


def text_of(path: Path) -> str:
    try:
        return path.read_text()
    except UnicodeDecodeError:
        return ""


def test_imports_keep_their_contracts():
    command = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run([command, "--no-logo"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_the_repository_stands_alone():
    """What is referred to by a relative path is in the repository."""
    missing = [
        f"{path.relative_to(ROOT)}: {reference}"
        for path in tracked()
        if path.relative_to(ROOT).parts[0] != "tests"  # tests try paths that lead out
        for reference in UPWARD.findall(text_of(path))
        if not (found := (path.parent / reference).resolve()).exists() or not found.is_relative_to(ROOT)
    ]
    assert missing == []


def test_links_between_documents_lead_somewhere():
    broken = [
        f"{path.relative_to(ROOT)}: {target}"
        for path in tracked()
        if path.suffix == ".md"
        for target in LINK.findall(text_of(path))
        if not (path.parent / target).exists()
    ]
    assert broken == []


def test_every_module_says_what_it_is():
    silent = [
        str(path.relative_to(ROOT))
        for room in ROOMS
        for path in (ROOT / room).rglob("*.py")
        if ast.get_docstring(ast.parse(path.read_text())) is None
    ]
    assert silent == []


def test_every_dependency_is_pinned_to_one_version():
    lines = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
    assert [line for line in lines if not re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9._+!-]+", line)] == []
    pinned = {_normal(line.partition("==")[0]) for line in lines}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *(r for extra in project["optional-dependencies"].values() for r in extra)]
    names = {_normal(re.match(r"[A-Za-z0-9._-]+", requirement)[0]) for requirement in wanted}  # type: ignore[index]
    assert names - pinned == {"entrepot"}  # its own extras, among those of dev


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
