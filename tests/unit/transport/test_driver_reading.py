"""When a driver reads its peer, and what it gives back at the end, without a socket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from entrepot.gateway.transport.deadlines import DeadlineWheel
from entrepot.gateway.transport.driver import MAX_UNREAD_BYTES, Driver, ListenerTerms
from entrepot.gateway.transport.early_bytes import EarlyBytes
from entrepot.gateway.transport.intake import Intake, IntakeLimits


class Wire(asyncio.Transport):
    """A transport whose peer reads only when it is told to."""

    def __init__(self) -> None:
        super().__init__({"peername": ("127.0.0.1", 5), "sockname": ("127.0.0.1", 6)})
        self.unread = 0
        self.is_read = True
        self.is_over = False

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...

    def get_write_buffer_size(self) -> int:
        return self.unread

    def write(self, data: Any) -> None:
        self.unread += len(data)

    def pause_reading(self) -> None:
        self.is_read = False

    def resume_reading(self) -> None:
        self.is_read = True

    def is_closing(self) -> bool:
        return self.is_over

    def close(self) -> None:
        self.is_over = True

    abort = close


class Talk:
    """A conversation that answers each piece with so many bytes."""

    answers = 0

    def __init__(self) -> None:
        self.due = b""
        self.resumptions = 0
        self.heard = 0

    def connected(self, driver: Driver) -> None: ...

    def received(self, data: bytes, now: float) -> None:
        self.heard += len(data)
        self.due += bytes(self.answers)

    def data_to_send(self) -> bytes:
        data, self.due = self.due, b""
        return data

    def writable(self) -> None: ...

    def deadline(self) -> float:
        return float("inf")

    def timed_out(self, now: float) -> None: ...

    def resumed(self, now: float) -> None:
        self.resumptions += 1

    def overburdened(self) -> None: ...

    def lost(self) -> None: ...


class Line:
    """A driver between the two."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.wheel, self.early = DeadlineWheel(loop), EarlyBytes(1 << 20)
        intake = Intake("test", IntakeLimits(), loop.time())
        self.talk, self.wire = Talk(), Wire()
        terms = ListenerTerms("test", lambda: self.talk, loop, self.wheel, intake, 64 * 1024, self.early)
        self.driver = Driver(terms, self.talk)
        self.driver.connection_made(self.wire)


@pytest.fixture
async def line() -> AsyncIterator[Line]:
    made = Line()
    yield made
    made.wheel.close()


async def test_deliveries_that_wait_are_no_answers(line: Line) -> None:
    """A slow subscriber is heard all the same; one that reads no answers is not."""
    line.driver.admitted()
    line.wire.unread = 3 * MAX_UNREAD_BYTES  # deliveries
    line.driver.pause_writing()
    line.talk.answers = 4
    line.driver.data_received(b"an acknowledgement")
    assert (line.wire.is_read, line.driver.is_choked) == (True, False)
    line.talk.answers = MAX_UNREAD_BYTES
    line.driver.data_received(b"a question")
    assert (line.wire.is_read, line.driver.is_choked, line.driver.is_paused) == (False, True, False)
    line.driver.resume_writing()
    assert (line.wire.is_read, line.driver.is_choked) == (True, False)


async def test_it_is_read_again_after_the_last_reason_has_gone(line: Line) -> None:
    line.driver.pause_reading("one")
    line.driver.pause_reading("two")
    line.driver.pause_reading("two")
    line.driver.resume_reading("two")
    line.driver.resume_reading("three")
    assert (line.wire.is_read, line.talk.resumptions) == (False, 0)
    line.driver.resume_reading("one")
    assert (line.wire.is_read, line.talk.resumptions) == (True, 1)


@pytest.mark.parametrize("logs_in", [False, True])
async def test_bytes_before_the_login_are_given_back(line: Line, logs_in: bool) -> None:
    line.driver.data_received(bytes(500))
    assert line.early.held == 500
    if logs_in:
        line.driver.admitted()
        assert line.early.held == 0
        line.driver.data_received(bytes(500))
        assert line.early.held == 0
    line.driver.connection_lost(None)
    assert line.early.held == 0
    assert line.talk.heard == 500 * (1 + logs_in)
