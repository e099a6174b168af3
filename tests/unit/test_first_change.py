"""docs/first_change.md can be followed: its diffs apply to the present code, and its commands end as it says."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.mutants.copy import copied

ROOT: Final = Path(__file__).resolve().parents[2]
TEXT: Final = (ROOT / "docs" / "first_change.md").read_text(encoding="utf-8")
CHANGES: Final = {
    part.partition(":")[0]: part for part in TEXT.split("\n## ")[1:] if re.match(r".+: \d+ minutes\n", part)
}
STEP: Final = re.compile(r"^```diff\n(?P<diff>.*?)^```$|^    (?P<command>\S[^\n]*)$", re.MULTILINE | re.DOTALL)
"""A diff, or a line of a block of commands; a line of a diff is no command, since the diff comes first."""
FAILS: Final = "  # fails"
NEEDS_A_SERVER: Final = ("curl ", ".venv/bin/entrepot retained count")


def diffs(change: str) -> str:
    return "".join(step["diff"] for step in STEP.finditer(change) if step["diff"])


def applied(diff: str, tree: Path, *options: str) -> None:
    command = ["git", "apply", *options, "-"]
    done = subprocess.run(command, cwd=tree, input=diff, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"the code has moved on: write this diff of docs/first_change.md anew\n{done.stderr}"


def test_the_changes_fit_into_half_an_hour() -> None:
    minutes = [int(found) for found in re.findall(r"^## .+: (\d+) minutes$", TEXT, re.MULTILINE)]
    assert len(minutes) == len(CHANGES) == 4
    assert sum(minutes) <= 30


@pytest.mark.parametrize("name", CHANGES)
def test_the_diffs_apply(name: str) -> None:
    assert diffs(CHANGES[name]).count("--- a/") > 3
    applied(diffs(CHANGES[name]), ROOT, "--check")


@pytest.mark.soak
@pytest.mark.parametrize("name", CHANGES)
def test_a_first_change_can_be_followed(name: str) -> None:
    with copied() as copy:
        for step in STEP.finditer(CHANGES[name]):
            if step["diff"]:
                applied(step["diff"], copy.tree)
            elif not step["command"].startswith(NEEDS_A_SERVER) or "--help" in step["command"]:
                follow(step["command"], copy.tree)


def follow(command: str, tree: Path) -> None:
    """Run a command of the page, by this Python: the copy has no .venv.  Raises AssertionError for another end than
    the page says."""
    lines = recipe_of_docs(tree) if command == "make docs" else [command.removesuffix(FAILS)]
    for line in lines:
        words = shlex.split(line.replace(".venv/bin/entrepot", ".venv/bin/python -m entrepot.gateway.cli"))
        assert words[0] == ".venv/bin/python", command
        done = subprocess.run(
            [sys.executable, *words[1:]],
            cwd=tree,
            env={**os.environ, "PYTHONPATH": str(tree)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode != 0) is command.endswith(FAILS), f"{command}\n{done.stdout[-2000:]}\n{done.stderr}"


def recipe_of_docs(tree: Path) -> list[str]:
    """The commands of `make docs`, without the installation that comes before them."""
    found = re.search(r"^docs: .*\n((?:\t.*\n)+)", (tree / "Makefile").read_text(), re.MULTILINE)
    assert found is not None
    return found[1].replace("\t$(BIN)/", ".venv/bin/").splitlines()
