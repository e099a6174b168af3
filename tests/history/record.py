"""Record: a history with its indexes, as the rules look at it."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple, TypeVar

from tests.history.operations import (
    Acknowledge,
    AnyOperation,
    Change,
    Hand,
    Item,
    Operation,
    Pop,
    Publish,
    Read,
    Tailed,
    Whole,
)

QueueKey = tuple[str, int]
GroupKey = tuple[str, str]
"""Topic and group."""
AnyKind = TypeVar("AnyKind", bound=Operation)


class Violation(NamedTuple):
    """`rule`: its name.  `operations`: those that cannot all be true."""

    rule: str
    text: str
    operations: tuple[Operation, ...] = ()


class Seen(NamedTuple):
    """A message that a client saw, and how."""

    item: Item
    by: Operation


class Delivery(NamedTuple):
    """A message that a pop handed out, and what its consumer did with the handle."""

    pop: Pop
    hand: Hand
    acknowledged: list[Acknowledge]
    changed: list[Change]

    @property
    def queue(self) -> QueueKey:
        return self.pop.topic, self.hand.queue

    @property
    def name(self) -> str:
        return f"{self.hand.item.message} for {self.pop.group}, attempt {self.hand.attempt}"

    def is_before(self, other: Delivery) -> bool:
        """True where it was certainly handed out before: by its number, or by time where that says nothing."""
        if self.hand.attempt != other.hand.attempt:
            return self.hand.attempt < other.hand.attempt
        return self.pop.is_before(other.pop)

    def ends_ms(self, seen_by: Operation) -> int:
        """The store's time at which others may have it, at the earliest, as far as what began before `seen_by` ended
        says: a change of unknown outcome may count or not, and one that another followed does not."""
        last: list[tuple[Operation, int]] = [(self.pop, self.pop.begun_ms + self.pop.invisible_ms)]
        last += [
            (change, change.begun_ms + change.delay_ms)
            for change in self.changed
            if change.may_be_done and change.begun < seen_by.ended
        ]
        sure = [each for each, _ in last[1:] if each.is_ok and each.is_before(seen_by)]
        return min(ends for each, ends in last if not any(each.is_before(other) for other in sure))


class Record:
    """`deliveries`: by topic, group and message.  `by_handle`: by topic, group and handle."""

    def __init__(self, operations: Iterable[AnyOperation]) -> None:
        self.operations = sorted(operations, key=lambda each: (each.begun, each.ended))
        self.publishes = {each.message: each for each in self.of(Publish)}
        self.seen: dict[QueueKey, list[Seen]] = defaultdict(list)
        self.places: dict[str, tuple[QueueKey, int]] = {}
        self.at: dict[QueueKey, dict[int, Seen]] = defaultdict(dict)
        self.whole = {(each.topic, each.queue): each for each in self.of(Whole)}
        self.by_handle: dict[tuple[str, str, str], Delivery] = {}
        self.deliveries: dict[tuple[str, str, str], list[Delivery]] = defaultdict(list)
        self.unanswered: dict[GroupKey, list[int]] = defaultdict(list)
        """When pops of unknown outcome began, ascending."""
        self.twice: list[tuple[Delivery, Delivery]] = []
        self._note_seen()
        self._note_deliveries()

    def of(self, kind: type[AnyKind]) -> list[AnyKind]:
        return [each for each in self.operations if isinstance(each, kind)]

    def _note_seen(self) -> None:
        for each in self.operations:
            if isinstance(each, Pop):
                for hand in each.hands:
                    self._see((each.topic, hand.queue), Seen(hand.item, each))
            elif isinstance(each, Read | Tailed | Whole):
                for item in each.items:
                    self._see((each.topic, each.queue), Seen(item, each))

    def _see(self, queue: QueueKey, seen: Seen) -> None:
        self.seen[queue].append(seen)
        self.at[queue].setdefault(seen.item.offset, seen)
        self.places.setdefault(seen.item.message, (queue, seen.item.offset))

    def _note_deliveries(self) -> None:
        for pop in self.of(Pop):
            if not pop.is_ok and pop.may_be_done:
                self.unanswered[pop.topic, pop.group].append(pop.begun)
            for hand in pop.hands:
                delivery = Delivery(pop, hand, [], [])
                known = self.by_handle.setdefault((pop.topic, pop.group, hand.handle), delivery)
                if known is not delivery:
                    self.twice.append((known, delivery))
                self.deliveries[pop.topic, pop.group, hand.item.message].append(delivery)
        for each in self.operations:
            if isinstance(each, Acknowledge | Change):
                found = self.by_handle.get((each.topic, each.group, each.handle))
                if found is not None and isinstance(each, Acknowledge):
                    found.acknowledged.append(each)
                elif found is not None and isinstance(each, Change):
                    found.changed.append(each)

    def unanswered_before(self, key: GroupKey, moment: int) -> int:
        """How many pops of unknown outcome had begun."""
        return bisect_left(self.unanswered[key], moment)

    def of_message(self, delivery: Delivery) -> list[Delivery]:
        """All deliveries of its message to its group."""
        return self.deliveries[delivery.pop.topic, delivery.pop.group, delivery.hand.item.message]
