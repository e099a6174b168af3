"""Drivers on real sockets: admission, back pressure both ways, and ends, for TCP and WebSocket alike."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable

import pytest

from entrepot.gateway.transport.binding import TcpListener, bind
from entrepot.gateway.transport.deadlines import DeadlineWheel
from entrepot.gateway.transport.driver import MAX_UNREAD_BYTES, Driver, ListenerTerms
from entrepot.gateway.transport.early_bytes import EarlyBytes
from entrepot.gateway.transport.intake import Intake, IntakeLimits
from entrepot.gateway.transport.web_origin import WebOrigins
from entrepot.gateway.transport.websocket import WebSocketDriver, WebSocketTerms
from tests.support.http.websocket_client import BINARY, WebSocketClient, frame
from tests.support.waiting import until

TERMS = WebSocketTerms("/mqtt", WebOrigins(["https://page.example"]), 1 << 20)
MIB = 1 << 20


class Echo:
    """A conversation that says what it hears, is admitted at `in`, fails at `fail`, and remembers the rest."""

    def __init__(self) -> None:
        self.driver: Driver | None = None
        self.heard = bytearray()
        self.due = bytearray()
        self.ends = 0
        self.writable_again = 0

    def connected(self, driver: Driver) -> None:
        self.driver = driver

    def received(self, data: bytes, now: float) -> None:
        assert self.driver is not None
        self.heard += data
        self.due += data
        if data == b"in":
            self.driver.admitted()
        elif data == b"fail":
            raise ValueError("as was asked for")

    def data_to_send(self) -> bytes:
        data = bytes(self.due)
        self.due.clear()
        return data

    def writable(self) -> None:
        self.writable_again += 1

    def deadline(self) -> float:
        return float("inf")

    def timed_out(self, now: float) -> None: ...

    def resumed(self, now: float) -> None: ...

    def overburdened(self) -> None: ...

    def lost(self) -> None:
        self.ends += 1


class World:
    """A listener of echoes."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.echoes: list[Echo] = []
        loop = asyncio.get_running_loop()
        self.wheel = DeadlineWheel(loop)
        self.intake = Intake("test", IntakeLimits(half_open_per_address=1), loop.time())
        terms = ListenerTerms("test", self._echo, loop, self.wheel, self.intake, 64 * 1024, EarlyBytes(1 << 30))
        self._make: Callable[[], Driver] = lambda: Driver(terms, terms.converse())
        if kind == "ws":
            self._make = lambda: WebSocketDriver(terms, TERMS, terms.converse())
        bound = bind("127.0.0.1", 0)
        self.port = bound.getsockname()[1]
        self.listener = TcpListener(bound, self._make)

    def _echo(self) -> Echo:
        self.echoes.append(Echo())
        return self.echoes[-1]

    async def client(self) -> Client:
        client = Client(self.kind)
        await asyncio.to_thread(client.open, self.port)
        return client


class Client:
    """The other end; its calls block, so that they are made in threads."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def open(self, port: int) -> None:
        if self.kind == "ws":
            self._web = WebSocketClient(port)
            self.socket = self._web.socket
        else:
            self.socket = socket.create_connection(("127.0.0.1", port), 15)

    async def say(self, data: bytes) -> None:
        await asyncio.to_thread(self.socket.sendall, frame(BINARY, data) if self.kind == "ws" else data)

    async def hear(self) -> bytes:
        if self.kind == "ws":
            found = await asyncio.to_thread(self._web.read_frame)
            return found[1] if found is not None else b""
        try:
            return await asyncio.to_thread(self.socket.recv, 1 << 20)
        except ConnectionError:
            return b""


@pytest.fixture(params=["tcp", "ws"])
async def world(request: pytest.FixtureRequest) -> AsyncIterator[World]:
    made = World(request.param)
    await made.listener.start()
    yield made
    made.listener.stop_accepting()
    made.wheel.close()


async def test_whoever_is_admitted_makes_room_for_the_next(world: World) -> None:
    first = await world.client()
    await first.say(b"hello")
    assert await first.hear() == b"hello"
    assert world.intake._half_open == {"127.0.0.1": 1}
    if world.kind == "tcp":
        second = await world.client()
        assert await second.hear() == b"", "one half-open connection is the limit"
        await until(lambda: world.intake.connections == 1, "it has left")
        assert world.echoes[1].ends == 0, "it was never told of"
    await first.say(b"in")
    await until(lambda: world.intake._half_open == {}, "it is admitted")
    third = await world.client()
    await third.say(b"hello")
    assert await third.hear() == b"hello"
    for client in (first, third):
        client.socket.close()
    await until(lambda: world.intake.connections == 0, "all are gone")
    assert (world.intake._half_open, [echo.ends for echo in world.echoes if echo.heard]) == ({}, [1, 1])


async def test_a_conversation_that_fails_ends_alone(world: World) -> None:
    client = await world.client()
    await client.say(b"fail")
    assert await client.hear() == b""
    await until(lambda: world.echoes[0].ends == 1, "it was told")
    assert world.intake.connections == 0


async def test_reading_pauses_and_goes_on(world: World) -> None:
    client = await world.client()
    await client.say(b"a")
    assert await client.hear() == b"a"
    echo = world.echoes[0]
    assert echo.driver is not None
    echo.driver.pause_reading("a test")
    saying = asyncio.create_task(client.say(bytes(32 * 1024) * 1000 if world.kind == "tcp" else bytes(900_000)))
    if world.kind == "tcp":
        done, _ = await asyncio.wait([saying], timeout=0.3)
        assert not done, "the client is held up"
    assert (echo.driver.is_paused, bytes(echo.heard)) == (True, b"a")
    echo.due = Deaf()
    echo.driver.resume_reading("a test")
    await saying
    expected = 1 + (32_768_000 if world.kind == "tcp" else 900_000)
    await until(lambda: len(echo.heard) == expected, "all has come")


class Deaf(bytearray):
    """Takes nothing in."""

    def __iadd__(self, other: object) -> Deaf:  # type: ignore[override]
        return self


async def test_a_peer_that_does_not_read_congests_its_connection(world: World) -> None:
    client = await world.client()
    await client.say(b"a")
    assert await client.hear() == b"a"
    echo = world.echoes[0]
    driver = echo.driver
    assert driver is not None

    def is_congested() -> bool:
        echo.due += bytes(MIB)
        driver.flush()
        return driver.is_congested

    await until(is_congested, "the buffers are full")
    heard = 0
    while not echo.writable_again:
        heard += len(await client.hear())
    assert heard > 0
    assert not driver.is_congested


async def test_a_peer_that_reads_no_answers_is_not_read(world: World) -> None:
    """It says more and more, and everything is answered: what waits for it is bounded, and nothing is lost."""
    client = await world.client()
    await client.say(b"a")
    assert await client.hear() == b"a"
    echo = world.echoes[0]
    driver = echo.driver
    assert driver is not None
    size = 24 * MIB
    piece = bytes(64 * 1024)

    async def say_all() -> None:
        for _ in range(size // len(piece)):
            await client.say(piece)

    most = 0

    def watch() -> int:
        nonlocal most
        if driver._transport is not None:
            most = max(most, driver._transport.get_write_buffer_size())
        return most

    saying = asyncio.create_task(say_all())
    await until(lambda: watch() > MAX_UNREAD_BYTES or saying.done(), "it is over the limit")
    said, still = len(echo.heard), 0
    while still < 20 and not saying.done():  # until nothing moves any more
        await asyncio.sleep(0.01)
        watch()
        said, still = (said, still + 1) if len(echo.heard) == said else (len(echo.heard), 0)
    assert not saying.done(), "the peer is held up"
    assert not driver.is_paused, "nobody else wanted that: its keep alive runs"
    assert most <= MAX_UNREAD_BYTES + 2 * MIB
    heard = 1
    while heard < size + 1:
        heard += len(await client.hear())
    await saying


@pytest.mark.parametrize(
    ("origin", "status"), [("https://PAGE.example", 101), ("https://other.example", 403), (None, 101)]
)
async def test_origins(origin: str | None, status: int) -> None:
    world = World("ws")
    await world.listener.start()
    headers = {"Origin": origin} if origin is not None else {}
    client = await asyncio.to_thread(lambda: WebSocketClient(world.port, **headers))
    assert client.status == status
    client.socket.close()
    await until(lambda: world.intake.connections == 0, "it is gone")
    world.listener.stop_accepting()
    world.wheel.close()
