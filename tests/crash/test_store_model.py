"""Key-values, positions, retries, dead letters sent once more, further queues and filters as state machines: the
reference store beside the real one, through checkpoints in slices, restarts and crashes.

After every recovery the state must be what the log alone says.
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
from entrepot.domain.delivery import Deliveries
from entrepot.domain.errors import EntrepotError
from entrepot.domain.expression.filter import FilterExpression, FilterKind
from entrepot.domain.filter_hash import filter_hash
from entrepot.domain.key_value import ABSENT, KeyValueChange
from entrepot.domain.message import Message, SystemProperty
from entrepot.domain.ports import PopRequest
from entrepot.domain.position import Position, PositionKind
from entrepot.domain.topic import Topic
from tests.simulation.disk import SimulatedDisk
from tests.support.stores.derived_state import check_derived
from tests.support.stores.model_store import MemoryStore
from tests.support.stores.simulated_store import SimulatedStore, World
from tests.support.stores.stepped_ports import done
from tests.support.stores.steps import codes

T = TypeVar("T")
HOLD_BACK_LIMIT = 3
ALL = 10_000


class TwoStores(RuleBasedStateMachine):
    """Both stores, and what happens to the real one alone: nobody may notice."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.world = World()
        self.clock = self.world.clock
        self.model = MemoryStore(self.clock, hold_back_limit=HOLD_BACK_LIMIT)
        self.store = self.opened(SimulatedDisk())

    def teardown(self) -> None:
        self.recover(self.store.disk.crash(Random(0)))
        self.loop.close()

    def ask(self, question: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(question)

    def opened(self, disk: SimulatedDisk) -> SimulatedStore:
        return SimulatedStore(disk, self.world, hold_back_limit=HOLD_BACK_LIMIT)

    def recover(self, disk: SimulatedDisk) -> None:
        self.store = self.opened(disk)
        check_derived(self.store)

    @rule(count=st.integers(1, 3))
    def save_slices(self, count: int) -> None:
        for _ in range(count):
            self.store.checkpoint_slice()

    @rule()
    def take_a_slice(self) -> None:
        """It is written with what comes next, or at a later time."""
        self.store.begin_checkpoint()

    @rule()
    def write_the_slice(self) -> None:
        self.store.finish_checkpoint()
        self.store.begin_checkpoint()

    @rule()
    def restart(self) -> None:
        self.store.close()
        self.recover(self.store.disk.restart())
        assert not self.store.engine.report.was_unclean

    @rule(seed=st.integers(0, 1 << 30))
    def crash(self, seed: int) -> None:
        self.recover(self.store.disk.crash(Random(seed)))


# -- key-values --------------------------------------------------------------------------------------------------------

KEYS = ("a", "a/1", "a/2", "b", "ä")
CHANGE = st.tuples(
    st.sampled_from(KEYS), st.none() | st.binary(max_size=3), st.sampled_from(["any", "absent", "now", "old"])
)


class KeyValueMachine(TwoStores):
    """Versions differ between the stores; each key's versions come in the same order."""

    def __init__(self) -> None:
        super().__init__()
        self.versions: dict[str, list[tuple[int, int]]] = {key: [(ABSENT, ABSENT)] for key in KEYS}

    @rule(wanted=st.lists(CHANGE, min_size=1, max_size=3, unique_by=lambda change: change[0]))
    def write(self, wanted: list[tuple[str, bytes | None, str]]) -> None:
        written: list[list[KeyValueChange]] = [[], []]
        for key, value, expectation in wanted:
            [now] = self.ask(self.model.key_values.get([key]))
            known = self.versions[key]
            pair = {"any": (None, None), "absent": (ABSENT, ABSENT), "old": known[0], "now": known[-1]}[expectation]
            if expectation == "now" and now is None:
                pair = (ABSENT, ABSENT)
            for changes, expected in zip(written, pair, strict=True):
                changes.append(KeyValueChange(key, value, expected))
        ours = self.outcome(lambda: done(self.store.ports.key_values.write(written[0])))
        theirs = self.outcome(lambda: self.ask(self.model.key_values.write(written[1])))
        self.store.answer()
        if isinstance(theirs, int) and isinstance(ours, int):
            for key, value, _ in wanted:
                if value is not None:
                    assert ours > self.versions[key][-1][0]
                    self.versions[key].append((ours, theirs))
        else:
            assert ours == theirs

    @staticmethod
    def outcome(call: Any) -> int | str:
        try:
            found: int = call()
        except EntrepotError as refused:
            return refused.code.name
        return found

    @invariant()
    def agree(self) -> None:
        for prefix, after, limit in (("", "", 100), ("a/", "", 100), ("a", "a", 1), ("", "a/1", 2)):
            ours = self.store.opened.key_values.scan(prefix, after, limit)
            theirs = self.ask(self.model.key_values.scan(prefix, after=after, limit=limit))
            assert [(fact.key, fact.value) for fact in ours] == [(fact.key, fact.value) for fact in theirs]
            assert [fact.version for fact in ours] == [self.versions[fact.key][-1][0] for fact in ours]


# -- consumption -------------------------------------------------------------------------------------------------------

TOPICS = ("t", "u")
GROUPS = ("g", "h")
TAGS = ("red", "blue")
TOPIC = st.sampled_from(TOPICS)
GROUP = st.sampled_from(GROUPS)
PLACES = st.lists(st.integers(0, 30), min_size=1, max_size=3)
POSITION = st.builds(
    Position, st.sampled_from([PositionKind.EARLIEST, PositionKind.LATEST, PositionKind.OFFSET]), st.integers(0, 9)
)
ORIGIN = (
    SystemProperty.DEAD_LETTER_TOPIC,
    SystemProperty.DEAD_LETTER_QUEUE_OFFSET,
    SystemProperty.DEAD_LETTER_REASON,
    SystemProperty.DEAD_LETTER_ATTEMPTS,
)


class RetryMachine(TwoStores):
    """`g` wants all, `h` wants what is red.  `hands`: (topic, group, handle of the store, handle of the model)."""

    def __init__(self) -> None:
        super().__init__()
        self.hands: list[tuple[str, str, str, str]] = []

    @initialize(attempts=st.integers(1, 4))
    def begin(self, attempts: int) -> None:
        red = FilterExpression(FilterKind.TAG, "red")
        for name in TOPICS:
            self.ask(self.model.topology.put_topic(Topic(name, queues=1)))
            done(self.store.ports.topology.put_topic(Topic(name, queues=1)))
        for name, wanted in zip(GROUPS, (None, red), strict=True):
            group = ConsumerGroup(name, max_attempts=attempts, invisible_seconds=10, filter=wanted)
            self.ask(self.model.topology.put_group(group))
            done(self.store.ports.topology.put_group(group))
        self.store.answer()

    @rule(topic=TOPIC, tags=st.lists(st.sampled_from(TAGS), min_size=1, max_size=5), fans_out=st.booleans())
    def append(self, topic: str, tags: list[str], fans_out: bool) -> None:
        further = tuple((other, 0) for other in TOPICS if fans_out and other != topic)
        batch: list[Message] = []
        for tag in tags:
            fields = {"tag": tag, "filter_hash": filter_hash(topic, tag), "further_queues": further}
            batch += self.world.new_messages(topic, 0, 1, 20, **fields)

        async def send() -> None:
            self.model.messages.append(batch)
            await asyncio.sleep(0)

        self.ask(send())
        assert self.store.append_all(batch) is None
        self.store.answer()

    @rule(topic=TOPIC, group=GROUP, invisible_ms=st.sampled_from([1, 500, 5_000]))
    def pop(self, topic: str, group: str, invisible_ms: int) -> None:
        """All there is.  What moves to the retry topic may come with the next pop: so until nothing comes."""
        request = PopRequest(topic, group, ALL, 0, invisible_ms)
        ours: dict[Any, Any] = {}
        theirs: dict[Any, Any] = {}
        while (
            found := done(self.store.ports.consumption.pop(request))
            or self.store.engine.end > self.store.engine.confirmed_offset
        ):
            self.store.answer()
            for delivery in found if isinstance(found, Deliveries) else ():
                place = (delivery.message.queue_offset, delivery.attempt, delivery.message.body)
                ours.setdefault(place, []).append(delivery.receipt_handle)
        while expected := self.ask(self.model.consumption.pop(request)):
            for delivery in expected:
                place = (delivery.message.queue_offset, delivery.attempt, delivery.message.body)
                theirs.setdefault(place, []).append(delivery.receipt_handle)
        assert {place: len(some) for place, some in ours.items()} == {p: len(some) for p, some in theirs.items()}
        for place, some in ours.items():
            if len(some) == 1:  # else which is which is free
                self.hands.append((topic, group, some[0], theirs[place][0]))

    @precondition(lambda self: self.hands)
    @rule(
        places=PLACES,
        how=st.sampled_from(["acknowledge", "reject", "release", "renew"]),
        delay=st.integers(0, 700),
        suspend=st.booleans(),
    )
    def settle(self, places: list[int], how: str, delay: int, suspend: bool) -> None:
        for place in dict.fromkeys(place % len(self.hands) for place in places):
            topic, group, ours, theirs = self.hands[-1 - place]
            answers = []
            for store, handle, wait in ((self.store.ports, ours, done), (self.model, theirs, self.ask)):
                if how in ("acknowledge", "reject"):
                    answers.append(codes(wait(getattr(store.consumption, how)(topic, group, [handle]))))
                else:
                    change = store.consumption.change_invisible_duration(
                        topic, group, [handle], delay, release=how == "release", suspend=suspend
                    )
                    answers.append(codes(wait(change)))
            self.store.answer()
            assert answers[0] == answers[1]

    @rule(ms=st.sampled_from([1, 500, 5_000, 10_000]))
    def advance(self, ms: int) -> None:
        self.clock.advance(ms)

    @rule(topic=TOPIC, group=GROUP, position=POSITION)
    def reset(self, topic: str, group: str, position: Position) -> None:
        done(self.store.ports.consumption.reset_group(group, topic, position))
        self.store.answer()
        self.ask(self.model.consumption.reset_group(group, topic, position))

    @rule(group=GROUP, place=st.integers(0, 9))
    def resend(self, group: str, place: int) -> None:
        ours, theirs = self.dead_letters(group)
        if ours:
            chosen = sorted(map(origin, ours))[place % len(ours)]
            for letters, call in (
                (ours, lambda offset: done(self.store.ports.consumption.resend_dead_letters(group, [offset]))),
                (theirs, lambda offset: self.ask(self.model.consumption.resend_dead_letters(group, [offset]))),
            ):
                [offset, *_] = [letter.queue_offset for letter in letters if origin(letter) == chosen]
                assert call(offset) == [None]
            self.store.answer()

    def dead_letters(self, group: str) -> tuple[list[Any], list[Any]]:
        dead = f"%DLQ%{group}"
        ours = self.store.stored().get((dead, 0), [])
        return ours, [] if self.model.topology.topic(dead) is None else self.ask(
            self.model.messages.read(dead, 0, 0, ALL)
        )

    @invariant()
    def agree(self) -> None:
        for group in GROUPS:
            if self.model.topology.group(group) is None:
                continue
            ours, theirs = self.dead_letters(group)
            assert sorted(map(origin, ours)) == sorted(map(origin, theirs))
            found = done(self.store.ports.topology.group_status(group)).progress
            expected = self.ask(self.model.topology.group_status(group)).progress
            assert {seen(p) for p in found if p.topic in TOPICS} == {seen(p) for p in expected if p.topic in TOPICS}


def seen(progress: Any) -> tuple[Any, ...]:
    return progress.topic, progress.committed_offset, progress.max_offset, progress.in_flight, progress.lag


def origin(message: Message) -> tuple[str, ...]:
    return tuple(message.system_text(name) or "" for name in ORIGIN)


TestKeyValueMachine = KeyValueMachine.TestCase
TestKeyValueMachine.settings = settings(stateful_step_count=30)
TestRetryMachine = RetryMachine.TestCase
TestRetryMachine.settings = settings(stateful_step_count=25)
