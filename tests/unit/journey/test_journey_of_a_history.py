"""Journeys of generated histories, against the history itself: nothing is made up, and what is not known is said."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from itertools import pairwise

from hypothesis import example, given
from hypothesis import strategies as st

from entrepot.domain.definitions.consumer_group import ConsumerGroup
from entrepot.domain.journey.facts import JourneyFacts, Reading
from entrepot.domain.journey.lineage import descendants, own_place, places_of, roots
from entrepot.domain.journey.model import Journey, JourneyHop, JourneyKind
from entrepot.domain.journey.telling import journey_of
from entrepot.domain.message import Message, StoredMessage
from entrepot.domain.names import dead_letter_topic
from entrepot.domain.ports import PopRequest
from entrepot.domain.topic import Topic
from tests.support.clock import ManualClock
from tests.support.stores.model_store.store import MemoryStore

INVISIBLE_SECONDS = 10
MAX_ATTEMPTS = 3
GROUPS = ("billing", "stock")
ACTIONS = st.tuples(st.sampled_from(GROUPS), st.sampled_from(("take", "release", "expire", "reject", "ack", "resend")))
Event = tuple[JourneyKind, str, int, int]
"""Kind, group, attempt, time."""


@dataclass
class History:
    """A store with one message, what was done to it, and what that was, in order."""

    is_traced: bool
    clock: ManualClock = field(default_factory=ManualClock)
    events: list[Event] = field(default_factory=list)
    held: dict[str, tuple[str, int]] = field(default_factory=dict)
    begun: dict[str, int] = field(default_factory=dict)

    async def run(self, actions: list[tuple[str, str]]) -> None:
        self.store = MemoryStore(self.clock)
        await self.store.topology.put_topic(Topic("orders", queues=1, trace=1.0 if self.is_traced else 0.0))
        for group in GROUPS:
            await self.store.topology.put_group(
                ConsumerGroup(group, max_attempts=MAX_ATTEMPTS, invisible_seconds=INVISIBLE_SECONDS)
            )
        twin = Message("orders", b"twin", queue_id=0, message_id=b"the id", born_time_ms=self.clock.now_ms())
        await self.store.messages.append([twin]).wait()
        self.clock.advance(1)
        message = Message("orders", b"it", queue_id=0, message_id=b"the id", born_time_ms=self.clock.now_ms())
        await self.store.messages.append([message]).wait()
        for group in GROUPS:  # the twin is out of the way, and makes hops of its own
            [first] = await self.store.consumption.pop(PopRequest("orders", group, 1))
            await self.store.consumption.reject("orders", group, [first.receipt_handle])
        for group, action in actions:
            self.clock.advance(1)
            await getattr(self, action)(group)

    def note(self, kind: JourneyKind, group: str, attempt: int) -> None:
        self.events.append((kind, group, attempt, self.clock.now_ms()))

    async def take(self, group: str) -> None:
        attempts = self.begun.get(group, 0)
        found = await self.store.consumption.pop(PopRequest("orders", group, 1))
        if found:
            assert found[0].message.body == b"it" and found[0].attempt == attempts + 1
            self.begun[group] = found[0].attempt
            self.held[group] = found[0].receipt_handle, found[0].attempt
            self.note(JourneyKind.DELIVERED, group, found[0].attempt)
        elif group not in self.held and attempts == MAX_ATTEMPTS and await self._letters(group) > self._buried(group):
            self.note(JourneyKind.DEAD_LETTERED, group, MAX_ATTEMPTS)

    def _buried(self, group: str) -> int:
        return sum(kind is JourneyKind.DEAD_LETTERED and of == group for kind, of, _, _ in self.events)

    async def _letters(self, group: str) -> int:
        """Dead letters without the twin's."""
        [bounds] = await self.store.messages.bounds(dead_letter_topic(group))
        return bounds.max_offset - 1

    async def release(self, group: str) -> None:
        if group in self.held:
            handle, attempt = self.held.pop(group)
            await self.store.consumption.change_invisible_duration(
                "orders", group, [handle], 0, release=True, reason="busy"
            )
            self.note(JourneyKind.FAILED, group, attempt)

    async def expire(self, group: str) -> None:
        self.clock.advance(INVISIBLE_SECONDS * 1000)
        self.held.clear()

    async def reject(self, group: str) -> None:
        if group in self.held:
            handle, attempt = self.held.pop(group)
            await self.store.consumption.reject("orders", group, [handle])
            self.note(JourneyKind.DEAD_LETTERED, group, attempt)

    async def ack(self, group: str) -> None:
        if group in self.held:
            handle, attempt = self.held.pop(group)
            await self.store.consumption.acknowledge("orders", group, [handle])
            self.note(JourneyKind.ACKNOWLEDGED, group, attempt)

    async def resend(self, group: str) -> None:
        last = [kind for kind, of, _, _ in self.events if of == group][-1:]
        if last == [JourneyKind.DEAD_LETTERED]:
            offset = await self._letters(group)
            assert await self.store.consumption.resend_dead_letters(group, [offset]) == [None]
            self.begun[group] = 0
            self.note(JourneyKind.RESENT, group, 0)

    async def facts(self) -> JourneyFacts:
        """Facts as a gateway gathers them."""
        finder = self.store.finder
        found = await finder.messages_by_id(b"the id")
        [message, twin] = roots(found)
        assert (message.body, twin.body) == (b"it", b"twin")
        copies = [each for each in found if each is not message]
        assert not set(map(own_place, descendants(message, copies))) & set(map(own_place, descendants(twin, copies)))
        readings = [
            Reading(own_place(each), consumer)
            for each in [message, *descendants(message, copies)]
            if not each.topic.startswith("%DLQ%")
            for consumer in await finder.message_consumers(each)
        ]
        return JourneyFacts(
            message,
            tuple(copies),
            tuple(await finder.message_trace(b"the id")),
            tuple(readings),
            traced=frozenset({"orders"} if self.is_traced else ()),
        )


def told(journey: Journey) -> list[Event]:
    return [(hop.kind, hop.group, hop.attempt, hop.time_ms or 0) for hop in journey.hops if hop.group and hop.time_ms]


def check_order(journey: Journey) -> None:
    times = [hop.time_ms for hop in journey.hops]
    known = [time for time in times if time is not None]
    assert known == sorted(known) and times[: len(known)] == known, "those with a time come first, in its order"
    assert [hop.is_known for hop in journey.hops] == sorted((hop.is_known for hop in journey.hops), reverse=True)
    assert all(hop.detail for hop in journey.hops if not hop.is_known), "the reason is said"
    assert {hop.lane for hop in journey.hops} == {lane.id for lane in journey.lanes}


def unseen(journey: Journey, group: str) -> list[JourneyHop]:
    return [hop for hop in journey.hops if hop.group == group and hop.time_ms is None]


@given(st.lists(ACTIONS, max_size=25))
@example([("billing", action) for action in ("take", "reject", "resend", "take", "reject")])
def test_a_traced_message_has_its_whole_history(actions: list[tuple[str, str]]):
    async def run() -> None:
        history = History(is_traced=True)
        await history.run(actions)
        journey = journey_of(await history.facts())
        check_order(journey)
        assert sorted(told(journey)) == sorted(history.events)
        assert not any(unseen(journey, group) for group in GROUPS)
        for hop in journey.hops:
            if hop.kind is JourneyKind.DELIVERED:
                assert hop.outcome == outcome_of(history.events, hop)

    asyncio.run(run())


def outcome_of(events: list[Event], hop: JourneyHop) -> str:
    """The end of an attempt, by the history: the next event of its group."""
    of_group = [event for event in events if event[1] == hop.group]
    at = of_group.index((hop.kind, hop.group, hop.attempt, hop.time_ms or 0))
    if at + 1 == len(of_group):
        return ""
    kind, _, _, time_ms = of_group[at + 1]
    is_over = time_ms - (hop.time_ms or 0) >= INVISIBLE_SECONDS * 1000
    return {
        JourneyKind.DELIVERED: "not settled in time",
        JourneyKind.FAILED: "busy",
        JourneyKind.ACKNOWLEDGED: "acknowledged",
        JourneyKind.DEAD_LETTERED: "max attempts reached" if is_over else "rejected",
    }[kind]


@given(st.lists(ACTIONS, max_size=25))
def test_an_untraced_message_has_its_failures_and_the_rest_is_said(actions: list[tuple[str, str]]):
    async def run() -> None:
        history = History(is_traced=False)
        await history.run(actions)
        journey = journey_of(await history.facts())
        check_order(journey)
        known = told(journey)
        assert set(known) <= set(history.events), "nothing is made up"
        assert len(known) == len(set(known))
        kept = (JourneyKind.FAILED, JourneyKind.DEAD_LETTERED, JourneyKind.RESENT)
        assert {event for event in history.events if event[0] in kept} <= set(known)
        for group in GROUPS:
            of_group = [event for event in history.events if event[1] == group]
            begun = [event for event in of_group if event[0] is JourneyKind.DELIVERED and event not in known]
            words = " ".join(hop.detail for hop in unseen(journey, group) if not hop.is_known)
            assert all(f"{event[2]}" in words for event in begun)
            is_taken = of_group[-1:] and of_group[-1][0] is JourneyKind.ACKNOWLEDGED
            taken = [hop for hop in unseen(journey, group) if hop.kind is JourneyKind.ACKNOWLEDGED]
            assert len(taken) == bool(is_taken)
            assert all(hop.is_known and "tracing is off" in hop.detail for hop in taken)

    asyncio.run(run())


@given(st.lists(ACTIONS, max_size=25))
@example([("stock", action) for action in ("take", "reject", "resend", "take", "ack")])
@example([("stock", action) for action in ("take", "reject", "resend", "take", "reject", "resend")])
def test_where_all_hops_were_dropped_the_log_and_the_windows_tell(actions: list[tuple[str, str]]):
    async def run() -> None:
        history = History(is_traced=False)
        await history.run(actions)
        journey = journey_of(replace(await history.facts(), hops=()))
        check_order(journey)
        known = told(journey)
        kept = (JourneyKind.DEAD_LETTERED, JourneyKind.RESENT)
        assert sorted(known) == sorted(event for event in history.events if event[0] in kept)
        for group in GROUPS:
            resent = [event[3] for event in known if event[:2] == (JourneyKind.RESENT, group)]
            bounds = [0, *resent, history.clock.now_ms() + 1]
            rounds = [
                max((e[2] for e in history.events if e[1] == group and first <= e[3] < end), default=0)
                for first, end in pairwise(bounds)
            ]
            missing = [hop for hop in unseen(journey, group) if not hop.is_known]
            assert len(missing) == sum(most > 0 for most in rounds), "each round says which attempts are not known"

    asyncio.run(run())


@given(st.permutations(range(4)))
def test_the_order_of_what_is_found_means_nothing(order: list[int]):
    async def run() -> None:
        history = History(is_traced=True)
        await history.run([("billing", "take"), ("billing", "release"), ("billing", "take"), ("billing", "reject")])
        facts = await history.facts()
        copies = list(facts.copies)
        shuffled = tuple(copies[place] for place in order if place < len(copies))
        same = replace(facts, copies=(*shuffled, *copies[len(order) :]))
        assert journey_of(same) == journey_of(facts)

    asyncio.run(run())


def test_places_that_are_nonsense_are_no_places():
    message = StoredMessage("orders", b"", queue_id=0, message_id=b"x")
    forged = replace(
        message,
        topic="%DLQ%g",
        system={"dead_letter_topic": "orders", "dead_letter_queue": "-1", "dead_letter_queue_offset": "9" * 40},
    )
    assert descendants(message, [forged]) == []
    assert places_of(message) == [("orders", 0, 0)]
    assert roots([message, forged]) == [message, forged]
