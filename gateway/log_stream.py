"""LogStream: the end of the log. It never raises into its caller, and never waits for its reader.

A log goes to a terminal, a file, a journal or a pipe. Its reader may end or pause, and a disk may fill: the server goes
on. A line that cannot be written is counted. The first line that can be written again comes after one with the count.
"""

from __future__ import annotations

import io
import os
import select
import socket
import stat
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final, TextIO

PIECE: Final = select.PIPE_BUF
"""Bytes that a pipe with room takes at once, without a wait for its reader (pipe(7))."""


class LogStream:
    """A stream of lines. `lost`: lines that could not be written, or not whole."""

    def __init__(self, stream: TextIO | None, told: Callable[[int], str] = "{} lines were lost\n".format) -> None:
        """`stream` None: closed, as Python found it. `told`: makes the line on a number of lost lines."""
        self._stream, self._told = stream, told
        self._lock = threading.RLock()
        self._encoding = getattr(stream, "encoding", None) or "utf-8"
        self._write = _without_waiting(stream)
        self._is_cut = False
        self.lost = 0
        self._untold = 0

    def write(self, text: str) -> None:
        """Write a line, or count it as lost."""
        with self._lock:
            told = self._encoded(self._told(self._untold)) if self._untold else b""
            line = self._encoded(text)
            done = self._written(told + line)  # at once: a count is not told while no line has room after it
            if done >= len(told):
                self._untold = 0
            if done < len(told) + len(line):
                self.lose()

    def lose(self) -> None:
        """Count a line that was not written."""
        self.lost += 1
        self._untold += 1

    def flush(self) -> None:
        """Nothing: no line is held back."""

    def isatty(self) -> bool:
        with suppress(OSError, ValueError):
            return self._stream is not None and self._stream.isatty()
        return False

    def _encoded(self, text: str) -> bytes:
        return text.encode(self._encoding, "backslashreplace")

    def _written(self, data: bytes) -> int:
        """Write as much as there is room for; return its length. Data after a line that was cut begin another line."""
        if self._is_cut:
            data = b"\n" + data
        done = 0
        try:
            while done < len(data) and (count := self._write(data[done:])):
                done += count
        except (OSError, ValueError):  # no reader, no room, closed
            pass
        begun = int(self._is_cut)
        if done:
            self._is_cut = done < len(data)
        return max(done - begun, 0)


def _without_waiting(stream: TextIO | None) -> Callable[[bytes], int]:
    """Return what writes bytes to a stream, as many as it takes at once. Flags of its file stay as they are: they are
    those of all processes that share it."""
    if stream is None:
        return _closed
    try:
        descriptor = stream.fileno()
        mode = os.fstat(descriptor).st_mode
    except (OSError, ValueError):  # no file, or none any more
        return partial(_to_text, stream)
    with suppress(OSError):
        if stat.S_ISSOCK(mode):
            return partial(_to_socket, socket.socket(fileno=os.dup(descriptor)))
        if stat.S_ISFIFO(mode) or os.isatty(descriptor):
            flags = os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY
            path = f"/proc/self/fd/{descriptor}"  # opened once more, it has flags of its own
            return partial(_to_pipe, io.FileIO(path, "wb", opener=lambda name, _: os.open(name, flags)))
    return partial(_to_file, descriptor)


def _closed(data: bytes) -> int:
    return 0


def _to_text(stream: TextIO, data: bytes) -> int:
    stream.write(data.decode(getattr(stream, "encoding", None) or "utf-8"))
    stream.flush()
    return len(data)


def _to_socket(channel: socket.socket, data: bytes) -> int:
    return channel.send(data, socket.MSG_DONTWAIT)


def _to_pipe(pipe: io.FileIO, data: bytes) -> int:
    return pipe.write(data) or 0  # None where it is full


def _to_file(descriptor: int, data: bytes) -> int:
    look = select.poll()
    look.register(descriptor, select.POLLOUT)
    return os.write(descriptor, data[:PIECE]) if look.poll(0) else 0
