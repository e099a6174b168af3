"""An acceptor gives back the place of every connection that it does not open."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable

import pytest

from entrepot.gateway.transport.acceptor import Acceptor
from entrepot.gateway.transport.intake import Intake, IntakeLimits, Place
from entrepot.protocols.proxy import ProxyHeader
from tests.support.waiting import until


class Door:
    """A listening socket with an acceptor, and the places of its connections."""

    def __init__(self) -> None:
        self.places: list[Place] = []
        self.ends = 0
        self.fails = False
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.socket.setblocking(False)
        self.address = self.socket.getsockname()
        loop = asyncio.get_running_loop()
        self.intake = Intake("test", IntakeLimits(connections=3, half_open_per_address=1), loop.time())
        self.acceptor = Acceptor(self.socket, self._begin, self.intake, 30.0)

    def _begin(self, place: Place) -> Callable[[ProxyHeader | None], asyncio.BaseProtocol]:
        if self.fails:
            raise OSError("no room")
        self.places.append(place)
        return lambda header: Held(self, place)

    async def client(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection(*self.address)


class Held(asyncio.Protocol):
    """A connection until its end."""

    def __init__(self, door: Door, place: Place) -> None:
        self._door, self._place = door, place

    def connection_lost(self, exc: Exception | None) -> None:
        self._door.ends += 1
        self._place.leave()


@pytest.fixture
async def door() -> AsyncIterator[Door]:
    made = Door()
    await made.acceptor.start()
    yield made
    made.acceptor.stop_accepting()


async def test_a_refused_connection_leaves_its_place(door: Door) -> None:
    _, first = await door.client()
    await until(lambda: door.intake.connections == 1 and not door.acceptor._opening, "it is open")
    for count in (1, 2):
        reader, refused = await door.client()
        assert await reader.read() == b"", "one half-open connection is the limit"
        await until(lambda: door.intake.connections == 1, "it has left")
        assert (door.intake.refused, door.ends) == (count, 0)
        refused.close()
    door.places[0].admitted()
    _, second = await door.client()
    await until(lambda: door.intake.connections == 2, "there is room again")
    for writer in (first, second):
        writer.close()
    await until(lambda: door.intake.connections == 0, "all are gone")
    assert door.ends == 2


async def test_a_connection_that_cannot_begin_leaves_its_place(door: Door) -> None:
    door.fails = True
    reader, writer = await door.client()
    assert await reader.read() == b""
    await until(lambda: door.intake.connections == 0, "it has left")
    assert door.intake.refused == 1
    writer.close()
