"""Limits of a gRPC connection: strangers, uploads that do not end, clients that do not read, and their answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import Any

import pytest

from entrepot.domain.descriptors import Descriptors
from entrepot.gateway.rocketmq.grpc.call import Call, Conversing, Streamed, Unary
from entrepot.gateway.rocketmq.grpc.conversation import ADMITTED_ANSWERS, INBOX_BYTES
from entrepot.gateway.rocketmq.grpc.server import GrpcServer
from entrepot.protocols.grpc.messages import framed
from entrepot.protocols.grpc.status import Status, trailers
from entrepot.protocols.http2.frames import (
    DATA,
    HEADERS,
    INITIAL_WINDOW_SIZE,
    MAX_CONCURRENT_STREAMS,
    PING,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    ErrorCode,
    frame,
    number_frame,
)
from tests.support.http2.peer import GET, Frame, data, head
from tests.support.rocketmq.grpc_site import EARLY_BYTES, GrpcSite
from tests.support.rocketmq.raw_grpc import RawGrpc
from tests.support.waiting import until

MAX_BYTES = 1 << 17
KNOWN = (b"known", b"yes")
LATE = "the request did not come in time"
Serve = Callable[..., Any]


class Service:
    """Methods that admit a caller who says so, and count what happens."""

    def __init__(self) -> None:
        self.begun = self.ended = self.written = 0

    def look_at(self, call: Call) -> None:
        if KNOWN[0] in call.fields:
            call.admitted()

    async def echo(self, question: bytes, call: Call) -> bytes:
        self.look_at(call)
        return question

    async def wait(self, question: bytes, call: Call) -> bytes:
        self.look_at(call)
        self.begun += 1
        try:
            await asyncio.Event().wait()
        finally:
            self.ended += 1
        return b""

    async def pour(self, question: bytes, call: Call) -> None:
        self.look_at(call)
        self.begun += 1
        try:
            while True:
                await call.write(bytes(10_000))
                self.written += 1
        finally:
            self.ended += 1

    async def hear(self, call: Call) -> AsyncGenerator[bytes, None]:
        """Take requests one by one, each as long as the answer before has no room."""
        self.look_at(call)
        async for question in call:
            yield question

    def methods(self) -> dict[bytes, Any]:
        return {
            b"/Echo": Unary(bytes, self.echo, bytes),
            b"/Wait": Unary(bytes, self.wait, bytes),
            b"/Pour": Streamed(bytes, self.pour, bytes),
            b"/Hear": Conversing(bytes, self.hear, bytes),
        }


@pytest.fixture
def service() -> Service:
    return Service()


@pytest.fixture
async def serve(service: Service) -> AsyncIterator[Serve]:
    sites = []

    async def make(**settings: Any) -> GrpcSite:
        site = GrpcSite(service.methods(), max_request_bytes=MAX_BYTES, **settings)
        sites.append(site)
        await site.start()
        return site

    yield make
    for site in sites:
        await site.stop(0.1)
        assert not site.terms.tasks
        assert site.early.held == 0


def is_reset(stream: int) -> Callable[[Frame], bool]:
    return lambda each: each.kind == RST_STREAM and each.stream == stream


def conversations(server: GrpcServer) -> list[Any]:
    return list(server._conversations)


# -- strangers ---------------------------------------------------------------------------------------------------------


async def test_who_does_not_greet_is_let_go(serve: Serve):
    site = await serve(handshake_timeout_seconds=0.1)
    reader, writer = await asyncio.open_connection("127.0.0.1", site.port)
    assert b"the client has not greeted in time" in await reader.read()
    writer.close()


async def test_who_makes_no_call_that_is_known_is_let_go(serve: Serve):
    site = await serve(request_seconds=0.2)
    async with RawGrpc(site.port) as stranger, RawGrpc(site.port) as known:
        stranger.ask(1, b"/Echo")
        stranger.send(data(1, framed(b"x"), is_last=True))
        known.ask(1, b"/Echo", KNOWN)
        known.send(data(1, framed(b"x"), is_last=True))
        assert await stranger.goodbye() == (ErrorCode.NO_ERROR, "no call of a known client has come in time")
        assert (await known.answer(1))[0] == framed(b"x")
        known.send(frame(PING, 0, 0, bytes(8)))
        await known.until(lambda each: each.kind == PING)


async def test_a_stranger_has_fewer_streams(serve: Serve, service: Service):
    site = await serve(max_streams=300)
    async with RawGrpc(site.port) as client:
        for number in range(1, 203, 2):
            client.ask(number, b"/Wait")
            client.send(data(number, framed(b""), is_last=True))
        assert (await client.until(is_reset(201))).number == ErrorCode.REFUSED_STREAM
        client.send(number_frame(RST_STREAM, 1, 8))
        client.ask(203, b"/Echo", KNOWN)
        client.send(data(203, framed(b""), is_last=True))
        told = await client.until(lambda each: each.kind == SETTINGS and each.payload)
        assert told.payload == MAX_CONCURRENT_STREAMS.to_bytes(2, "big") + (300).to_bytes(4, "big")
        client.ask(205, b"/Wait")
        client.send(data(205, framed(b""), is_last=True))
        client.ask(207, b"/Wait")
        client.send(data(207, framed(b""), is_last=True))
        await until(lambda: service.begun == 102, "calls beyond those of a stranger")


async def test_strangers_together_may_hold_so_much(serve: Serve):
    """Also where each keeps to its own limit: the bound of all doors, of bytes before the login."""
    site = await serve()
    half = framed(bytes(MAX_BYTES))[: MAX_BYTES - 1000]
    parts = [half[at : at + 10_000] for at in range(0, len(half), 10_000)]
    clients = [RawGrpc(site.port) for _ in range(EARLY_BYTES // len(half) + 1)]
    for client in clients:
        await client.__aenter__()
        client.ask(1, b"/Echo")
        client.send(*(data(1, part) for part in parts))
    code, text = await clients[-1].goodbye()
    assert (code, text) == (ErrorCode.ENHANCE_YOUR_CALM, "clients that have not logged in send too much")
    assert len(conversations(site.server)) < len(clients)
    for client in clients:
        await client.__aexit__(None, None, None)


async def test_one_stranger_keeps_one_request(serve: Serve):
    site = await serve()
    async with RawGrpc(site.port) as client:
        part = framed(bytes(MAX_BYTES))[:16_000]
        for number in range(1, 29, 2):
            client.ask(number, b"/Echo")
            client.send(data(number, part))
        _, fields = await client.answer(25)
        assert fields[b"grpc-status"] == b"%d" % Status.RESOURCE_EXHAUSTED


async def test_connections_beyond_the_limit_are_closed(serve: Serve):
    site = await serve(max_connections=2)
    async with RawGrpc(site.port), RawGrpc(site.port), RawGrpc(site.port) as third:
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            await third.frame()


async def test_too_few_descriptors_are_told(serve: Serve, monkeypatch: pytest.MonkeyPatch):
    site = await serve()
    monkeypatch.setattr(Descriptors, "are_scarce", property(lambda _: True))
    async with RawGrpc(site.port) as client:
        code, text = await client.goodbye()
        assert (code, text) == (ErrorCode.ENHANCE_YOUR_CALM, "too many files and connections are open")


async def test_requests_of_other_programs_are_told_where_they_are(serve: Serve):
    site = await serve()
    async with RawGrpc(site.port) as client:
        client.send(head(1, is_last=True, fields=GET), head(3, fields=GET), data(3, b"x" * 1000))
        found, fields = await client.answer(1)
        assert fields[b":status"] == b"405"
        assert b"this port speaks gRPC" in found
        client.send(data(3, b"", is_last=True))
        assert (await client.answer(3))[1][b":status"] == b"405"


# -- uploads -----------------------------------------------------------------------------------------------------------


async def test_an_upload_that_does_not_end(serve: Serve):
    site = await serve(request_seconds=0.4)
    async with RawGrpc(site.port) as client:
        client.ask(1, b"/Echo", KNOWN)
        client.send(data(1, framed(b""), is_last=True))
        await client.answer(1)
        client.ask(3, b"/Echo")
        client.send(data(3, framed(bytes(1000))[:500]))
        client.ask(5, b"/Hear")
        client.send(data(5, framed(b"whole") + framed(bytes(1000))[:500]))
        client.ask(7, b"/Hear")
        client.send(data(7, framed(b"whole")))
        ended = [await client.until(lambda each: each.kind == HEADERS and each.flags & 1) for _ in range(2)]
        assert {each.stream for each in ended} == {3, 5}
        assert all(trailers(Status.DEADLINE_EXCEEDED, LATE) in each.payload for each in ended)
        client.send(data(7, framed(b"more"), is_last=True))
        assert (await client.answer(7))[1][b"grpc-status"] == b"0", "one that is silent between requests may be"


@pytest.mark.parametrize("body", [b"", b"\0\0\0", framed(b"a") + framed(b"b"), framed(b"abc")[:6]])
async def test_requests_that_are_not_one_message(serve: Serve, body: bytes):
    site = await serve()
    async with RawGrpc(site.port) as client:
        client.ask(1, b"/Echo")
        client.send(data(1, body, is_last=True))
        assert (await client.answer(1))[1][b"grpc-status"] == b"%d" % Status.INVALID_ARGUMENT


async def test_requests_that_nobody_takes_get_no_more_room(serve: Serve):
    """A client that talks and does not listen is not read beyond its window, and a part of it goes on with it."""
    site = await serve(write_buffer_bytes=1000)
    async with RawGrpc(site.port, (INITIAL_WINDOW_SIZE, 0)) as client:
        client.ask(1, b"/Hear", KNOWN)
        for _ in range(INBOX_BYTES // 10_000 + 2):
            client.send(data(1, framed(bytes(10_000))))
        client.ask(3, b"/Echo")
        client.send(data(3, framed(b"x"), is_last=True), number_frame(WINDOW_UPDATE, 3, 100))
        assert (await client.answer(3))[0] == framed(b"x")
        [talk] = conversations(site.server)
        [call] = talk._calls.values()
        assert INBOX_BYTES < call.inbox_bytes <= talk._held
        client.send(*(number_frame(WINDOW_UPDATE, stream, 1 << 20) for stream in (0, 1)), data(1, b"", is_last=True))
        found, fields = await client.answer(1)
        assert len(found) == 10_005 * (INBOX_BYTES // 10_000 + 2)
        assert fields[b"grpc-status"] == b"0"
        assert talk._held == 0


# -- clients that do not read ------------------------------------------------------------------------------------------


async def test_answers_that_wait_are_bounded_and_end(serve: Serve, service: Service):
    """Windows never open: the calls write no more than the limit together, and end for want of a reader."""
    site = await serve(write_buffer_bytes=4_000, request_seconds=0.5)
    async with RawGrpc(site.port, (INITIAL_WINDOW_SIZE, 0)) as client:
        for number in range(1, 61, 2):
            client.ask(number, b"/Pour", KNOWN)
            client.send(data(number, framed(b""), is_last=True))
        await until(lambda: service.begun == 30, "the calls have begun")
        [talk] = conversations(site.server)
        most = 4_000 * ADMITTED_ANSWERS
        assert most < talk._machine.waiting_bytes <= most + 10_005
        found = {(await client.until(lambda each: each.kind == RST_STREAM)).number for _ in range(30)}
        assert found == {ErrorCode.CANCEL}
        await until(lambda: service.ended == 30, "the calls have ended")
        assert talk._machine.waiting_bytes == 0
        client.ask(61, b"/Echo")
        client.send(data(61, framed(b""), is_last=True), number_frame(WINDOW_UPDATE, 61, 100))
        assert (await client.answer(61))[1][b"grpc-status"] == b"0"


async def test_calls_that_wait_for_others_have_their_turn(serve: Serve):
    """What one leaves free another one takes, until all answers are there."""
    site = await serve(write_buffer_bytes=2_000)
    async with RawGrpc(site.port, (INITIAL_WINDOW_SIZE, 0)) as client:
        numbers = range(1, 41, 2)
        for number in numbers:
            client.ask(number, b"/Echo", KNOWN)
            client.send(data(number, framed(bytes(10_000)), is_last=True))
        client.send(number_frame(WINDOW_UPDATE, 0, 1 << 20))
        for number in numbers:
            client.send(number_frame(WINDOW_UPDATE, number, 20_000))
        left = set(numbers)
        while left:
            ended = await client.until(lambda each: each.flags & 1 and each.stream in left and each.kind != DATA)
            left.discard(ended.stream)


async def test_a_deadline_ends_a_call_that_waits_for_its_reader(serve: Serve, service: Service):
    site = await serve()
    async with RawGrpc(site.port, (INITIAL_WINDOW_SIZE, 100)) as client:
        client.ask(1, b"/Pour", KNOWN, (b"grpc-timeout", b"200m"))
        client.send(data(1, framed(b""), is_last=True))
        assert (await client.until(is_reset(1))).number == ErrorCode.CANCEL
        await until(lambda: service.ended == 1, "the call has ended")


async def test_a_slow_reader_is_waited_for(serve: Serve, service: Service):
    """It takes longer than the limit, and a part of the answer each time."""
    site = await serve(request_seconds=0.5)
    async with RawGrpc(site.port, (INITIAL_WINDOW_SIZE, 0)) as client:
        client.ask(1, b"/Echo", KNOWN)
        client.send(data(1, framed(bytes(100)), is_last=True))
        [talk] = conversations(site.server)
        await until(lambda: talk._calls and talk._machine.waiting_bytes, "the answer waits")
        [call] = talk._calls.values()
        for _ in range(3):
            looked = call.stalled_until
            client.send(number_frame(WINDOW_UPDATE, 1, 10))
            await until(lambda looked=looked: call.stalled_until > looked, "it was looked at")
        client.send(number_frame(WINDOW_UPDATE, 1, 1000))
        assert (await client.answer(1))[1][b"grpc-status"] == b"0"


async def test_a_socket_that_is_full_stops_the_calls(serve: Serve, service: Service):
    """Windows are wide open, and the client reads nothing."""
    site = await serve(write_buffer_bytes=50_000)
    client = RawGrpc(site.port, (INITIAL_WINDOW_SIZE, (1 << 31) - 1))
    await client.__aenter__()
    client._writer.transport.pause_reading()  # type: ignore[attr-defined]
    client.ask(1, b"/Pour", KNOWN)
    client.send(data(1, framed(b""), is_last=True), number_frame(WINDOW_UPDATE, 0, (1 << 31) - 65_536))
    [talk] = await until(lambda: service.begun and conversations(site.server), "the call has begun")
    await until(lambda: talk._driver.is_congested and talk._machine.waiting_bytes, "the socket is full")
    written = service.written
    await asyncio.wait_for(asyncio.shield(asyncio.sleep(0)), 1)
    assert talk._driver.unwritten <= 4 * 50_000
    client._writer.transport.resume_reading()  # type: ignore[attr-defined]
    await client.until(lambda _: service.written > written + 100)
    await client.__aexit__(None, None, None)
    await until(lambda: service.ended == 1, "the call has ended")
