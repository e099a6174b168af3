"""Publishes to names whose topic is being made: who waits, waits alone, in order, and within limits."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.message import Message
from entrepot.domain.topic import Topic
from entrepot.gateway.messaging import new_topics
from entrepot.gateway.messaging.new_topics import MAX_AT_ONCE
from entrepot.gateway.messaging.send import Refusals, Sender
from entrepot.gateway.messaging.topology import Topology
from entrepot.gateway.settings import TopicsSettings
from tests.support.clock import ManualClock
from tests.support.stores.model_store import MemoryStore
from tests.support.waiting import until


class World:
    """A sender over a store in memory whose new topics are made when `go` says so."""

    def __init__(self, limit: int = 100) -> None:
        clock = ManualClock()
        self.store = MemoryStore(clock)
        self.writes: list[list[str]] = []
        self.failure: Exception | None = None
        self.may_go = asyncio.Event()
        self.stored: list[tuple[str, bytes]] = []
        self.outcomes: dict[bytes, EntrepotError | None] = {}
        self._put, self._append = self.store.topology.put_topics, self.store.messages.append
        self.store.topology.put_topics = self._put_slowly  # type: ignore[method-assign]
        self.store.messages.append = self._append_seen  # type: ignore[method-assign]
        self.sender = Sender(self.store, Topology(self.store, TopicsSettings(max_auto_created=limit)), clock)

    async def _put_slowly(self, topics: Sequence[Topic]) -> list[EntrepotError | None]:
        self.writes.append([topic.name for topic in topics])
        await self.may_go.wait()
        if self.failure is not None:
            raise self.failure
        return await self._put(topics)

    def _append_seen(self, messages: Sequence[Message]):
        there = [each for each in messages if self.store.topology.topic(each.topic) is not None]
        self.stored += [(each.topic, each.body) for each in there]
        return self._append(messages)

    def send(self, source: object, *messages: tuple[str, bytes]) -> None:
        def told(failure: EntrepotError | None, refusals: Refusals) -> None:
            for place, (_, body) in enumerate(messages):
                assert body not in self.outcomes, "told once"
                self.outcomes[body] = failure if refusals is None else refusals[place]

        self.sender.send([Message(topic, body, topic) for topic, body in messages], told, source)

    async def make(self, *names: str) -> None:
        await self._put([Topic(name) for name in names])

    async def settled(self, count: int) -> None:
        await until(lambda: len(self.outcomes) == count, f"{count} outcomes")


async def test_only_publishes_to_the_new_name_wait() -> None:
    world = World()
    await world.make("old")
    world.send("new client", ("new", b"n1"))
    world.send("old client", ("old", b"o1"))
    world.send(None, ("old", b"o2"))
    await world.settled(2)
    assert world.stored == [("old", b"o1"), ("old", b"o2")]
    assert not world.sender.is_full("old client")
    world.may_go.set()
    await world.settled(3)
    assert world.stored[-1] == ("new", b"n1")
    assert set(world.outcomes.values()) == {None}


async def test_the_order_of_a_source_holds() -> None:
    world = World()
    await world.make("old")
    world.send("c", ("new", b"1"), ("old", b"2"))
    world.send("c", ("old", b"3"))
    await until(lambda: world.writes == [["new"]], "it is being made")
    world.send("c", ("other", b"4"))
    world.send("c", ("old", b"5"))
    world.send("d", ("old", b"6"))
    await world.settled(1)
    world.may_go.set()
    await world.settled(6)
    assert [body for _, body in world.stored] == [b"6", b"1", b"2", b"3", b"4", b"5"]


async def test_the_names_of_a_tick_are_few_writes_and_later_ones_the_next() -> None:
    world = World()
    for number in range(50):
        world.send(number, (f"t{number:02}", b"%d" % number))
    await until(lambda: bool(world.writes), "they are being made")
    for number in range(50, 60):
        world.send(number, (f"t{number:02}", b"%d" % number))
    world.send("again", ("t00", b"again"))
    world.may_go.set()
    await world.settled(61)
    assert [len(names) for names in world.writes] == [MAX_AT_ONCE] * 3
    assert sorted(name for names in world.writes for name in names) == [f"t{number:02}" for number in range(60)]
    assert [body for topic, body in world.stored if topic == "t00"] == [b"0", b"again"]


@pytest.mark.parametrize("failure", [EntrepotError(Code.UNAVAILABLE, "no broker"), KeyError("ours"), None])
async def test_whatever_becomes_of_the_names_everything_is_given_back(failure: Exception | None) -> None:
    world = World()
    await world.make("old")
    world.failure = failure
    for number in range(20):
        world.send(number % 3, (f"new{number}", b"%d" % number))
    held = world.sender._new_topics
    await until(lambda: held.messages == 20, "they are held")
    assert held.bytes == sum(len(b"%d" % number) for number in range(20))
    world.may_go.set()
    await world.settled(20)
    assert (held.messages, held.bytes, held.is_idle) == (0, 0, True)
    assert not any(held.is_full(source) for source in range(3))
    told = {None if outcome is None else outcome.code for outcome in world.outcomes.values()}
    assert told == ({None} if failure is None else {Code.TOPIC_NOT_FOUND})
    world.send(0, ("old", b"after"))
    await world.settled(21)
    assert world.outcomes[b"after"] is None


async def test_at_the_limit_a_refusal_waits_for_nothing() -> None:
    world = World(limit=2)
    world.may_go.set()
    for number in range(4):
        world.send("c", (f"t{number}", b"%d" % number))
    await world.settled(4)
    assert [body for body, outcome in world.outcomes.items() if outcome is None] == [b"0", b"1"]
    assert world.writes == [["t0", "t1"]]
    await world.store.topology.delete_topic("t0")
    world.send("c", ("t9", b"9"))
    await world.settled(5)
    assert world.outcomes[b"9"] is None, "a deleted topic makes room"
    world.send("c", ("t8", b"8"))
    await world.settled(6)
    assert world.outcomes[b"8"] is not None


async def test_a_source_with_much_waiting_pauses_and_nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(new_topics, "MAX_SOURCE_BYTES", 10)
    monkeypatch.setattr(new_topics, "MAX_BYTES", 25)
    world = World()
    world.send("c", ("new", b"x" * 10))
    await until(lambda: bool(world.writes), "it is being made")
    assert not world.sender.is_full("c")
    world.send("c", ("new", b"y" * 3))
    await until(lambda: world.sender.is_full("c"), "it should pause")
    assert not world.sender.is_full("d") and not world.sender.backlogged
    relieved: list[str] = []
    world.sender.when_relieved(lambda: relieved.append("c"), "c")
    world.send("d", ("new", b"z" * 13))
    await world.settled(1)
    outcome = world.outcomes[b"z" * 13]
    assert outcome is not None and outcome.code is Code.TOO_MANY_REQUESTS, "beyond the limit of all"
    assert relieved == []
    world.may_go.set()
    await world.settled(3)
    assert relieved == ["c"] and not world.sender.is_full("c")


async def test_settle_does_not_wait_for_what_was_refused_at_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(new_topics, "MAX_BYTES", 1)
    world = World()
    world.send("c", ("new", b"too much"))
    await world.settled(1)
    refused = world.outcomes[b"too much"]
    assert refused is not None and refused.code is Code.TOO_MANY_REQUESTS
    world.may_go.set()
    await asyncio.wait_for(world.sender.settle(), 5)


async def test_a_fault_of_the_callback_of_a_refused_call_costs_no_other_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(new_topics, "MAX_BYTES", 1)
    world = World()

    def fail(failure: EntrepotError | None, refusals: Refusals) -> None:
        raise RuntimeError("a callback that fails")

    world.sender.send([Message("new", b"too much", "new")], fail, "c")
    world.send("d", ("new", b"1"))
    world.may_go.set()
    await world.settled(1)
    assert world.outcomes == {b"1": None}


async def test_settle_waits_for_what_is_held() -> None:
    world = World()
    world.send("c", ("new", b"1"))
    settling = asyncio.ensure_future(world.sender.settle())
    await until(lambda: bool(world.writes), "it is being made")
    assert not settling.done() and not world.outcomes
    world.may_go.set()
    await settling
    assert world.outcomes == {b"1": None}


@given(
    st.lists(st.tuples(st.integers(0, 3), st.lists(st.integers(0, 5), min_size=1, max_size=3)), max_size=25),
    st.randoms(),
)
async def test_any_calls_keep_the_order_of_each_source_and_name(calls: list[tuple[int, list[int]]], random) -> None:
    world = World()
    await world.make("t0", "t1")
    count = 0
    for source, topics in calls:
        messages = []
        for topic in topics:
            messages.append((f"t{topic}", b"%d/%d" % (source, count)))
            count += 1
        world.send(source, *messages)
        if random.random() < 0.4:
            await asyncio.sleep(0)
        if random.random() < 0.2:
            world.may_go.set()
    world.may_go.set()
    await world.settled(count)
    assert len(world.stored) == count
    for source in range(4):
        numbers = [int(body.split(b"/")[1]) for _, body in world.stored if body.startswith(b"%d/" % source)]
        assert numbers == sorted(numbers)


async def test_a_binding_that_fails_costs_the_call_that_has_it() -> None:
    world = World()
    await world.make("old")

    class Bindings:
        is_needed = True

        def add_queues(self, messages: Sequence[Message], now_ms: int) -> None:
            if any(message.body == b"odd" for message in messages):
                raise ValueError("mine")

    world.sender.bindings = Bindings()
    for number in range(5):
        world.send("c", ("old", b"%d" % number))
    world.send("c", ("old", b"odd"))
    world.send("c", ("old", b"last"))
    await world.settled(7)
    assert [body for _, body in world.stored] == [b"0", b"1", b"2", b"3", b"4", b"last"]
    outcome = world.outcomes[b"odd"]
    assert outcome is not None and outcome.code is Code.INTERNAL_ERROR
