"""What a listener does not put up with: too many, too slow, too silent, and those that do not read."""

from __future__ import annotations

import asyncio
import socket
import struct

import pytest

from entrepot.broker.remoting.listener_limits import ListenerLimits
from entrepot.broker.server.streams import MAX_WAITING_BYTES, AvailabilityStream, KeyValueStream
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.key_value import KeyValueEvent
from entrepot.protocols.wire import store_rows as rows
from entrepot.protocols.wire.frames import MAX_PAYLOAD_BYTES, FrameKind, frame
from tests.support.brokers.served_calls import BOUNDS, Streamed, linked, raw, serving, until_closed, up
from tests.support.waiting import until


async def test_one_connection_too_many_is_told_so():
    async with serving(ListenerLimits(connections=2)) as served, linked(served.address) as one:
        await up(one)
        async with linked(served.address) as two:
            await up(two)
            async with raw(served.address) as third:
                assert b"more than 2 connections" in await until_closed(third)
            assert one.is_up and two.is_up
        assert served.listener is not None
        await until(lambda: served.listener and len(served.listener.channels) == 1, "the second is gone")
        async with linked(served.address) as again:
            await up(again)


@pytest.mark.failure_also("Garbage, or nothing, comes over a connection to a broker's port")
async def test_who_does_not_greet_is_closed():
    async with serving(ListenerLimits(greeting_seconds=0.1, sweep_seconds=0.02)) as served:
        async with raw(served.address) as client:
            assert b"no greeting in time" in await until_closed(client)
        async with linked(served.address) as link:
            await up(link)
            began = asyncio.get_running_loop().time()
            await until(lambda: link._last_heard > began + 0.3, "it is pinged for a while")
            assert link.is_up


async def test_a_greeting_in_drops_is_closed_as_well():
    """The time for it begins with the connection, not with what came last."""
    limits = ListenerLimits(greeting_seconds=0.2, sweep_seconds=0.02)
    async with serving(limits) as served, raw(served.address) as client:
        said = asyncio.ensure_future(until_closed(client))
        await asyncio.get_running_loop().sock_sendall(client, frame(FrameKind.HELLO, 0, bytes(4000))[:16])
        dropping = asyncio.ensure_future(drops(client))
        assert b"no greeting in time" in await said
        dropping.cancel()


async def drops(client) -> None:
    """One byte after the other, for ever: the pause is part of what is tried."""
    while True:
        await asyncio.get_running_loop().sock_sendall(client, b"\0")
        await asyncio.sleep(0.01)


@pytest.mark.failure_also("Garbage, or nothing, comes over a connection to a broker's port")
async def test_who_is_silent_is_closed():
    async with serving(ListenerLimits(silence_seconds=0.1, sweep_seconds=0.02)) as served:
        async with raw(served.address, is_greeting=True) as client:
            assert b"silent for too long" in await until_closed(client)
        await until(lambda: served.closed_channels == 1, "it is forgotten")


async def test_who_does_not_read_is_not_read_from_and_in_the_end_closed():
    """It asks on and on; the server stops reading, keeps little, and forgets it though it never reads its goodbye."""
    limits = ListenerLimits(write_bytes=1 << 16, silence_seconds=0.3, sweep_seconds=0.05)
    async with serving(limits) as served, raw(served.address, is_greeting=True) as client:
        assert served.listener is not None
        [channel] = served.listener.channels
        payload = rows.SCAN.encode_arguments("k", "", 100_000)
        asking = asyncio.ensure_future(ask_on(client, rows.SCAN.number, payload))
        transport = channel._transport
        assert transport is not None
        await until(lambda: not transport.is_reading(), "it is read from no more")
        assert transport.get_write_buffer_size() < 1 << 20
        await until(lambda: served.closed_channels == 1, "it is forgotten")
        asking.cancel()


async def ask_on(client, operation: int, payload: bytes) -> None:
    loop = asyncio.get_running_loop()
    for id_ in range(1, 100_000):
        await loop.sock_sendall(client, frame(FrameKind.REQUEST, id_, payload, operation=operation))


async def test_silence_is_not_what_is_only_slow():
    limits = ListenerLimits(silence_seconds=0.3, sweep_seconds=0.02)
    async with serving(limits) as served, linked(served.address) as link:
        await up(link)
        asked = asyncio.ensure_future(link.ask(BOUNDS, "t", seconds=10))
        began = asyncio.get_running_loop().time()
        await until(lambda: link._last_heard > began + 0.6, "pings keep it there")
        served.go.set()
        assert await asked == []


class Changes:
    """A store's part that watchers see."""

    def __init__(self):
        self.consumption = self.key_values = self

    def watch_available(self, topic, group, callback):
        self.tell = callback
        return lambda: None

    def watch(self, prefix, on_events, on_begun):
        self.tell = on_events
        on_begun()
        return lambda: None


async def a_stream(served, client, credit: int):
    """A stream to a client that gives so much credit, and reads nothing."""
    payload = Streamed.encode_arguments("")
    request = frame(FrameKind.REQUEST, 1, payload, operation=Streamed.number, amount=credit)
    await asyncio.get_running_loop().sock_sendall(client, request)
    await until(lambda: served.streams, "it is open")
    return served.streams[0]


async def test_who_gives_no_credit_is_told_once_that_there_is_something():
    async with serving() as served, raw(served.address, is_greeting=True) as client:
        stream = await a_stream(served, client, 1000)
        sent: list[bytes] = []
        send = stream.send
        stream.send = lambda payload: (sent.append(payload), send(payload))
        changes = Changes()
        AvailabilityStream(changes, stream, "t", "g")  # type: ignore[arg-type]
        for _ in range(10_000):
            changes.tell()
        told = len(sent)
        assert told < 100
        await asyncio.get_running_loop().sock_sendall(client, frame(FrameKind.CREDIT, 1, amount=100))
        await until(lambda: len(sent) == told + 1, "what was owed is told, once")


@pytest.mark.parametrize("credit", [1, 40 << 20])
async def test_who_is_behind_with_large_key_values_is_told_so_in_frames_that_can_be_read(credit: int):
    async with serving() as served, raw(served.address, is_greeting=True) as client:
        stream = await a_stream(served, client, credit)
        changes = Changes()
        KeyValueStream(changes, stream, "")  # type: ignore[arg-type]
        events = [KeyValueEvent(f"k{at}", bytes(1 << 20), at) for at in range(100)]
        ended: list[EntrepotError] = []
        end = stream.end
        stream.end = lambda error: (ended.append(error), end(error))
        told = 0
        for event in events:
            if not ended:
                changes.tell([event])
                told += 1
        assert [error.code for error in ended] == [Code.TOO_MANY_REQUESTS]
        assert told <= (credit + MAX_WAITING_BYTES) // (1 << 20) + 2


async def test_events_that_waited_come_in_order_and_in_small_frames():
    async with serving() as served, linked(served.address) as link:
        await up(link)
        sizes: list[int] = []
        keys: list[str] = []

        def take(payload: bytes) -> None:
            sizes.append(len(payload))
            assert Streamed.result is not None
            keys.extend(event.key for event in Streamed.result.decode(payload))

        link.open_stream(Streamed, Streamed.encode_arguments(""), take, lambda error: None)
        await until(lambda: served.streams, "it is open")
        changes = Changes()
        KeyValueStream(changes, served.streams[0], "")  # type: ignore[arg-type]
        for at in range(20):
            changes.tell([KeyValueEvent(f"k{at}", bytes(1 << 20), at)])
        await until(lambda: len(keys) == 20, lambda: f"{len(keys)} came")
        assert keys == [f"k{at}" for at in range(20)]
        assert max(sizes) < MAX_PAYLOAD_BYTES // 10


async def test_a_window_that_is_overrun_ends_the_connection():
    async with serving(ListenerLimits(window_bytes=1000)) as served, raw(served.address, is_greeting=True) as client:
        payload = BOUNDS.encode_arguments("t" * 500)
        requests = [frame(FrameKind.REQUEST, id_, payload, operation=BOUNDS.number) for id_ in (1, 2)]
        await asyncio.get_running_loop().sock_sendall(client, b"".join(requests))
        assert b"were granted" in await until_closed(client)
        await until(lambda: served.closed_channels == 1, "it is forgotten")


async def test_a_connection_that_is_reset_ends_its_calls_and_streams():
    async with serving() as served, raw(served.address, is_greeting=True) as client:
        await a_stream(served, client, 1000)
        request = frame(FrameKind.REQUEST, 2, BOUNDS.encode_arguments("t"), operation=BOUNDS.number)
        await asyncio.get_running_loop().sock_sendall(client, request)
        await until(lambda: served.begun, "the call has begun")
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # a reset instead of an end
        client.close()
        await until(lambda: served.cancelled == ["t"] and served.closed_streams == 1, "both have ended")
