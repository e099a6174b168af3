"""Trying again as a state machine: releases, expiries and retry topics on the way.

What must hold is said by what consumers saw: every message is settled in the end, is never delivered after that or
while a consumer has it, counts its attempts without a gap, and becomes one dead letter after the last of them.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule

from entrepot.domain.definitions.consumer_group import ConsumerGroup
from entrepot.domain.errors import Code
from entrepot.domain.message import SystemProperty
from entrepot.domain.ports import PopRequest
from entrepot.domain.topic import Topic
from tests.support.stores.machine import StoreMachine
from tests.support.stores.steps import append_all, codes, message

ALL = 10_000
PLACES = st.lists(st.integers(0, 20), min_size=1, max_size=5)
LAST_ATTEMPT = 4


@dataclass(slots=True)
class Seen:
    """One message, as consumers saw it."""

    attempts: int = 0
    free_at_ms: int = 0
    is_settled: bool = False
    is_dead: bool = False


class RetryRules(StoreMachine):
    """`hands`: handles that are current, by the offset of their message."""

    hold_back_limit = 3

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[Seen] = []
        self.hands: dict[int, str] = {}

    def teardown(self) -> None:
        for _ in range(200):  # what is moved may take a moment to be there again
            self.clock.advance(1_000_000)
            self.pop(count=ALL, invisible_ms=1)
            if self.is_all_over():
                break
        assert self.is_all_over(), "nothing is stuck"
        dead = self.ask(self.store.consumption.pop(PopRequest("%DLQ%g", "reader", ALL)))
        offsets = [int(d.message.system_text(SystemProperty.DEAD_LETTER_QUEUE_OFFSET) or -1) for d in dead]
        spent = [i for i, seen in enumerate(self.seen) if not seen.is_settled or seen.is_dead]
        assert Counter(offsets) == Counter(spent), "each that was not settled is one dead letter"
        super().teardown()

    def is_all_over(self) -> bool:
        status = self.ask(self.store.topology.group_status("g"))
        return sum(progress.lag for progress in status.progress) == 0

    @initialize()
    def begin(self) -> None:
        self.ask(self.store.topology.put_topic(Topic("t", queues=1)))
        self.ask(self.store.topology.put_group(ConsumerGroup("g", max_attempts=LAST_ATTEMPT)))

    @rule(count=st.integers(1, 8))
    def append(self, count: int) -> None:
        sent = [message("t", str(len(self.seen) + i)) for i in range(count)]
        assert self.ask(append_all(self.store, *sent)) == [None] * count
        self.seen += [Seen() for _ in range(count)]

    @rule(count=st.sampled_from([1, 3, ALL]), invisible_ms=st.sampled_from([1, 500, 20_000]))
    def pop(self, count: int, invisible_ms: int) -> None:
        now = self.clock.now_ms()
        for delivery in self.ask(self.store.consumption.pop(PopRequest("t", "g", count, 0, invisible_ms))):
            found = delivery.message
            seen = self.seen[found.queue_offset]
            assert (found.topic, found.body) == ("t", str(found.queue_offset).encode())
            assert not seen.is_settled, "what is settled never comes back"
            assert seen.free_at_ms <= now, "not while a consumer has it, and not before its delay is over"
            seen.attempts += 1
            assert delivery.attempt == seen.attempts <= LAST_ATTEMPT
            seen.free_at_ms = now + invisible_ms
            self.hands[found.queue_offset] = delivery.receipt_handle

    def take(self, places: list[int]) -> list[int]:
        """Offsets of some messages that consumers have still in time, the newest first."""
        now = self.clock.now_ms()
        held = [offset for offset in self.hands if self.seen[offset].free_at_ms > now]
        return list({held[-1 - place % len(held)] for place in places}) if held else []

    @precondition(lambda self: self.hands)
    @rule(places=PLACES)
    def acknowledge(self, places: list[int]) -> None:
        taken = self.take(places)
        handles = [self.hands.pop(offset) for offset in taken]
        assert codes(self.ask(self.store.consumption.acknowledge("t", "g", handles))) == [None] * len(taken)
        void = [Code.INVALID_RECEIPT_HANDLE] * len(taken)
        assert codes(self.ask(self.store.consumption.acknowledge("t", "g", handles))) == void
        for offset in taken:
            self.seen[offset].is_settled = True

    @precondition(lambda self: self.hands)
    @rule(places=PLACES)
    def reject(self, places: list[int]) -> None:
        taken = self.take(places)
        handles = [self.hands.pop(offset) for offset in taken]
        assert codes(self.ask(self.store.consumption.reject("t", "g", handles))) == [None] * len(taken)
        for offset in taken:
            self.seen[offset].is_settled = self.seen[offset].is_dead = True

    @precondition(lambda self: self.hands)
    @rule(places=PLACES, delay=st.sampled_from([0, 1, 500, 20_000]))
    def release(self, places: list[int], delay: int) -> None:
        taken = self.take(places)
        handles = [self.hands.pop(offset) for offset in taken]
        outcomes = self.ask(self.store.consumption.change_invisible_duration("t", "g", handles, delay, release=True))
        assert codes(outcomes) == [None] * len(taken)
        for offset in taken:
            self.seen[offset].free_at_ms = self.clock.now_ms() + delay

    @rule(ms=st.sampled_from([1, 499, 500, 20_000]))
    def advance(self, ms: int) -> None:
        self.clock.advance(ms)


class MemoryRetry(RetryRules):
    kind = "memory"


class EmbeddedRetry(RetryRules):
    kind = "embedded"


TestRetryOfMemory = MemoryRetry.TestCase
TestRetryOfMemory.settings = settings(stateful_step_count=30)
TestRetryOfEmbedded = pytest.mark.soak(EmbeddedRetry.TestCase)  # opens a store for each history
TestRetryOfEmbedded.settings = settings(stateful_step_count=30)
