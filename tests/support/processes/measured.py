"""Servers of tests under `make coverage`: one that a test kills writes first what of the product it has run."""

from __future__ import annotations

import os
import signal
from typing import Final

_IS_MEASURED: Final = "COVERAGE_PROCESS_START" in os.environ

KILL: Final = signal.SIGUSR1 if _IS_MEASURED else signal.SIGKILL
"""The signal by which tests kill a server: SIGKILL, which leaves no time to write, unless it is measured."""


def obey() -> None:
    """In a server, before its command runs: `KILL` ends it from here on."""
    if _IS_MEASURED:
        signal.signal(KILL, _die)


def _die(*_: object) -> None:
    import coverage

    if (running := coverage.Coverage.current()) is not None:
        running.stop()
        running.save()
    os.kill(os.getpid(), signal.SIGKILL)
