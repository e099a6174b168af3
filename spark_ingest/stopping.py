"""Ending by a signal to the process: SIGTERM and SIGINT end a job cleanly, whatever it is at.

A signal may come within a call to Spark's own process, which is not a place for another call: so the query is stopped
where the job looks for it. A service manager may send the signal to that process, too: its errors are not a failure.
"""

from __future__ import annotations

import logging
import signal
import socketserver
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGTERM, signal.SIGINT)


def _keep_quiet() -> None:
    """Have nobody write stacks of connections to a Spark that may have ended first."""
    socketserver.BaseServer.handle_error = lambda *_: None  # type: ignore[method-assign]
    logging.disable(logging.CRITICAL)


class StoppedError(BaseException):
    """The process was told to end. No handler of faults takes it for one."""


class Stopping:
    """The wish to end. `is_wanted`: a signal has come. `has_spark`: from now on only `check` and `is_wanted` end the
    job."""

    def __init__(self) -> None:
        self.is_wanted = self.has_spark = False

    def check(self) -> None:
        """Raise StoppedError if it is wanted."""
        if self.is_wanted:
            raise StoppedError

    def _stop(self, _number: int, _frame: FrameType | None) -> None:
        self.is_wanted = True
        if not self.has_spark:
            raise StoppedError
        _keep_quiet()

    @contextmanager
    def listening(self) -> Iterator[None]:
        """End with nothing more to tell where a signal comes. A batch under way is given up: the next start repeats
        it."""
        before = {number: signal.signal(number, self._stop) for number in SIGNALS}
        try:
            yield
        except StoppedError:
            pass
        except Exception:
            if not self.is_wanted:
                raise
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
