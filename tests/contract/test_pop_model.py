"""Pop consumption as a state machine: the reference store beside the real one, through expiry, restarts and crashes.

Every answer is durable before the next step, so a crash loses nothing that was answered and both must agree always.
Which message of several returned ones comes first is not promised: then all are popped.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from random import Random
from typing import Any, TypeVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from entrepot.domain.definitions.consumer_group import ConsumerGroup
from entrepot.domain.message import Message, SystemProperty
from entrepot.domain.ports import PopRequest
from entrepot.domain.topic import Topic
from tests.simulation.disk import SimulatedDisk
from tests.support.stores.burying import bury_exhausted
from tests.support.stores.model_store import MemoryStore
from tests.support.stores.simulated_store import SimulatedStore, World
from tests.support.stores.steps import codes

T = TypeVar("T")
TOPICS = ("t", "u")
GROUPS = ("g", "h")
ALL = 10_000
TOPIC = st.sampled_from(TOPICS)
GROUP = st.sampled_from(GROUPS)
DELAY = st.sampled_from([0, 1, 500, 5_000, 20_000])
PLACES = st.lists(st.integers(0, 30), min_size=1, max_size=4)


class PopMachine(RuleBasedStateMachine):
    """`hands`: what consumers ever got, as (topic, group, handle of the store, handle of the model)."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.world = World()
        self.clock = self.world.clock
        self.model = MemoryStore(self.clock)
        self.store = SimulatedStore(SimulatedDisk(), self.world)
        self.hands: list[tuple[str, str, str, str]] = []
        self.committed: dict[tuple[str, str], int] = {}

    def teardown(self) -> None:
        for topic in TOPICS:
            for group in GROUPS:
                self.take(topic, group, ALL, 0)
        self.agree()
        self.loop.close()

    def ask(self, question: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(question)

    @initialize(limits=st.tuples(st.integers(1, 4), st.integers(1, 4)))
    def begin(self, limits: tuple[int, int]) -> None:
        for name in TOPICS:
            self.ask(self.model.topology.put_topic(Topic(name, queues=1)))
            self.store.put_topic(name, 1)
        for name, limit in zip(GROUPS, limits, strict=True):
            group = ConsumerGroup(name, max_attempts=limit, invisible_seconds=10)
            self.ask(self.model.topology.put_group(group))
            self.store.put_group(group)
        self.store.answer()

    # -- what happens ----------------------------------------------------------------------------------------------

    @rule(topic=TOPIC, count=st.integers(1, 5))
    def append(self, topic: str, count: int) -> None:
        messages = self.world.new_messages(topic, 0, count, 40)

        async def send(batch: list[Message]) -> None:
            self.model.messages.append(batch)
            await asyncio.sleep(0)

        self.ask(send(messages))
        assert self.store.append_all(messages) is None
        self.store.answer()

    @rule(topic=TOPIC, group=GROUP, count=st.integers(1, 6), invisible_ms=DELAY)
    def pop(self, topic: str, group: str, count: int, invisible_ms: int) -> None:
        self.take(topic, group, count, invisible_ms)

    def take(self, topic: str, group: str, count: int, invisible_ms: int) -> None:
        window = self.store.opened.progress.windows.get((group, topic), {}).get(0)
        due = None if window is None else window.next_due()
        if due is not None and due <= self.clock.now_ms():
            count = ALL  # something may return: its order is free
        expected = self.ask(self.model.consumption.pop(PopRequest(topic, group, count, 0, invisible_ms)))
        found = self.store.pop(topic, group, count, invisible_ms)
        self.store.answer()
        by_offset = {d.message.queue_offset: d for d in expected}
        assert {d.message.queue_offset: d.attempt for d in found} == {o: d.attempt for o, d in by_offset.items()}
        assert len(found) == len(expected)
        for delivery in found:
            twin = by_offset[delivery.message.queue_offset]
            assert delivery.message.body == twin.message.body
            self.hands.append((topic, group, delivery.receipt_handle, twin.receipt_handle))

    def some(self, places: list[int]) -> dict[tuple[str, str], tuple[list[str], list[str]]]:
        """Handles out of all that were ever given, the newest first, by topic and group."""
        chosen: dict[tuple[str, str], tuple[list[str], list[str]]] = {}
        for place in places:
            topic, group, ours, theirs = self.hands[-1 - place % len(self.hands)]
            real, model = chosen.setdefault((topic, group), ([], []))
            real.append(ours)
            model.append(theirs)
        return chosen

    @precondition(lambda self: self.hands)
    @rule(places=PLACES)
    def acknowledge(self, places: list[int]) -> None:
        for (topic, group), (ours, theirs) in self.some(places).items():
            expected = self.ask(self.model.consumption.acknowledge(topic, group, theirs))
            found = self.store.consumption.acknowledge(topic, group, ours, self.clock.now_ms())
            self.store.answer()
            assert codes(found) == codes(expected)

    @precondition(lambda self: self.hands)
    @rule(places=PLACES)
    def reject(self, places: list[int]) -> None:
        for (topic, group), (ours, theirs) in self.some(places).items():
            expected = self.ask(self.model.consumption.reject(topic, group, theirs))
            found = self.store.consumption.reject(topic, group, ours, self.clock.now_ms())
            self.store.answer()
            assert codes(found) == codes(expected)

    @precondition(lambda self: self.hands)
    @rule(places=PLACES, delay=st.none() | DELAY, release=st.booleans(), suspend=st.booleans())
    def change(self, places: list[int], delay: int | None, release: bool, suspend: bool) -> None:
        for (topic, group), (ours, theirs) in self.some(places).items():
            ours, theirs = list(dict.fromkeys(ours)), list(dict.fromkeys(theirs))
            delay = 0 if release and delay is None else delay  # the groups' retry policy
            how: dict[str, Any] = {"release": release, "suspend": suspend}
            expected = self.ask(self.model.consumption.change_invisible_duration(topic, group, theirs, delay, **how))
            now = self.clock.now_ms()
            found = self.store.consumption.change_invisible(topic, group, ours, delay, **how, now_ms=now)
            self.store.answer()
            assert codes(found) == codes(expected)

    @rule(ms=st.sampled_from([1, 499, 500, 5_000, 10_000, 30_000]))
    def advance(self, ms: int) -> None:
        self.clock.advance(ms)

    @rule(group=GROUP)
    def background(self, group: str) -> None:
        """Burying what is spent does not wait for a pop in the real store."""
        bury_exhausted(self.store.consumption, self.clock.now_ms())
        self.store.answer()
        for topic in TOPICS:
            for name in GROUPS:
                self.take(topic, name, ALL, 1_000)

    @rule()
    def checkpoint(self) -> None:
        self.store.checkpoint()

    @rule()
    def restart(self) -> None:
        self.store.close()
        self.store = SimulatedStore(self.store.disk.restart(), self.world)

    @rule(seed=st.integers(0, 1 << 30))
    def crash(self, seed: int) -> None:
        self.store = SimulatedStore(self.store.disk.crash(Random(seed)), self.world)

    # -- what must hold --------------------------------------------------------------------------------------------

    @invariant()
    def agree(self) -> None:
        for group in GROUPS:
            if self.model.topology.group(group) is None:
                continue
            expected = {
                (p.topic, p.committed_offset, p.in_flight, p.lag)
                for p in self.ask(self.model.topology.group_status(group)).progress
            }
            assert self.progress_of(group) == expected
            dead = f"%DLQ%{group}"
            ours = [] if (dead, 0) not in self.store.engine.dispatcher.queues else self.store.stored()[dead, 0]
            theirs = (
                [] if self.model.topology.topic(dead) is None else self.ask(self.model.messages.read(dead, 0, 0, ALL))
            )
            assert sorted(map(origin, ours)) == sorted(map(origin, theirs))
            assert len(set(map(origin, ours))) == len(ours), "a dead letter once"

    def progress_of(self, group: str) -> set[tuple[str, int, int, int]]:
        found = set()
        for (owner, topic), windows in self.store.opened.progress.windows.items():
            if owner == group:
                [window] = windows.values()
                end = self.store.queue(topic).visible_offset
                lag = end - window.frontier + window.unsettled
                found.add((topic, window.base, window.in_flight(self.clock.now_ms()), lag))
                assert window.base >= self.committed.get((group, topic), 0), "progress never falls"
                self.committed[group, topic] = window.base
        return found


def origin(message: Message) -> tuple[str, ...]:
    names = (
        SystemProperty.DEAD_LETTER_TOPIC,
        SystemProperty.DEAD_LETTER_QUEUE_OFFSET,
        SystemProperty.DEAD_LETTER_REASON,
        SystemProperty.DEAD_LETTER_ATTEMPTS,
    )
    return tuple(message.system_text(name) or "" for name in names)


TestPopMachine = PopMachine.TestCase
TestPopMachine.settings = settings(stateful_step_count=20)
