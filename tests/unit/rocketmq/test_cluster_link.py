"""A link to a server of RocketMQ: answers in any order, servers that break the rules, and limits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from entrepot.domain.definitions.consumer_group import ConsumerGroup
from entrepot.domain.errors import AWAY, Code, CorruptedError, EntrepotError
from entrepot.domain.expression.filter import FilterExpression
from entrepot.domain.message import StoredMessage
from entrepot.domain.ports import Pulled
from entrepot.domain.position import LATEST_POSITION, Position
from entrepot.protocols.rocketmq.remoting.codes import GO_AWAY
from entrepot.protocols.rocketmq.remoting.codes import refusal_of as refusal_meant
from entrepot.protocols.rocketmq.remoting.frames import Frame, FrameReader, encode
from entrepot.store_client.rocketmq import link as links
from entrepot.store_client.rocketmq import routes
from entrepot.store_client.rocketmq.cluster import Cluster
from entrepot.store_client.rocketmq.link import Link
from entrepot.store_client.rocketmq.routes import BrokerOfTopic, Route, RouteQueue, Routes
from entrepot.store_client.rocketmq.settings import RocketMqSettings
from entrepot.store_client.rocketmq.tails import QueueTail
from tests.support.clock import ManualClock
from tests.support.processes.ports import free_port
from tests.support.stores.steps import refusal_of
from tests.support.waiting import until

SECONDS = 20.0


class Served:
    """A server that keeps what it hears, and answers when it is told to."""

    def __init__(self) -> None:
        self.heard: list[Frame] = []
        self.writers: list[asyncio.StreamWriter] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.append(writer)
        frames = FrameReader()
        while data := await reader.read(65536):
            self.heard += frames.receive(data)
        writer.close()

    def answer(self, request: Frame, body: bytes) -> None:
        self.writers[-1].write(encode(Frame(0, request.number, {}, body, is_answer=True)))


@pytest.fixture
async def served() -> AsyncIterator[tuple[Served, str]]:
    server = Served()
    listener = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    host, port = listener.sockets[0].getsockname()
    yield server, f"{host}:{port}"
    listener.close()
    for writer in server.writers:
        writer.transport.abort()


@pytest.fixture
async def linked(served: tuple[Served, str]) -> AsyncIterator[tuple[Served, Link, list[Frame]]]:
    server, address = served
    asked: list[Frame] = []
    link = Link(address, None, asked.append)
    yield server, link, asked
    link.close()


Linked = tuple[Served, Link, list[Frame]]


async def test_answers_come_in_any_order(linked: Linked) -> None:
    server, link, _ = linked
    asked = [asyncio.ensure_future(link.ask(Frame(105, fields={"n": str(i)}), SECONDS)) for i in range(3)]
    await until(lambda: len(server.heard) == 3, "all are heard")
    assert len(server.writers) == 1, "over one connection"
    for request in reversed(server.heard):
        server.answer(request, request.fields["n"].encode())
    assert [answer.body for answer in await asyncio.gather(*asked)] == [b"0", b"1", b"2"]


async def test_the_other_side_may_ask(linked: Linked) -> None:
    server, link, asked = linked
    waiting = asyncio.ensure_future(link.ask(Frame(105), SECONDS))
    await until(lambda: server.heard, "it is heard")
    number = server.heard[0].number
    server.writers[0].write(encode(Frame(39, number, {"a": "b"}, is_one_way=True)))
    await until(lambda: asked, "it is handed on, and answers nothing")
    server.answer(server.heard[0], b"x")
    assert ((await waiting).body, asked[0].fields) == (b"x", {"a": "b"})


async def test_a_server_that_breaks_the_rules_is_left(linked: Linked) -> None:
    server, link, _ = linked
    waiting = asyncio.ensure_future(link.ask(Frame(310), SECONDS))
    await until(lambda: server.heard, "it is heard")
    server.writers[0].write(b"\xff" * 64)
    assert await refusal_of(waiting) == Code.OUTCOME_UNKNOWN
    again = asyncio.ensure_future(link.ask(Frame(105), SECONDS))
    await until(lambda: len(server.heard) == 2, "over a new connection")
    server.answer(server.heard[1], b"")
    assert (await again).code == 0


async def test_what_is_under_way_where_a_server_leaves_is_answered(linked: Linked) -> None:
    server, link, _ = linked
    told, other = (asyncio.ensure_future(link.ask(Frame(310, fields={"n": n}), SECONDS)) for n in ("told", "other"))
    await until(lambda: len(server.heard) == 2, "both are heard")
    first, second = server.heard
    server.writers[0].write(encode(Frame(GO_AWAY, first.number, is_answer=True)))
    await until(lambda: len(server.heard) == 3, "it is asked again")
    assert (len(server.writers), server.heard[2].fields) == (2, {"n": "told"}), "over a new connection"
    server.answer(server.heard[2], b"told")
    assert (await told).body == b"told"
    server.writers[0].write(encode(Frame(0, second.number, {}, b"other", is_answer=True)))
    assert (await other).body == b"other"
    await until(lambda: server.writers[0].transport.is_closing(), "the old connection is closed")


async def test_a_server_that_leaves_twice_is_away(linked: Linked) -> None:
    server, link, _ = linked
    asked = asyncio.ensure_future(link.ask(Frame(310), SECONDS))
    for number in range(2):
        await until(lambda n=number: len(server.heard) == n + 1, "it is heard")
        server.writers[-1].write(encode(Frame(GO_AWAY, server.heard[number].number, is_answer=True)))
    answer = await asked
    assert refusal_meant(answer, "store").code == Code.UNAVAILABLE


async def test_requests_under_way_have_a_limit(linked: Linked, monkeypatch: pytest.MonkeyPatch) -> None:
    server, link, _ = linked
    monkeypatch.setattr(links, "MAX_UNDER_WAY", 2)
    waiting = [asyncio.ensure_future(link.ask(Frame(105), SECONDS)) for _ in range(2)]
    await until(lambda: len(server.heard) == 2, "both are heard")
    assert await refusal_of(link.ask(Frame(105), SECONDS)) == Code.TOO_MANY_REQUESTS
    for request in server.heard:
        server.answer(request, b"")
    await asyncio.gather(*waiting)


async def test_an_absent_server_is_told_at_once_after_the_first_try() -> None:
    link = Link(f"127.0.0.1:{free_port()}", None, lambda frame: None)
    for _ in range(2):
        assert await refusal_of(link.ask(Frame(105), SECONDS)) == Code.UNAVAILABLE
    link.close()
    assert await refusal_of(link.ask(Frame(105), SECONDS)) in AWAY


class Reader:
    """A queue of three messages, of which the second cannot be read."""

    async def pull_once(
        self,
        topic: str,
        queue: RouteQueue,
        from_offset: int,
        count: int,
        filter: FilterExpression | None = None,
        poll_ms: int = 0,
    ) -> Pulled:
        if from_offset == 1:
            raise CorruptedError("its body fails its checksum")
        if from_offset > 2:
            await asyncio.Event().wait()
        message = StoredMessage(topic, str(from_offset).encode())
        return Pulled([message], from_offset + 1, 0, 3)

    async def offset_of(self, topic: str, queue: RouteQueue, position: Position) -> int:
        return 0


async def test_a_tail_steps_over_a_message_that_cannot_be_read() -> None:
    cluster = Cluster(RocketMqSettings(("127.0.0.1:1",)), ManualClock(), ConsumerGroup("defaults"))
    cluster.routes.learn(Route.of("t", [BrokerOfTopic("broker-0", "127.0.0.1:1", 1, 1)]))
    found: list[StoredMessage] = []
    tail = QueueTail(Reader(), cluster, "t", 0, LATEST_POSITION, found.extend)
    await until(lambda: len(found) == 2, "it goes on")
    assert ([message.body for message in found], tail.next_offset) == ([b"0", b"2"], 3)
    tail.close()
    await cluster.close()


async def test_a_broker_that_nobody_tells_of_keeps_its_queues_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    both = [BrokerOfTopic(f"b-{i}", "127.0.0.1:1", 1, 1) for i in range(2)]
    answers: list[Route | EntrepotError] = []

    async def ask(topic: str) -> Route:
        answer = answers.pop(0)
        if isinstance(answer, EntrepotError):
            raise answer
        return answer

    known = Routes(ask)
    changes: list[str] = []
    known.watch(changes.append)
    known.learn(Route.of("t", both))
    answers += [Route.of("t", both[:1]), EntrepotError(Code.TOPIC_NOT_FOUND, "no route")]
    ids = (await known.refresh("t")).ids
    assert ([*ids.readable], [*ids.writable], [*ids.preferred]) == ([0, 10_000], [0, 10_000], [0])
    assert await refusal_of(known.refresh("t")) == Code.UNAVAILABLE, "its brokers are away: it is not gone"
    assert known.known("t") is not None
    assert len(known.learn(Route.of("t", both)).ids.preferred) == 2
    known.learn(Route("t", ()), asked=["b-1"])
    assert [broker.name for broker in known.all()[0].brokers] == ["b-0"], "the other one says that it lacks it"
    monkeypatch.setattr(routes, "AWAY_SECONDS", -1.0)
    answers.append(EntrepotError(Code.TOPIC_NOT_FOUND, "no route"))
    assert await refusal_of(known.refresh("t")) == Code.TOPIC_NOT_FOUND
    assert known.known("t") is None and changes == ["t"] * 6


def test_two_brokers_with_one_number_are_not_mixed_up() -> None:
    brokers = [BrokerOfTopic(name, "127.0.0.1:1", 2, 2) for name in ("b-1", "a-1", "c-2")]
    route = Route.of("t", brokers)
    assert [broker.name for broker in route.brokers] == ["a-1", "c-2"]
    assert [*route.ids.readable] == [10_000, 10_001, 20_000, 20_001]
    with pytest.raises(EntrepotError, match="no queue 7"):
        route.queue(7)
