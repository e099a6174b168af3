"""The standard streams of a command: all three are open, and a failed write has one meaning.

Of standard output it is an OutputError, and `app.run` makes an exit code of it. Of standard error it is nothing: nobody
could be told.
"""

from __future__ import annotations

import io
import os
import select
import sys
from contextlib import suppress
from typing import Any, Final, TextIO

_CLOSED: Final = ((0, os.O_WRONLY), (1, os.O_RDONLY), (2, os.O_RDONLY))
"""The standard descriptors, and how a closed one is opened: for the other way, so that its use fails as before."""


class OutputError(Exception):
    """Standard output cannot be written. It is not an OSError: the parser would take that for its own."""

    def __init__(self, error: OSError) -> None:
        super().__init__(error.strerror or str(error))
        self.is_of_reader = isinstance(error, BrokenPipeError)


class _Output(io.FileIO):
    """Standard output. It waits for its reader also where another process made it non-blocking."""

    def write(self, data: Any) -> int:
        try:
            while (count := super().write(data)) is None:
                select.select([], [self], [])
        except OSError as error:
            raise OutputError(error) from error
        return count


class _Errors(io.FileIO):
    """Standard error."""

    def write(self, data: Any) -> int:
        with suppress(OSError):
            super().write(data)
        return len(data)


def open_streams() -> None:
    """Open the standard descriptors that are closed, and `sys`'s streams over them. Call it before anything else is
    opened: a socket would get the number of a closed one, and what is written there."""
    for descriptor, way in _CLOSED:
        try:
            os.fstat(descriptor)
        except OSError:
            opened = os.open(os.devnull, way)
            if opened == descriptor:
                os.set_inheritable(descriptor, True)
            else:
                os.dup2(opened, descriptor)
                os.close(opened)
    if sys.stdin is None:
        sys.stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(0, closefd=False)))
    sys.stdout = _text(_Output(1, "wb", closefd=False), sys.stdout)
    sys.stderr = _text(_Errors(2, "wb", closefd=False), sys.stderr)


def discard_output() -> None:
    """Send what standard output still holds to nobody: another complaint at the exit would only confuse."""
    nobody = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nobody, 1)
    os.close(nobody)


def _text(raw: io.FileIO, like: TextIO | None) -> io.TextIOWrapper:
    return io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding=getattr(like, "encoding", None) or "utf-8",
        errors="backslashreplace" if (errors := getattr(like, "errors", None)) in (None, "strict") else errors,
        line_buffering=raw.isatty() or raw.fileno() == 2,
        write_through=bool(getattr(like, "write_through", False)),
    )
