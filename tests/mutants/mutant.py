"""Mutant: one planted fault, as its patch says it."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).parent
ROOT: Final = FOLDER.parents[1]
_NAME = re.compile(r"\d{2,3}-[a-z0-9]+(?:-[a-z0-9]+)+")
_TESTS: Final = "Tests: "
_DIFF: Final = "--- a/"


class MutantError(Exception):
    """A patch that is not as it should be."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """`told`: what the fault is, and what a user would lose.  `tests`: files or folders, the nearest first."""

    path: Path
    told: str
    tests: tuple[str, ...]

    @property
    def name(self) -> str:
        return self.path.stem


def read_mutant(path: Path) -> Mutant:
    """Raises MutantError."""
    if not _NAME.fullmatch(path.stem):
        raise MutantError(f"{path.name}: a name is NN-room-what")
    head, diff, _ = path.read_text().partition(f"\n{_DIFF}")
    told, _, tests = head.rstrip().rpartition("\n")
    if not diff or not tests.startswith(_TESTS) or not told.endswith("."):
        raise MutantError(f"{path.name}: sentences, a line '{_TESTS}...', an empty line and a diff are wanted")
    return Mutant(path, told, tuple(tests.removeprefix(_TESTS).split()))


def all_mutants(folder: Path = FOLDER) -> list[Mutant]:
    """In the order of their numbers.  Raises MutantError."""
    found = [read_mutant(path) for path in folder.glob("*.patch")]
    return sorted(found, key=lambda mutant: int(mutant.name.partition("-")[0]))


def chosen_mutants(names: Iterable[str]) -> list[Mutant]:
    """Those whose names begin so; all where nothing is said.  Raises MutantError."""
    known, wanted = all_mutants(), tuple(names)
    for each in wanted:
        if not any(mutant.name.startswith(each) for mutant in known):
            raise MutantError(f"no mutant begins with {each!r}")
    return [mutant for mutant in known if not wanted or mutant.name.startswith(wanted)]


def apply_patch(path: Path, tree: Path, *options: str) -> None:
    """`git apply` in a tree, which need not be a checkout.  Raises MutantError."""
    done = subprocess.run(["git", "apply", *options, str(path)], cwd=tree, capture_output=True, text=True, check=False)
    if done.returncode:
        raise MutantError(f"{path.name} does not apply: {done.stderr.strip()}")
