"""FIFO consumption as a state machine: many message groups, several consumers, releases and expiries.

What must hold is said by `Record`, which knows only what consumers saw: the messages of a message group are delivered
in order, and never while another consumer has one of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule

from entrepot.domain.definitions.consumer_group import ConsumerGroup
from entrepot.domain.delivery import Delivery
from entrepot.domain.ports import PopRequest
from entrepot.domain.topic import Topic
from tests.support.stores.machine import StoreMachine
from tests.support.stores.steps import append_all, codes, message

QUEUES = 2
ALL = 10_000
MESSAGE_GROUPS = ("", "a", "b", "c", "d")
DELAY = st.sampled_from([0, 1, 500, 5_000])
PLACES = st.lists(st.integers(0, 20), min_size=1, max_size=4)


@dataclass(slots=True)
class Record:
    """One message, as consumers saw it.  `free_at_ms`: when its consumer or its delay lets go of it."""

    queue_id: int
    offset: int
    message_group: str
    attempts: int = 0
    free_at_ms: int = 0
    is_held: bool = False
    is_settled: bool = False

    def is_in_flight(self, now_ms: int) -> bool:
        return self.is_held and not self.is_settled and self.free_at_ms > now_ms

    def waits(self, now_ms: int) -> bool:
        return not self.is_settled and self.free_at_ms > now_ms


class FifoRules(StoreMachine):
    """`hands`: what consumers have, by what they were told."""

    def __init__(self) -> None:
        super().__init__()
        self.records: dict[tuple[int, int], Record] = {}
        self.ends = [0] * QUEUES
        self.hands: list[tuple[Record, int, str]] = []

    def teardown(self) -> None:
        self.clock.advance(1_000_000)
        for _ in range(len(self.records) + 1):
            self.pop(count=ALL, invisible_ms=1_000)
            self.ask(self.store.consumption.acknowledge("t", "g", [handle for _, _, handle in self.hands]))
            for record, _, _ in self.hands:
                record.is_settled = True
            self.hands.clear()
        assert all(record.is_settled for record in self.records.values()), "nothing is stuck"
        super().teardown()

    @initialize()
    def begin(self) -> None:
        self.ask(self.store.topology.put_topic(Topic("t", queues=QUEUES)))
        self.ask(
            self.store.topology.put_group(ConsumerGroup("g", fifo=True, invisible_seconds=10, max_attempts=10_000))
        )

    # -- what happens ----------------------------------------------------------------------------------------------

    @rule(queue_id=st.integers(0, QUEUES - 1), groups=st.lists(st.sampled_from(MESSAGE_GROUPS), min_size=1, max_size=6))
    def append(self, queue_id: int, groups: list[str]) -> None:
        sent = [replace(message("t", f"{group}.", queue_id), message_group=group) for group in groups]
        assert self.ask(append_all(self.store, *sent)) == [None] * len(sent)
        for group in groups:
            record = Record(queue_id, self.ends[queue_id], group)
            self.records[queue_id, record.offset] = record
            self.ends[queue_id] += 1

    @rule(count=st.sampled_from([1, 2, 3, 5, ALL]), invisible_ms=st.sampled_from([1, 500, 5_000, 20_000]))
    def pop(self, count: int, invisible_ms: int) -> None:
        found = self.ask(self.store.consumption.pop(PopRequest("t", "g", count, 0, invisible_ms)))
        assert len(found) <= count
        self.check(found, is_all=count == ALL)
        now = self.clock.now_ms()
        for delivery in found:
            record = self.record_of(delivery)
            record.attempts += 1
            assert delivery.attempt == record.attempts
            record.free_at_ms, record.is_held = now + invisible_ms, True
            self.hands = [hand for hand in self.hands if hand[0] is not record]
            self.hands.append((record, record.attempts, delivery.receipt_handle))

    def take_hands(self, places: list[int]) -> list[tuple[Record, int, str]]:
        """Some of what consumers have still in time, the newest first."""
        now = self.clock.now_ms()
        held = [hand for hand in self.hands if hand[0].is_in_flight(now)]
        taken = {place % len(held): held[-1 - place % len(held)] for place in places} if held else {}
        return list(taken.values())

    @precondition(lambda self: self.hands)
    @rule(places=PLACES)
    def acknowledge(self, places: list[int]) -> None:
        taken = self.take_hands(places)
        outcomes = self.ask(self.store.consumption.acknowledge("t", "g", [handle for _, _, handle in taken]))
        assert codes(outcomes) == [None] * len(taken)
        for hand in taken:
            hand[0].is_settled = True
            self.hands.remove(hand)

    @precondition(lambda self: self.hands)
    @rule(places=PLACES, delay=DELAY)
    def release(self, places: list[int], delay: int) -> None:
        taken = self.take_hands(places)
        held = [handle for _, _, handle in taken]
        outcomes = self.ask(self.store.consumption.change_invisible_duration("t", "g", held, delay, release=True))
        assert codes(outcomes) == [None] * len(taken)
        for hand in taken:
            hand[0].free_at_ms, hand[0].is_held = self.clock.now_ms() + delay, False
            self.hands.remove(hand)

    @precondition(lambda self: self.hands)
    @rule(places=PLACES, delay=st.sampled_from([1, 5_000, 30_000]))
    def renew(self, places: list[int], delay: int) -> None:
        taken = self.take_hands(places)
        held = [handle for _, _, handle in taken]
        outcomes = self.ask(self.store.consumption.change_invisible_duration("t", "g", held, delay, release=False))
        assert codes(outcomes) == [None] * len(taken)
        for record, _, _ in taken:
            record.free_at_ms = self.clock.now_ms() + delay

    @rule(ms=st.sampled_from([1, 499, 500, 5_000, 20_000]))
    def advance(self, ms: int) -> None:
        self.clock.advance(ms)

    # -- what must hold --------------------------------------------------------------------------------------------

    def record_of(self, delivery: Delivery) -> Record:
        record = self.records[delivery.message.queue_id, delivery.message.queue_offset]
        assert record.message_group == delivery.message.message_group
        return record

    def check(self, found: Sequence[Delivery], *, is_all: bool) -> None:
        now = self.clock.now_ms()
        delivered = [self.record_of(delivery) for delivery in found]
        assert len({(r.queue_id, r.offset) for r in delivered}) == len(delivered), "each once"
        assert not [r for r in delivered if r.is_settled or r.waits(now)], "only what may be delivered"
        for queue_id in range(QUEUES):
            for group in MESSAGE_GROUPS:
                mine = [r for r in delivered if (r.queue_id, r.message_group) == (queue_id, group)]
                if group:
                    expected = self.run_of(queue_id, group, now)
                    assert mine == expected[: len(mine)], "in order, from the first unsettled one on"
                else:
                    every = self.records.values()
                    expected = [r for r in every if (r.queue_id, r.message_group) == (queue_id, "")]
                    expected = [r for r in expected if not r.is_settled and not r.waits(now)]
                if is_all:
                    assert len(mine) == len(expected), "nothing is held back without a reason"

    def run_of(self, queue_id: int, group: str, now_ms: int) -> list[Record]:
        """What of a message group may be delivered now."""
        members = [r for r in self.records.values() if (r.queue_id, r.message_group) == (queue_id, group)]
        unsettled = [r for r in sorted(members, key=lambda r: r.offset) if not r.is_settled]
        if any(r.is_in_flight(now_ms) for r in unsettled):
            return []
        waiting = [i for i, r in enumerate(unsettled) if r.waits(now_ms)]
        return unsettled[: waiting[0]] if waiting else unsettled


class MemoryFifo(FifoRules):
    kind = "memory"


class EmbeddedFifo(FifoRules):
    kind = "embedded"


TestFifoOfMemory = MemoryFifo.TestCase
TestFifoOfMemory.settings = settings(stateful_step_count=30)
TestFifoOfEmbedded = pytest.mark.soak(EmbeddedFifo.TestCase)  # opens a store for each history
TestFifoOfEmbedded.settings = settings(stateful_step_count=30)
