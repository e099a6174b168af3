"""The gRPC server of ours and gRPC's own client: calls of all kinds, sizes, deadlines and ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

import grpc
import grpc.aio
import pytest

from entrepot.gateway.rocketmq.grpc.call import Call, Conversing, Streamed, Unary
from entrepot.protocols.grpc.status import Status
from tests.support.cases import cases
from tests.support.rocketmq.grpc_site import GrpcSite
from tests.support.waiting import until

MAX_BYTES = 4 << 20


class Service:
    """Methods of bytes; `ended` are names of calls that ended by cancellation."""

    def __init__(self) -> None:
        self.waiting, self.ended = 0, list[str]()
        self.remaining: float | None = None

    async def echo(self, question: bytes, call: Call) -> bytes:
        call.admitted()
        self.remaining = call.remaining_seconds()
        return question

    async def wait(self, question: bytes, call: Call) -> bytes:
        call.admitted()
        self.waiting += 1
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.ended.append(question.decode())
            raise
        finally:
            self.waiting -= 1
        return b""

    async def fail(self, question: bytes, call: Call) -> bytes:
        if question == b"told":
            raise call.abort(Status.INVALID_ARGUMENT, "100 % of é\nare wrong")
        raise ValueError("not told")

    async def repeat(self, question: bytes, call: Call) -> None:
        count, size = map(int, question.split())
        for _ in range(count):
            await call.write(bytes(size))

    async def converse(self, call: Call) -> AsyncGenerator[bytes, None]:
        async for question in call:
            yield question * 2

    def methods(self) -> dict[bytes, Any]:
        unary = {"Echo": self.echo, "Wait": self.wait, "Fail": self.fail}
        return {
            **{f"/s/{name}".encode(): Unary(bytes, work, bytes) for name, work in unary.items()},
            b"/s/Repeat": Streamed(bytes, self.repeat, bytes),
            b"/s/Converse": Conversing(bytes, self.converse, bytes),
        }


@pytest.fixture
def service() -> Service:
    return Service()


@pytest.fixture
async def site(service: Service) -> AsyncIterator[GrpcSite]:
    made = GrpcSite(service.methods(), max_request_bytes=MAX_BYTES)
    await made.start()
    yield made
    await made.stop(0.1)
    assert not made.terms.tasks


@pytest.fixture
async def channel(site: GrpcSite) -> AsyncIterator[Any]:
    options = (("grpc.max_receive_message_length", -1), ("grpc.use_local_subchannel_pool", 1))
    async with grpc.aio.insecure_channel(f"127.0.0.1:{site.port}", options) as made:
        yield made


async def code_of(call: Any) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.aio.AioRpcError) as failed:
        await call
    return failed.value.code(), failed.value.details() or ""


@cases("size", [0, 1, 16_379, 16_380, 70_000, 3_900_000, MAX_BYTES])
async def test_requests_and_answers_of_any_size(channel: Any, size: int):
    echo = channel.unary_unary("/s/Echo")
    assert await echo(bytes(size)) == bytes(size)


async def test_a_request_that_is_too_large(channel: Any):
    echo = channel.unary_unary("/s/Echo")
    code, text = await code_of(echo(bytes(2 * MAX_BYTES)))
    assert (code, text) == (grpc.StatusCode.RESOURCE_EXHAUSTED, f"a message is larger than {MAX_BYTES} bytes")
    assert await echo(b"after") == b"after"


async def test_a_request_that_is_compressed(channel: Any):
    echo = channel.unary_unary("/s/Echo")
    for kind in (grpc.Compression.Gzip, grpc.Compression.Deflate):
        assert await echo(b"x" * 100_000, compression=kind) == b"x" * 100_000


async def test_many_at_a_time(channel: Any):
    echo = channel.unary_unary("/s/Echo")
    found = await asyncio.gather(*(echo(bytes(number)) for number in range(500)))
    assert [len(each) for each in found] == list(range(500))


@cases("count, size", [(0, 0), (1, 0), (34, 250), (3, 2_000_000)])
async def test_several_answers(channel: Any, count: int, size: int):
    repeat = channel.unary_stream("/s/Repeat")
    assert [len(each) async for each in repeat(b"%d %d" % (count, size))] == [size] * count


async def test_a_conversation_and_its_end(channel: Any):
    call = channel.stream_stream("/s/Converse")()
    for question in (b"a", b"x" * 1_000_000, b""):
        await call.write(question)
        assert await call.read() == question * 2
    await call.done_writing()
    assert not await call.read()
    assert await call.code() is grpc.StatusCode.OK


async def test_methods_that_are_not_there_and_that_fail(channel: Any):
    assert await code_of(channel.unary_unary("/s/None")(b"x")) == (
        grpc.StatusCode.UNIMPLEMENTED,
        "there is no such method",
    )
    fail = channel.unary_unary("/s/Fail")
    assert await code_of(fail(b"told")) == (grpc.StatusCode.INVALID_ARGUMENT, "100 % of é\nare wrong")
    assert await code_of(fail(b"x")) == (grpc.StatusCode.UNKNOWN, "the call could not be served")


async def test_a_client_takes_a_call_back(channel: Any, service: Service):
    call = channel.unary_unary("/s/Wait")(b"taken back")
    await until(lambda: service.waiting == 1, "the call waits")
    call.cancel()
    await until(lambda: service.ended == ["taken back"], "the call has ended")


async def test_a_deadline_ends_the_call_at_the_server(channel: Any, service: Service):
    assert (await code_of(channel.unary_unary("/s/Wait")(b"late", timeout=0.2)))[0] is grpc.StatusCode.DEADLINE_EXCEEDED
    await until(lambda: service.ended == ["late"], "the call has ended")
    await channel.unary_unary("/s/Echo")(b"", timeout=50)
    assert service.remaining is not None
    assert 40 < service.remaining < 52  # gRPC's client rounds it
    await channel.unary_unary("/s/Echo")(b"")
    assert service.remaining is None


async def test_connections_that_go_end_their_calls(site: GrpcSite, service: Service):
    options = (("grpc.use_local_subchannel_pool", 1),)
    channel: Any
    async with grpc.aio.insecure_channel(f"127.0.0.1:{site.port}", options) as channel:
        calls = [channel.unary_unary("/s/Wait")(b"gone") for _ in range(3)]
        await until(lambda: service.waiting == 3, "the calls wait")
    await until(lambda: service.ended == ["gone"] * 3, "the calls have ended")
    assert all(call.done() for call in calls)


async def test_the_drain_lets_calls_end(site: GrpcSite, service: Service, channel: Any):
    """Those under way have a while; then they are told that the server stops, and a new one gets no answer."""
    waits = channel.unary_unary("/s/Wait")(b"drained")
    await until(lambda: service.waiting == 1, "the call waits")
    stopping = asyncio.ensure_future(site.stop(0.3))
    code, text = await code_of(waits)
    assert (code, text) == (grpc.StatusCode.UNAVAILABLE, "the server stops")
    await stopping
    assert service.ended == ["drained"]
    assert (await code_of(channel.unary_unary("/s/Echo")(b"", timeout=5)))[0] is grpc.StatusCode.UNAVAILABLE


async def test_the_drain_loses_no_call_on_its_way(site: GrpcSite, channel: Any):
    """Calls go on while the server stops: each is answered, or was never begun."""
    echo, done, ends = channel.unary_unary("/s/Echo"), list[bool](), list[tuple[grpc.StatusCode, str]]()

    async def call() -> None:
        while True:
            try:
                done.append(await echo(b"x", timeout=10) == b"x")
            except grpc.aio.AioRpcError as error:
                ends.append((error.code(), error.details() or ""))
                return

    calls = [asyncio.ensure_future(call()) for _ in range(20)]
    await until(lambda: len(done) > 100, "calls are answered")
    await site.stop(5)
    await asyncio.gather(*calls)
    assert all(done)
    assert len(ends) == 20
    for code, text in ends:
        assert code is grpc.StatusCode.UNAVAILABLE
        assert "failed to connect" in text.lower(), "it was begun, and got no answer"
