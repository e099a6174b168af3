"""Copy: a checkout of its own for one mutant, and pytest in it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.mutants.mutant import ROOT, MutantError
from tests.mutants.watching import FIRST_FAILURE

LONGEST_SECONDS: Final = 3600
"""Of one run: a mutant may hang every test."""
HUNG: Final = -1
LEFT_OUT: Final = (
    "--ignore", "tests/unit/tiers/test_mutants.py",
    "--ignore", "tests/unit/test_first_change.py",
)  # fmt: skip
"""Tests that want every patch, and every diff of a page, to apply: the mutant alone is no reason to fail."""


@dataclass(frozen=True, slots=True)
class Run:
    """The end of a run of pytest.  `failed`: the first test that did, empty for none.  `tail`: its last words."""

    code: int
    failed: str
    tail: str


@dataclass(frozen=True, slots=True)
class Copy:
    """A tree that holds what is tracked."""

    tree: Path

    def pytest(self, *arguments: str) -> Run:
        """Run the default tier's tests of these paths until one fails."""
        told = self.tree.with_name("first-failure")
        told.unlink(missing_ok=True)
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-p", "tests.mutants.watching"]
        environment = {**os.environ, "PYTHONPATH": str(self.tree), FIRST_FAILURE: str(told)}
        environment.pop("PYTEST_ADDOPTS", None)
        output = self.tree.with_name("output")
        with output.open("w") as file:
            code = _ended(
                [*command, "--tier", "default", "--any-length", *LEFT_OUT, *arguments],
                self.tree,
                environment,
                file,
            )
        failed = told.read_text() if told.exists() else ""
        return Run(code, failed, output.read_text(errors="replace")[-2000:])


def _ended(command: Sequence[str], tree: Path, environment: dict[str, str], output: object) -> int:
    try:
        return subprocess.run(
            command,
            cwd=tree,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,  # type: ignore[call-overload]
            stderr=subprocess.STDOUT,
            timeout=LONGEST_SECONDS,
            check=False,
        ).returncode
    except subprocess.TimeoutExpired:
        return HUNG


@contextmanager
def copied() -> Iterator[Copy]:
    """A copy of the checkout, removed in the end.  Raises MutantError."""
    with tempfile.TemporaryDirectory(prefix="entrepot-mutant-", ignore_cleanup_errors=True) as folder:
        tree = Path(folder) / "tree"
        for name in _tracked():
            _copy(ROOT / name, tree / name)
        yield Copy(tree)


def _tracked() -> list[str]:
    done = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise MutantError(f"what is to be copied is not known: {done.stderr.strip()}")
    return [name for name in done.stdout.split("\0") if name and (ROOT / name).exists()]


def _copy(source: Path, target: Path) -> None:
    """With its time, so that what is compiled of it is good in the copy, too."""
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(source, target, follow_symlinks=False)
    if source.suffix == ".py":
        for compiled in (source.parent / "__pycache__").glob(f"{source.stem}.cpython-*.pyc"):
            if "pytest" not in compiled.name:
                (target.parent / "__pycache__").mkdir(exist_ok=True)
                shutil.copy2(compiled, target.parent / "__pycache__" / compiled.name)
