"""Link against a listener: what becomes of requests when connections end, deadlines pass, callers lose interest."""

from __future__ import annotations

import asyncio
import socket

import pytest

from entrepot.broker.remoting.link import STREAM_CREDIT_BYTES, Link
from entrepot.broker.remoting.listener_limits import ListenerLimits
from entrepot.domain.errors import Code, EntrepotError
from entrepot.protocols.wire import operations as wire
from entrepot.protocols.wire import store_rows as rows
from entrepot.protocols.wire.frames import HEADER_SIZE, VERSION, FrameKind, Welcome, frame
from entrepot.protocols.wire.values import encode
from tests.support.brokers.served_calls import (
    BOUNDS,
    DELETE,
    SETTINGS,
    Streamed,
    linked,
    raw,
    serving,
    until_closed,
    up,
)
from tests.support.waiting import PATIENCE_SECONDS, until


async def code_of(asked) -> Code:
    with pytest.raises(EntrepotError) as refused:
        await asked
    return refused.value.code


async def test_a_request_that_never_left_was_not_done():
    async with serving() as served:
        address = served.address
    async with linked(address) as link:
        assert await code_of(link.ask(DELETE, "t", 1, seconds=5)) == Code.UNAVAILABLE
        told: list[EntrepotError | None] = []
        assert link.send(DELETE, b"", 5, lambda error, _: told.append(error)) == 0
        assert [error.code for error in told if error] == [Code.UNAVAILABLE]
        with pytest.raises(EntrepotError):
            link.open_stream(Streamed, b"", lambda _: None, lambda _: None)


async def test_the_outcome_of_what_was_sent_is_unknown_and_of_what_was_held_is_not():
    async with serving(ListenerLimits(window_bytes=100)) as served, linked(served.address) as link:
        await up(link)
        sent = asyncio.ensure_future(link.ask(DELETE, "t", 1, seconds=10))
        await until(lambda: served.begun, "it came")
        held = asyncio.ensure_future(link.ask(DELETE, "t", 1, seconds=10))
        await until(lambda: link.is_congested, "it is held")
        await served.stop()
        assert await code_of(sent) == Code.OUTCOME_UNKNOWN
        assert await code_of(held) == Code.UNAVAILABLE
        assert served.cancelled == ["delete"]


async def test_an_idempotent_request_is_asked_again():
    async with serving() as served, linked(served.address) as link:
        await up(link)
        asked = asyncio.ensure_future(link.ask(BOUNDS, "t", seconds=10))
        await until(lambda: served.begun, "it came")
        await served.stop()
        served.go.set()
        await served.start()
        assert await asked == []
        assert served.begun == ["t", "t"]


async def test_an_answer_lost_in_what_breaks_the_rules_is_unknown():
    """The answer and garbage come at once: that it was answered is lost, and it is not said that it was not done."""
    async with peer([frame(FrameKind.ANSWER, 1, encode(None)) + bytes(16)]) as address, linked(address) as link:
        await up(link)
        assert await code_of(link.ask(DELETE, "t", 1, seconds=10)) == Code.OUTCOME_UNKNOWN


async def test_deadlines_on_both_sides():
    async with serving() as served, linked(served.address) as link:
        await up(link)
        assert await code_of(link.ask(BOUNDS, "t", seconds=0.05)) == Code.REQUEST_TIMEOUT
        assert await code_of(link.ask(DELETE, "t", 1, seconds=0.05)) == Code.OUTCOME_UNKNOWN
        await until(lambda: served.cancelled == ["t", "delete"], "both tasks end")
        assert await link.ask(BOUNDS, "quick", seconds=5) == []
        assert link._connection is not None and not link._connection._open


@pytest.mark.parametrize(
    ("operation", "arguments", "code"),
    [(BOUNDS, ["t"], Code.REQUEST_TIMEOUT), (DELETE, ["t", 1], Code.OUTCOME_UNKNOWN)],
)
async def test_the_servers_deadline_says_the_same_as_the_clients(operation, arguments, code: Code):
    """A client whose clock is slower learns of it from the server."""
    async with serving() as served, raw(served.address, is_greeting=True) as client:
        payload = operation.encode_arguments(*arguments)
        loop = asyncio.get_running_loop()
        await loop.sock_sendall(client, frame(FrameKind.REQUEST, 1, payload, operation=operation.number, amount=20))
        answer = await asyncio.wait_for(loop.sock_recv(client, 1000), PATIENCE_SECONDS)
        assert answer[4] == FrameKind.REFUSAL
        assert int.from_bytes(answer[12:16], "big") == code
        await until(lambda: served.cancelled, "the task ends")


async def test_cancelling_reaches_the_servers_task():
    async with serving() as served, linked(served.address) as link:
        await up(link)
        asked = asyncio.ensure_future(link.ask(BOUNDS, "t", seconds=10))
        await until(lambda: served.begun, "it came")
        asked.cancel()
        await until(lambda: served.cancelled == ["t"], "it is cancelled there")
        assert link._under_way.calls == {}


async def test_one_failing_request_is_not_the_others_fault():
    async with serving() as served, linked(served.address) as link:
        await up(link)
        other = asyncio.ensure_future(link.ask(BOUNDS, "t", seconds=10))
        assert await code_of(link.ask(rows.TOPIC_STATUS, "t", seconds=5)) == Code.INTERNAL_ERROR
        assert await code_of(link.ask(wire.DRAINAGE, seconds=5)) == Code.BAD_REQUEST
        ended: list[EntrepotError] = []
        link.open_stream(Streamed, Streamed.encode_arguments("broken"), lambda _: None, ended.append)
        await until(lambda: ended, "the stream is refused")
        assert ended[0].code == Code.INTERNAL_ERROR
        link.send(BOUNDS, BOUNDS.encode_arguments("quick"), 5, lambda error, payload: 1 // 0)
        served.go.set()
        assert await other == []


async def test_an_answer_too_large_for_a_frame_is_refused_and_the_link_stays(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("entrepot.protocols.wire.connection.MAX_PAYLOAD_BYTES", 48 << 20)
    async with serving() as served, linked(served.address) as link:
        await up(link)
        assert await code_of(link.ask(rows.SCAN, "k", "", 49 << 20, seconds=10)) == Code.MESSAGE_BODY_TOO_LARGE
        assert await code_of(link.call(rows.WRITE, bytes(49 << 20), 10)) == Code.MESSAGE_BODY_TOO_LARGE
        assert link.is_up


async def test_a_link_comes_back_as_often_as_it_is_lost():
    changes: list[str] = []
    async with serving() as served:
        link = Link(served.address, SETTINGS, lambda: changes.append("up"), lambda: changes.append("down"))
        link.start()
        for _ in range(3):
            await up(link)
            await served.stop()
            await until(lambda: not link.is_up, "it is lost")
            await served.start()
        await up(link)
        await link.close()
        assert changes == ["up", "down"] * 4


async def test_a_failing_listener_of_one_stream_does_not_keep_the_link_down():
    async with serving() as served, linked(served.address) as link:
        await up(link)
        ended: list[EntrepotError] = []

        def fail(error: EntrepotError) -> None:
            raise RuntimeError("a listener's fault")

        for on_end in (fail, ended.append):
            link.open_stream(Streamed, Streamed.encode_arguments(""), lambda _: None, on_end)
        await until(lambda: len(served.streams) == 2, "both are open")
        await served.stop()
        await until(lambda: ended, "the other is told")
        await served.start()
        await up(link)


async def test_a_peer_that_never_answers_is_given_up():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        async with linked(f"127.0.0.1:{silent.getsockname()[1]}", connect_seconds=0.05) as link:
            await until(lambda: "greet" in link.problem, "it is given up")
            assert not link.is_up


async def test_a_peer_that_falls_silent_is_given_up():
    async with peer([]) as address, linked(address, silence_seconds=0.1) as link:
        await up(link)
        assert await code_of(link.ask(DELETE, "t", 1, seconds=10)) == Code.OUTCOME_UNKNOWN
        assert "silent" in link.problem or not link.problem


@pytest.mark.parametrize("address", ["nowhere", "127.0.0.1:x", "127.0.0.1:", "a..b:1", "127.0.0.1:99999"])
async def test_what_is_no_address_is_a_problem_that_is_told(address: str):
    async with linked(address) as link:
        await until(lambda: link.problem != "not connected yet", "it is told")
        assert link._task is not None and not link._task.done()


async def test_another_cluster_is_told_by_its_name():
    async with serving(cluster="there") as served, linked(served.address, cluster="here") as link:
        await until(lambda: "cluster 'there'" in link.problem, lambda: link.problem)


async def test_a_stream_is_stopped_by_its_credit_and_goes_on():
    async with serving() as served, raw(served.address, is_greeting=True) as client:
        loop = asyncio.get_running_loop()
        payload = Streamed.encode_arguments("")
        await loop.sock_sendall(client, frame(FrameKind.REQUEST, 1, payload, operation=Streamed.number, amount=100))
        await until(lambda: served.streams, "it is open")
        [stream] = served.streams
        paid: list[int] = []
        stream.on_credit = lambda: paid.append(stream.credit)
        while stream.has_credit:
            stream.send(b"12345678")
        assert stream.credit > -HEADER_SIZE - 8
        debt = -stream.credit
        await loop.sock_sendall(client, frame(FrameKind.CREDIT, 1, amount=debt) + frame(FrameKind.CREDIT, 1, amount=5))
        await until(lambda: paid, "there is credit again")
        assert paid == [5]


async def test_a_link_grants_what_it_has_consumed():
    async with serving() as served, linked(served.address) as link:
        await up(link)
        came: list[int] = []
        stream = link.open_stream(
            Streamed, Streamed.encode_arguments(""), lambda item: came.append(len(item)), lambda error: None
        )
        await until(lambda: came, "it has begun")
        total = 0
        while total < 3 * STREAM_CREDIT_BYTES:
            await until(lambda: served.streams[0].has_credit, "credit comes again")
            served.streams[0].send(bytes(1 << 18))
            total += 1 << 18
        await until(lambda: sum(came) > total, "all of it came")
        stream.close()
        await until(lambda: served.closed_streams == 1, "it is closed there")


class peer:
    """A server that greets, and then says these things, one for each that it is sent."""

    def __init__(self, replies: list[bytes]) -> None:
        self.replies = replies

    async def __aenter__(self) -> str:
        self.server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return f"127.0.0.1:{self.server.sockets[0].getsockname()[1]}"

    async def __aexit__(self, *_: object) -> None:
        self.server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        replies = iter([frame(FrameKind.WELCOME, 0, encode(Welcome(VERSION, "peer", 1 << 20))), *self.replies])
        while data := await reader.read(65536):
            if data[4] != FrameKind.PING:
                writer.write(next(replies, b""))
        writer.close()


@pytest.mark.failure(
    "Garbage, or nothing, comes over a connection to a broker's port",
    group="Strangers and floods",
    does="That connection is closed. The others go on.",
    lost="nothing",
)
async def test_garbage_on_the_port_ends_that_connection_alone():
    async with serving() as served, linked(served.address) as link:
        await up(link)
        loop = asyncio.get_running_loop()
        for garbage in (
            b"GET / HTTP/1.1\r\n\r\n",
            bytes(64),
            b"\xff" * 5000,
            frame(FrameKind.HELLO, 0, b"\x91" * 4000),
        ):
            async with raw(served.address) as client:
                await loop.sock_sendall(client, garbage)
                assert (await until_closed(client))[4] == FrameKind.GOODBYE
        for operation, garbage in ((BOUNDS, b"\xc1"), (BOUNDS, b"\x91" * 100_000), (Streamed, b"")):
            async with raw(served.address, is_greeting=True) as client:
                await loop.sock_sendall(client, frame(FrameKind.REQUEST, 1, garbage, operation=operation.number))
                said = await until_closed(client)
                assert said[4] == FrameKind.GOODBYE and b"cannot be read" in said
        await until(lambda: served.closed_channels == 7, "they are forgotten")
        assert await link.ask(BOUNDS, "quick", seconds=5) == []
