"""The end of the log: nothing of it raises into its caller or waits for its reader, and what is lost is counted."""

from __future__ import annotations

import errno
import fcntl
import io
import os
import pty
import socket
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TextIO

import pytest

from entrepot.gateway.log_stream import LogStream
from tests.support.waiting import PATIENCE_SECONDS

LINE = "x" * 999 + "\n"


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def text(stack: ExitStack, descriptor: int, encoding: str = "utf-8") -> TextIO:
    """A text stream like `sys.stderr` over a descriptor."""
    return stack.enter_context(os.fdopen(descriptor, "w", encoding=encoding))


def pipe(stack: ExitStack) -> tuple[int, TextIO]:
    """The reading end, and a stream over the writing end."""
    reading, writing = os.pipe()
    return reading, text(stack, writing)


def fill(stream: LogStream) -> int:
    """Write lines until one is lost; the number of those written."""
    written = 0
    while not stream.lost:
        stream.write(LINE)
        written += 1
    return written - 1


def drained(descriptor: int) -> bytes:
    """What can be read at once."""
    os.set_blocking(descriptor, False)
    found = b""
    while True:
        try:
            piece = os.read(descriptor, 1 << 20)
        except BlockingIOError:
            return found
        if not piece:
            return found
        found += piece


def test_lines_reach_a_pipe_at_once(stack: ExitStack) -> None:
    reading, writer = pipe(stack)
    stack.callback(os.close, reading)
    stream = LogStream(writer)
    stream.write("one\n")
    stream.write("zwölf\n")
    assert drained(reading) == "one\nzwölf\n".encode()
    assert stream.lost == 0


def test_a_reader_that_ends_and_never_comes_back(stack: ExitStack) -> None:
    reading, writer = pipe(stack)
    stream = LogStream(writer)
    os.close(reading)
    for count in (1, 2, 3):
        stream.write(LINE)
        assert stream.lost == count


def test_a_stream_whose_reader_had_ended_before(stack: ExitStack) -> None:
    reading, writer = pipe(stack)
    os.close(reading)
    stream = LogStream(writer)
    stream.write(LINE)
    assert stream.lost == 1


def test_a_full_pipe_is_not_waited_for_and_what_was_lost_is_told_once(stack: ExitStack) -> None:
    reading, writer = pipe(stack)
    stack.callback(os.close, reading)
    stream = LogStream(writer, "{} lost\n".format)
    written = fill(stream)
    for _ in range(4):
        stream.write(LINE)
    assert stream.lost == 5
    first = drained(reading)
    assert first.startswith(LINE.encode() * written)
    stream.write("back\n")
    stream.write("again\n")
    whole = first + drained(reading)
    assert whole.endswith(b"\n5 lost\nback\nagain\n"), whole[-100:]
    assert stream.lost == 5
    cut = whole.removeprefix(LINE.encode() * written).removesuffix(b"5 lost\nback\nagain\n").rstrip(b"\n")
    assert set(cut) <= {ord("x")}, "what follows a line that was cut begins a line of its own"


class Room:
    """The end of a stream that has room for so many bytes; `got`: what it took."""

    def __init__(self, stream: LogStream) -> None:
        self.left, self.got = 0, b""
        stream._write = self.take

    def take(self, data: bytes) -> int:
        taken = data[: self.left]
        self.left -= len(taken)
        self.got += taken
        return len(taken)


def test_a_line_that_was_cut_ends_before_the_next_one() -> None:
    stream = LogStream(None, "{} lost\n".format)
    room = Room(stream)
    room.left = 4
    stream.write("abcdef\n")
    assert stream.lost == 1
    room.left = 100
    stream.write("next\n")
    stream.write("last\n")
    assert room.got == b"abcd\n1 lost\nnext\nlast\n"
    assert stream.lost == 1


@pytest.mark.parametrize("room_for", [6, 7, 8, 11])
def test_a_count_that_is_told_whole_is_not_told_again(room_for: int) -> None:
    stream = LogStream(None, "{} lost\n".format)
    room = Room(stream)
    for _ in range(3):
        stream.write("abc\n")
    room.left = room_for  # the count takes 7, the line 4
    stream.write("abc\n")
    room.left = 100
    stream.write("next\n")
    untold = {6: 4, 7: 1, 8: 1, 11: 0}[room_for]
    assert stream.lost == 3 + (room_for < 11)
    assert room.got.endswith(f"{untold} lost\nnext\n".encode() if untold else b"3 lost\nabc\nnext\n"), room.got


def test_flags_of_the_pipe_stay_as_they_are(stack: ExitStack) -> None:
    """They are those of every process that has it, as a shell does."""
    reading, writer = pipe(stack)
    stack.callback(os.close, reading)
    before = fcntl.fcntl(writer, fcntl.F_GETFL)
    fill(LogStream(writer))
    assert fcntl.fcntl(writer, fcntl.F_GETFL) == before


def test_a_pipe_that_cannot_be_opened_again(stack: ExitStack, monkeypatch: pytest.MonkeyPatch) -> None:
    """As after a change of user: pieces go out that surely find room."""
    reading, writer = pipe(stack)
    stack.callback(os.close, reading)

    def refused(*_: Any, **__: Any) -> int:
        raise PermissionError(errno.EACCES, "no")

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", refused)
        stream = LogStream(writer, "{} lost\n".format)
    stream.write("one\n")
    assert drained(reading) == b"one\n"
    fill(stream)
    drained(reading)
    stream.write("back\n")
    assert drained(reading).endswith(b"1 lost\nback\n")


def test_a_socket_as_of_a_journal(stack: ExitStack) -> None:
    ours, theirs = socket.socketpair()
    stack.enter_context(theirs)
    stream = LogStream(text(stack, ours.detach()), "{} lost\n".format)
    fill(stream)
    drained(theirs.fileno())
    stream.write("back\n")
    assert drained(theirs.fileno()).endswith(b"1 lost\nback\n")
    theirs.close()
    stream.write(LINE)
    assert stream.lost == 2


def test_a_terminal_that_is_stopped(stack: ExitStack) -> None:
    screen, line = pty.openpty()
    stack.callback(os.close, screen)
    stream = LogStream(text(stack, line))
    assert stream.isatty()
    stream.write("one\n")
    assert drained(screen) == b"one\r\n"
    termios.tcflow(line, termios.TCOOFF)  # Ctrl-S
    fill(stream)
    termios.tcflow(line, termios.TCOON)


def test_a_full_disk(stack: ExitStack) -> None:
    stream = LogStream(text(stack, os.open("/dev/full", os.O_WRONLY)))
    stream.write(LINE)
    stream.write(LINE)
    assert stream.lost == 2


def test_a_file_gets_every_line(stack: ExitStack, tmp_path: Path) -> None:
    file = tmp_path / "log"
    stream = LogStream(stack.enter_context(file.open("w", encoding="utf-8")))
    lines = [f"{number}{LINE * 9}" for number in range(3)]
    for line in lines:
        stream.write(line)
    assert file.read_text() == "".join(lines)
    assert not stream.isatty() and stream.lost == 0


def test_streams_that_are_closed(stack: ExitStack, tmp_path: Path) -> None:
    closed = (tmp_path / "log").open("w")
    closed.close()
    for each in (None, closed):
        stream = LogStream(each)
        stream.write(LINE)
        assert stream.lost == 1 and not stream.isatty()


def test_a_stream_without_a_file() -> None:
    """As a test or a shell within Python has it."""
    out = io.StringIO()
    stream = LogStream(out)
    stream.write("one\n")
    assert out.getvalue() == "one\n"
    out.close()
    stream.write("two\n")
    assert stream.lost == 1


def test_what_the_encoding_lacks_is_escaped(stack: ExitStack) -> None:
    reading, writing = os.pipe()
    stack.callback(os.close, reading)
    stream = LogStream(text(stack, writing, "ascii"))
    stream.write("zw\u00f6lf \udcff\n")
    assert drained(reading) == rb"zw\xf6lf \udcff" + b"\n"


PROGRAM = """
import os, sys
from entrepot.gateway.cli.streams import open_streams
open_streams()
import logging, socket, structlog
from entrepot.gateway.log import configure_logging, lost_lines
configure_logging("info", "json")
ours, theirs = socket.socketpair()
assert min(ours.fileno(), theirs.fileno()) > 2, "no socket has the number of a standard stream"
structlog.get_logger().info("one")
logging.getLogger("x").error("two")
theirs.setblocking(False)
try:
    assert not theirs.recv(1)
except BlockingIOError:
    pass
os._exit(40 + lost_lines())
"""


def test_closed_standard_streams_abort_nothing_and_no_other_file_gets_the_log() -> None:
    command = ["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", sys.executable, "-c", PROGRAM]
    assert subprocess.run(command, timeout=PATIENCE_SECONDS).returncode == 42
