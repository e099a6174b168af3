"""Positions: where a connected session reads on, as its records say, and what has moved since.

A cursor knows which making of a topic it stands in.  After a topic was deleted and made anew, nothing of the new one
lies before it: the cursor is at its beginning.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from hashlib import blake2b
from math import isqrt
from typing import Final

from entrepot.domain.broker_of_queue import broker_of_queue
from entrepot.domain.key_value import KeyValueChange
from entrepot.domain.topic import is_another_making
from entrepot.gateway.mqtt.sessions.cursors import deletions, part_key, split
from entrepot.gateway.mqtt.sessions.record import (
    SESSION_PREFIX,
    Cursors,
    Made,
    SessionRecord,
    WindowRecord,
    encode_record,
    merge_cursors,
)

LEAST_MOVED: Final = 256
MOST_MOVED: Final = 2048
"""Cursors that the window's record may hold, for few cursors in all and for many: beyond it the session's record is
written with all of them."""

MadeAt = Callable[[str, int], int]
"""The number of the topic, by its name and one of its queues, now; 0 where its broker has not told."""


class Positions:
    """The positions of one session."""

    __slots__ = (
        "_made_at",
        "_most_moved",
        "_moved_count",
        "_parts_there",
        "_record",
        "_taken_parts",
        "_written_parts",
        "made",
        "moved",
        "moved_replays",
    )

    def __init__(self, record: SessionRecord, window: WindowRecord, made_at: MadeAt) -> None:
        self._record, self._made_at = record, made_at
        self.moved: Cursors = {topic: dict(queues) for topic, queues in window.moved.items()}
        self.moved_replays = {name: dict(cursors) for name, cursors in window.moved_replays.items()}
        self.made: Made = {topic: dict(numbers) for topic, numbers in window.made.items()}
        """The topics of what has moved."""
        self._moved_count = sum(map(len, self.moved.values()))
        self._most_moved = LEAST_MOVED
        self._parts_there = record.parts
        """Parts that may be in the key-values: one more than the last one's number."""
        self._written_parts: dict[int, bytes] = {}
        """Digests of the parts in the key-values, as far as they are known."""
        self._taken_parts: dict[int, bytes] = {}

    def move(self, replay: str, topic: str, queue_id: int, next_offset: int) -> bool:
        """Note the next offset of a queue; True if the session's record is to be written with all of them."""
        made_at = self._made_at(topic, queue_id)
        if made_at:
            broker, numbers = broker_of_queue(queue_id), self.made.get(topic)
            if numbers is None or numbers.get(broker) != made_at:
                if self._number(topic, broker) not in (0, made_at):  # the records are of an earlier topic of that name
                    return True
                self.made.setdefault(topic, {})[broker] = made_at
        moved = self.moved if not replay else self.moved_replays.setdefault(replay, {})
        queues = moved.get(topic)
        if queues is None:
            queues = moved[topic] = {}
        is_full = False
        if queue_id not in queues:
            self._moved_count += 1
            is_full = self._moved_count > self._most_moved
        queues[queue_id] = next_offset
        return is_full

    def _number(self, topic: str, broker: int) -> int:
        """The number of the topic that the records know; 0 if they know none."""
        numbers = self.made.get(topic)
        if numbers is not None and broker in numbers:
            return numbers[broker]
        return self._record.made.get(topic, {}).get(broker, 0)

    def forget_replay(self, replay: str) -> None:
        self.moved_replays.pop(replay, None)

    def restored(self, replay: str) -> dict[tuple[str, int], int]:
        """The cursors of the records, by queue; 0 where the topic has been made anew."""
        record = self._record
        cursors = record.cursors if not replay else record.replays.get(replay, {})
        moved = self.moved if not replay else self.moved_replays.get(replay, {})
        merged = merge_cursors(self._current(cursors, record.made), self._current(moved, self.made))
        return {(topic, queue_id): at for topic, queues in merged.items() for queue_id, at in queues.items()}

    def _current(self, cursors: Cursors, made: Made) -> Cursors:
        stale = {topic: self._stale(topic, cursors[topic], made[topic]) for topic in made if topic in cursors}
        return {
            topic: {queue_id: 0 if broker_of_queue(queue_id) in old else at for queue_id, at in queues.items()}
            if (old := stale.get(topic))
            else queues
            for topic, queues in cursors.items()
        }

    def _stale(self, topic: str, queue_ids: Iterable[int], numbers: dict[int, int]) -> set[int]:
        """The brokers whose topic is another one now."""
        found = set()
        for broker, queue_id in {broker_of_queue(queue_id): queue_id for queue_id in queue_ids}.items():
            if is_another_making(numbers.get(broker, 0), self._made_at(topic, queue_id)):
                found.add(broker)
        return found

    def number_of(self, topic: str, queue_id: int) -> int:
        """The number of the topic in which the cursor of a queue stands; 0 where it is not known."""
        return self._number(topic, broker_of_queue(queue_id))

    # -- for the record ------------------------------------------------------------------------------------------

    def unchanged(self, name: str, version: int) -> list[KeyValueChange]:
        """The change that writes the record, with its positions as they were written last."""
        stored = split(self._record)[0]
        return [KeyValueChange(SESSION_PREFIX + name, encode_record(stored), version)]

    def changes(self, name: str, version: int, now: tuple[Cursors, dict[str, Cursors]]) -> list[KeyValueChange]:
        """The changes that write the record with the positions of now.  Raises CursorsTooLargeError."""
        record, (cursors, replays) = self._record, now
        before = record.cursors, record.replays, record.made
        made = self._numbers(cursors, replays)
        record.cursors, record.replays, record.made = cursors, replays, made
        try:
            stored, parts = split(record)
        except Exception:
            record.cursors, record.replays, record.made = before
            raise
        record.parts = stored.parts
        changes = [KeyValueChange(SESSION_PREFIX + name, encode_record(stored), version)]
        digests = {at: blake2b(part, digest_size=16).digest() for at, part in enumerate(parts)}
        self._taken_parts = {at: each for at, each in digests.items() if self._written_parts.get(at) != each}
        changes += [KeyValueChange(part_key(name, at), parts[at]) for at in self._taken_parts]
        changes += deletions(name, self._parts_there, len(parts))
        self._parts_there = max(self._parts_there, len(parts))
        self.moved, self.moved_replays, self.made, self._moved_count = {}, {}, {}, 0
        count = sum(map(len, cursors.values()))
        self._most_moved = min(max(LEAST_MOVED, 4 * isqrt(count)), MOST_MOVED)
        return changes

    def _numbers(self, cursors: Cursors, replays: dict[str, Cursors]) -> Made:
        made: Made = {}
        for each in (cursors, *replays.values()):
            for topic, queues in each.items():
                for broker, queue_id in {broker_of_queue(queue_id): queue_id for queue_id in queues}.items():
                    number = self._made_at(topic, queue_id) or self._number(topic, broker)
                    if number:
                        made.setdefault(topic, {})[broker] = number
        return made

    def deletions(self, name: str) -> list[KeyValueChange]:
        """The changes that delete all parts."""
        return deletions(name, self._parts_there)

    def written(self) -> None:
        """Note that the taken changes are durable."""
        self._written_parts |= self._taken_parts
        self._written_parts = {at: part for at, part in self._written_parts.items() if at < self._record.parts}
        self._parts_there, self._taken_parts = self._record.parts, {}

    def doubt(self) -> None:
        """Note that the outcome of the last write is unknown: all parts are written again."""
        self._written_parts, self._taken_parts = {}, {}
