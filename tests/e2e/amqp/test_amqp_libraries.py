"""What the clients' libraries build on the protocol: reconnecting, calls, workers, queues like Python's."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from typing import Any
from uuid import uuid4

import aio_pika
import pytest
from aio_pika.abc import AbstractRobustConnection
from aio_pika.patterns import RPC, Master, NackMessage
from kombu.connection import Connection  # type: ignore[import-untyped]
from kombu.entity import Exchange, Queue  # type: ignore[import-untyped]
from kombu.mixins import ConsumerProducerMixin  # type: ignore[import-untyped]
from kombu.pools import producers  # type: ignore[import-untyped]

from tests.support.amqp import servers as amqp_servers
from tests.support.waiting import PATIENCE_SECONDS, until, wait_until

pytestmark = pytest.mark.interop


@pytest.fixture(params=amqp_servers.NAMES)
def port(request: pytest.FixtureRequest, amqp_port: Callable[[str], int]) -> int:
    return amqp_port(request.param)


@pytest.fixture
def name() -> str:
    return f"n{uuid4().hex[:10]}"


@asynccontextmanager
async def robust(port: int) -> AsyncIterator[AbstractRobustConnection]:
    connection = await aio_pika.connect_robust(f"amqp://guest:guest@127.0.0.1:{port}/", reconnect_interval=0.1)
    async with connection:
        yield connection


class Relay:
    """Stands between a client and a server, and can cut what it carries."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: list[asyncio.StreamWriter] = []
        self.connections = 0

    async def __aenter__(self) -> Relay:
        self._server = await asyncio.start_server(self._carry, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        self.cut()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def cut(self) -> None:
        """Reset every connection."""
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        there, there_writer = await asyncio.open_connection("127.0.0.1", self._to)
        self._writers += [writer, there_writer]
        for source, to in ((reader, there_writer), (there, writer)):
            task = asyncio.create_task(_copy(source, to))
            self._tasks.add(task)


async def _copy(source: asyncio.StreamReader, to: asyncio.StreamWriter) -> None:
    try:
        while data := await source.read(65_536):
            to.write(data)
            await to.drain()
    except ConnectionError:
        pass
    finally:
        to.close()


async def test_robust_connection_declares_and_consumes_again(port: int, name: str) -> None:
    """aio-pika restores its exclusive queue, bindings and consumers after the connection was reset."""
    async with Relay(port) as relay, robust(relay.port) as connection, robust(port) as publisher:
        channel = await connection.channel()
        exchange = await channel.declare_exchange(name, aio_pika.ExchangeType.FANOUT, auto_delete=False)
        queue = await channel.declare_queue("", exclusive=True)
        await queue.bind(exchange)
        seen: list[bytes] = []

        async def take(message: aio_pika.abc.AbstractIncomingMessage) -> None:
            seen.append(message.body)
            await message.ack()

        await queue.consume(take)
        sending = await (await publisher.channel()).get_exchange(name)
        await sending.publish(aio_pika.Message(b"before"), "")
        await until(lambda: seen == [b"before"], "the first message came")
        relay.cut()
        await until(lambda: relay.connections == 2, "the client came back")
        while b"after" not in seen:  # until the binding is back, fanout routes to nobody
            await sending.publish(aio_pika.Message(b"after"), "")
            await asyncio.sleep(0.05)
        await (await publisher.channel()).exchange_delete(name)


async def test_calls_by_queues_of_answers(port: int, name: str) -> None:
    """aio-pika's RPC: a queue for each method, exclusive queues for answers, dead letters for calls that time out."""
    async with robust(port) as serving, robust(port) as calling:

        async def multiply(*, x: int, y: int) -> int:
            if y == 0:
                raise ValueError("no zero")
            return x * y

        server = await RPC.create(await serving.channel())
        await server.register(name, multiply, auto_delete=True)
        client = await RPC.create(await calling.channel())
        assert await asyncio.gather(*(client.call(name, {"x": n, "y": n}) for n in range(1, 11))) == [
            n * n for n in range(1, 11)
        ]
        with pytest.raises(ValueError, match="no zero"):
            await client.call(name, {"x": 1, "y": 0})


async def test_a_call_of_nobody(port: int, name: str) -> None:
    async with robust(port) as calling:
        client = await RPC.create(await calling.channel())
        with pytest.raises(aio_pika.exceptions.MessageProcessError):
            await client.call(name, {})


async def test_master_and_worker(port: int, name: str) -> None:
    async with robust(port) as connection:
        done: list[int] = []

        async def work(*, number: int) -> None:
            if number == 3 and done.count(3) == 0:
                done.append(3)
                raise NackMessage(requeue=True)
            done.append(number)

        master = Master(await connection.channel())
        worker = await master.create_worker(name, work, auto_delete=True)
        for number in range(6):
            await master.create_task(name, {"number": number})
        await until(lambda: sorted(done) == [0, 1, 2, 3, 3, 4, 5], lambda: f"{done}")
        await worker.close()


async def test_iterating_over_a_queue(port: int, name: str) -> None:
    async with robust(port) as connection:
        channel = await connection.channel()
        await channel.set_qos(10)
        queue = await channel.declare_queue(name, auto_delete=True)
        for number in range(100):
            await channel.default_exchange.publish(aio_pika.Message(b"%d" % number), name)
        found: list[int] = []
        async with queue.iterator() as messages:
            async for message in messages:
                async with message.process():
                    found.append(int(message.body))
                if len(found) == 100:
                    break
        assert found == list(range(100))


async def test_a_transaction(port: int, name: str) -> None:
    async with robust(port) as connection:
        channel = await connection.channel(publisher_confirms=False)
        queue = await channel.declare_queue(name, auto_delete=True)

        async def fail() -> None:
            async with channel.transaction():
                await channel.default_exchange.publish(aio_pika.Message(b"never"), name)
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await fail()
        async with channel.transaction():
            await channel.default_exchange.publish(aio_pika.Message(b"once"), name)
        assert (await queue.get(timeout=PATIENCE_SECONDS)).body == b"once"
        assert await queue.get(fail=False, no_ack=True, timeout=PATIENCE_SECONDS) is None


def _kombu(port: int) -> Any:
    return Connection(f"pyamqp://guest:guest@127.0.0.1:{port}//", heartbeat=0)


@contextmanager
def _simple(connection: Any, name: str, **how: Any) -> Iterator[Any]:
    """A SimpleQueue, deleted at the end: not before its consumer is gone, which would be told."""
    with closing(connection.SimpleQueue(name, **how)) as queue:
        yield queue
    connection.default_channel.queue_delete(name)


def test_simple_queue(port: int, name: str) -> None:
    with _kombu(port) as connection, _simple(connection, name) as queue:
        for number in range(3):
            queue.put({"number": number})
        found = []
        for _ in range(3):
            message = queue.get(timeout=PATIENCE_SECONDS)
            found.append(message.payload)
            message.ack()
        assert found == [{"number": number} for number in range(3)]
        with pytest.raises(queue.Empty):
            queue.get_nowait()


def test_compressed_and_serialized(port: int, name: str) -> None:
    with _kombu(port) as connection, _simple(connection, name, serializer="json", compression="zlib") as q:
        q.put({"text": "ü" * 10_000, "list": [1, 2.5, None]})
        message = q.get(timeout=PATIENCE_SECONDS)
        assert message.payload == {"text": "ü" * 10_000, "list": [1, 2.5, None]}
        assert message.headers["compression"] == "application/x-gzip"
        message.ack()


def test_consumer_mixin_answers(port: int, name: str) -> None:
    """A ConsumerProducerMixin in a thread answers what a producer of the pool asks."""
    questions = Queue(name, Exchange(name, "topic"), routing_key="question.#", auto_delete=True)
    answers = Queue(f"{name}.answers", exclusive=True, auto_delete=True)

    class Worker(ConsumerProducerMixin):  # type: ignore[misc]
        def __init__(self, connection: Any) -> None:
            self.connection = connection

        def get_consumers(self, consumer: Any, channel: Any) -> list[Any]:
            return [consumer([questions], on_message=self.answer, prefetch_count=5)]

        def answer(self, message: Any) -> None:
            reply = {"answer": message.payload["question"] * 2}
            self.producer.publish(
                reply,
                exchange="",
                routing_key=message.properties["reply_to"],
                correlation_id=message.properties["correlation_id"],
                retry=True,
            )
            message.ack()

    with _kombu(port) as connection, _kombu(port) as serving:
        questions(connection.default_channel).declare()
        worker = Worker(serving)
        thread = threading.Thread(target=worker.run, daemon=True)
        thread.start()
        found: dict[str, int] = {}
        with connection.Consumer([answers], no_ack=True, on_message=lambda message: _keep(found, message)):
            with producers[connection].acquire(block=True) as producer:
                for number in range(20):
                    producer.publish(
                        {"question": number},
                        exchange=questions.exchange,
                        routing_key=f"question.{number}",
                        reply_to=answers.name,
                        correlation_id=str(number),
                    )
            wait_until(lambda: _drained(connection) or len(found) == 20, lambda: f"{found}")
        worker.should_stop = True
        thread.join(PATIENCE_SECONDS)
        assert found == {str(number): number * 2 for number in range(20)}


def _keep(found: dict[str, int], message: Any) -> None:
    found[message.properties["correlation_id"]] = message.payload["answer"]


def _drained(connection: Any) -> None:
    try:
        connection.drain_events(timeout=0.1)
    except TimeoutError:
        return
