"""A disk for real processes that loses power: what was not synced is gone, or perhaps there.

What survives is chosen as on the simulated disk of the crash tests, and by its code: of each sector one of its
contents, of each file one of its sizes, of the names in each directory any that were there.  Needs root and FUSE.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Any, Final, Literal, Self

import pytest

from tests.support.brokers.forgetful_tree import Losses

ROOT: Final = Path(__file__).parents[3]
Kind = Literal["files", "directories"]


class ForgetfulDisk:
    """Mounted at `place`, an empty directory that is made.  Who uses it is to be killed before the power is cut."""

    def __init__(self, place: Path) -> None:
        self.place = place
        place.mkdir()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.brokers.forgetful_server", str(place)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            start_new_session=True,  # whoever interrupts the tests has it unmounted, too
        )
        self._answer()

    def cut_power(self, rng: Random | None = None) -> Losses:
        """Forget what was not synced: all of it, or what chance takes of it."""
        return Losses(**self._ask({"cut": None if rng is None else rng.getrandbits(32)}))

    def stop_after(self, steps: int) -> None:
        """Take so many more changes and syncs, then answer nobody.

        Who uses it stands still, and a SIGKILL ends it when the power is cut.
        """
        self._ask({"stop after": steps})

    def go_on(self) -> None:
        """Do not stop, unless it has stopped already."""
        self._ask({"stop after": None})

    @property
    def has_stopped(self) -> bool:
        return bool(self._ask({"look": True})["stopped"])

    def ignore_syncs(self, *kinds: Kind) -> None:
        """Say that those are synced, and do nothing; from now on, and for no others."""
        self._ask({"ignore": kinds})

    def _ask(self, question: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        print(json.dumps(question), file=self._process.stdin, flush=True)
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"the disk at {self.place} ended with {self._process.wait(10)}"
        return dict(json.loads(line))

    def close(self) -> None:
        """Unmount it; all that was on it is gone."""
        self._process.communicate(timeout=30)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


@contextmanager
def usable_disk(place: Path) -> Iterator[ForgetfulDisk]:
    """One for a test, which is skipped where there can be none."""
    why = refusal()
    if why is not None:
        pytest.skip(why)
    with ForgetfulDisk(place) as disk:
        yield disk


@cache
def refusal() -> str | None:
    """Why there can be no such disk here; None where there can."""
    if os.geteuid() != 0:
        return "a file system of our own needs root"
    if not os.path.exists("/dev/fuse"):
        return "a file system of our own needs FUSE, and there is no /dev/fuse"
    with tempfile.TemporaryDirectory() as directory:
        try:
            ForgetfulDisk(Path(directory) / "probe").close()
        except AssertionError:
            return "no file system of our own can be mounted here"
    return None
