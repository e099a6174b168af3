"""Reasons not to read, on a transport that only notes what it is asked for."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from entrepot.gateway.transport.driver import MAX_UNREAD_BYTES, Driver, ListenerTerms
from entrepot.gateway.transport.early_bytes import EarlyBytes
from entrepot.gateway.transport.intake import Intake, IntakeLimits


class Wheel:
    """Notes whose deadline is looked at anew."""

    def __init__(self) -> None:
        self.moved = 0

    def add(self, _: object) -> None:
        self.moved += 1

    def remove(self, _: object) -> None: ...


class Transport(asyncio.Transport):
    """Notes what it is asked for.  `unwritten`: bytes that the peer does not read."""

    def __init__(self) -> None:
        super().__init__()
        self.is_reading_now, self.unwritten, self.ends = True, 0, 0

    def pause_reading(self) -> None:
        self.is_reading_now = False

    def resume_reading(self) -> None:
        self.is_reading_now = True

    def is_closing(self) -> bool:
        return self.ends > 0

    def close(self) -> None:
        self.ends += 1

    abort = close

    def get_write_buffer_size(self) -> int:
        return self.unwritten

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...

    def write(self, data: Any) -> None:
        self.unwritten += len(data)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("127.0.0.1", 7) if name in ("peername", "sockname") else default


class Conversation:
    """Notes when it is told that reading goes on."""

    def __init__(self) -> None:
        self.resumed_at: list[float] = []
        self.heard = b""
        self.writable_again = self.ends = 0

    def connected(self, _: Driver) -> None: ...

    def received(self, data: bytes, now: float) -> None:
        self.heard += data

    def data_to_send(self) -> bytes:
        return b""

    def deadline(self) -> float:
        return float("inf")

    def resumed(self, now: float) -> None:
        self.resumed_at.append(now)

    def writable(self) -> None:
        self.writable_again += 1

    def lost(self) -> None:
        self.ends += 1


class World:
    """A connected driver, and what is around it."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.wheel, self.transport, self.conversation = Wheel(), Transport(), Conversation()
        intake = Intake("test", IntakeLimits(), loop.time())
        terms = ListenerTerms(
            "test",
            lambda: cast(Any, self.conversation),
            loop,
            cast(Any, self.wheel),
            intake,
            64 * 1024,
            EarlyBytes(1 << 30),
        )
        self.driver = Driver(terms, cast(Any, self.conversation))
        self.driver.connection_made(self.transport)
        self.wheel.moved = 0


@pytest.fixture
async def world() -> World:
    return World()


async def test_it_reads_on_after_the_last_reason(world: World) -> None:
    driver, transport, told = world.driver, world.transport, world.conversation.resumed_at
    driver.pause_reading("a")
    driver.pause_reading("b")
    driver.pause_reading("a")
    assert (set(driver.pauses), driver.is_paused, transport.is_reading_now) == ({"a", "b"}, True, False)
    driver.resume_reading("a")
    driver.resume_reading("a")
    driver.resume_reading("c")
    assert (set(driver.pauses), transport.is_reading_now, told, world.wheel.moved) == ({"b"}, False, [], 0)
    before = asyncio.get_running_loop().time()
    driver.resume_reading("b")
    assert (driver.is_paused, transport.is_reading_now, world.wheel.moved) == (False, True, 1)
    assert len(told) == 1
    assert told[0] >= before
    driver.resume_reading("b")
    assert len(told) == 1, "what is no reason changes nothing"


async def test_a_peer_that_does_not_read_is_its_own_reason(world: World) -> None:
    driver, transport = world.driver, world.transport
    transport.unwritten = 100
    driver.pause_writing()
    transport.unwritten += MAX_UNREAD_BYTES
    driver.data_received(b"x")
    assert (driver.is_choked, transport.is_reading_now) == (False, True), "as much may wait"
    transport.unwritten += 1
    driver.data_received(b"x")
    assert (driver.is_choked, driver.is_paused, transport.is_reading_now) == (True, False, False)
    driver.pause_reading("a")
    driver.resume_reading("a")
    assert not transport.is_reading_now, "it does not read yet"
    driver.pause_reading("a")
    driver.resume_writing()
    assert (driver.is_choked, transport.is_reading_now, world.conversation.writable_again) == (False, False, 1)
    driver.resume_reading("a")
    assert transport.is_reading_now


async def test_deliveries_are_not_unread_answers(world: World) -> None:
    """They have a limit of their own: the conversation sends none to a congested peer."""
    driver, transport = world.driver, world.transport
    driver.pause_writing()
    transport.unwritten = MAX_UNREAD_BYTES + 1
    driver.delivered()
    driver.data_received(b"x")
    assert not driver.is_choked
    transport.unwritten += MAX_UNREAD_BYTES + 1
    driver.data_received(b"x")
    assert driver.is_choked


async def test_nothing_is_asked_of_a_connection_that_is_gone(world: World) -> None:
    driver = world.driver
    driver.pause_reading("a")
    driver.connection_lost(None)
    assert (driver.is_paused, world.conversation.ends) == (False, 1)
    driver.resume_reading("a")
    driver.pause_reading("b")
    driver.connection_lost(None)
    assert (driver.is_paused, world.conversation.resumed_at, world.conversation.ends) == (False, [], 1)


async def test_a_closing_connection_does_not_read_on(world: World) -> None:
    driver, transport = world.driver, world.transport
    driver.pause_reading("a")
    driver.close()
    driver.resume_reading("a")
    assert (transport.is_reading_now, world.conversation.resumed_at) == (False, [])
