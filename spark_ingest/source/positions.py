"""The start and end of reading: options as offsets of every queue.

Offsets go into Spark's checkpoint as `{"topic": {"queue": offset}}`, in the form of `startingOffsets`. Beside them are
the incarnations of topics, as `{"@": {"topic": {"queue": number}}}`: offsets of a topic that was made anew are others.
"""

from __future__ import annotations

import time
from typing import Any, Final

from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.names import is_hidden_topic
from entrepot.domain.position import EARLIEST_POSITION, LATEST_POSITION, Position, PositionKind
from entrepot.domain.topic import QueueBounds
from entrepot.spark_ingest.source.options import EARLIEST, LATEST, Offsets, OptionError, SourceOptions, Start
from entrepot.store_client.blocking import BlockingReader, RocketMqReader

NEW_TOPIC_SECONDS: Final = 2.0
"""Longest wait for a topic that another process has just made."""
INCARNATIONS: Final = "@"
"""Name beside those of topics, none of which has such a character."""
Bounds = dict[str, dict[int, QueueBounds]]
Incarnations = dict[str, dict[int, int]]
"""Numbers of incarnations by topic and queue (`QueueBounds.incarnation`); 0: not known."""


class DataLossError(Exception):
    """Messages that were to be read are gone."""


def to_json(offsets: Offsets, bounds: Bounds | None = None) -> dict[str, Any]:
    """The form in the checkpoint, always in the same order: Spark compares the text. `bounds` tell the incarnations."""
    found: dict[str, Any] = _in_order(offsets)
    known = {
        topic: {queue: number for queue, number in queues.items() if number and queue in wanted}
        for topic, queues in present(bounds or {}).items()
        if (wanted := offsets.get(topic)) is not None
    }
    if any(known.values()):
        found[INCARNATIONS] = _in_order({topic: queues for topic, queues in known.items() if queues})
    return found


def present(bounds: Bounds) -> Incarnations:
    """The incarnations of topics now."""
    return {topic: {queue: each.incarnation for queue, each in queues.items()} for topic, queues in bounds.items()}


def incarnations_in(offsets: dict[str, Any]) -> Incarnations:
    """The incarnations in a form of the checkpoint."""
    return from_json(offsets.get(INCARNATIONS, {}))


def _in_order(numbers: Offsets) -> dict[str, dict[str, int]]:
    return {topic: {str(queue): numbers[topic][queue] for queue in sorted(numbers[topic])} for topic in sorted(numbers)}


def from_json(offsets: dict[str, Any]) -> Offsets:
    """Parse the form of the checkpoint, without its incarnations."""
    return {
        topic: {int(queue): int(offset) for queue, offset in queues.items()}
        for topic, queues in offsets.items()
        if topic != INCARNATIONS
    }


def remade(offsets: dict[str, Any], now: Incarnations) -> list[tuple[str, int]]:
    """The queues of the checkpoint whose topic was made anew since: their offsets mean nothing any more."""
    return [
        (topic, queue)
        for topic, queues in incarnations_in(offsets).items()
        for queue, number in queues.items()
        if now.get(topic, {}).get(queue, 0) not in (0, number)
    ]


def subscribed(reader: BlockingReader, options: SourceOptions, known: Offsets | None = None) -> list[str]:
    """The subscribed topics. A list of topics must exist; a pattern may match none yet. `known`: see `bounds_of`."""
    known = known or {}
    if options.pattern:
        found = [name for name in reader.topics() if options.wants_topic(name) and not is_hidden_topic(name)]
        unlisted = [name for name in known if options.wants_topic(name) and name not in found]
        return sorted([*found, *(name for name in unlisted if not _lacks(reader, name, known))])
    deadline = time.monotonic() + NEW_TOPIC_SECONDS
    while missing := [name for name in _unlisted(reader, options) if _lacks(reader, name, known)]:
        if time.monotonic() < deadline:
            time.sleep(0.05)
            continue
        raise OptionError(f"there is no topic {missing[0]!r} at {options.location.text}")
    return sorted(options.topics)


def _unlisted(reader: BlockingReader, options: SourceOptions) -> list[str]:
    return sorted(set(options.topics).difference(reader.topics()))


def _lacks(reader: BlockingReader, topic: str, known: Offsets) -> bool:
    """True if a store does not have a topic that it does not list. RocketMQ lists one late, and not to everybody."""
    if not isinstance(reader, RocketMqReader):
        return True
    try:
        reader.bounds(topic, known.get(topic, {}))
    except EntrepotError as refusal:
        if refusal.code is not Code.TOPIC_NOT_FOUND:
            raise
        return True
    return False


def bounds_of(reader: BlockingReader, topics: list[str], known: Offsets | None = None) -> Bounds:
    """The readable offsets of each queue now. `known`: offsets that were read before. They tell of a broker that is
    away, and that RocketMQ's name servers have forgotten."""

    def bounds(topic: str) -> list[QueueBounds]:
        if isinstance(reader, RocketMqReader):
            return reader.bounds(topic, (known or {}).get(topic, {}))
        return reader.bounds(topic)

    return {topic: {each.queue_id: each for each in bounds(topic)} for topic in topics}


def latest(bounds: Bounds) -> Offsets:
    """The ends of the queues."""
    return {topic: {queue: b.max_offset for queue, b in queues.items()} for topic, queues in bounds.items()}


def resolve(reader: BlockingReader, start: Start, bounds: Bounds, *, late_is_error: bool, default: int) -> Offsets:
    """The offsets of a start or an end; queues that it does not name get `default`. Raises OptionError for a missing
    queue or topic, and for a time after the last message of a queue if `late_is_error`."""
    found: Offsets = {}
    for topic, queues in bounds.items():
        found[topic] = {}
        for queue, ends in queues.items():
            position = _position(start, topic, queue, default)
            found[topic][queue] = at = _offset(reader, topic, queue, position, ends)
            if late_is_error and position.kind is PositionKind.TIME and at == ends.max_offset:
                raise OptionError(
                    f"no message of {topic}/{queue} was stored at or after {position.value}: give a strategy "
                    "(startingOffsetsByTimestampStrategy=latest) or an earlier time"
                )
    _check_named(start.offsets or start.times_ms or {}, bounds)
    return found


def _check_named(named: Offsets, bounds: Bounds) -> None:
    for topic, queues in named.items():
        if topic not in bounds:
            raise OptionError(f"offsets name topic {topic!r}, which is not subscribed to")
        for queue in queues:
            if queue not in bounds[topic]:
                raise OptionError(f"offsets name queue {queue} of topic {topic!r}, which has {sorted(bounds[topic])}")


def _position(start: Start, topic: str, queue: int, default: int) -> Position:
    if start.word:
        return EARLIEST_POSITION if start.word == "earliest" else LATEST_POSITION
    if start.time_ms is not None:
        return Position(PositionKind.TIME, start.time_ms)
    if start.times_ms is not None and queue in start.times_ms.get(topic, {}):
        return Position(PositionKind.TIME, start.times_ms[topic][queue])
    offset = default if start.offsets is None else start.offsets.get(topic, {}).get(queue, default)
    if offset in (EARLIEST, LATEST):
        return EARLIEST_POSITION if offset == EARLIEST else LATEST_POSITION
    return Position(PositionKind.OFFSET, offset)


def _offset(reader: BlockingReader, topic: str, queue: int, position: Position, ends: QueueBounds) -> int:
    if position.kind is PositionKind.EARLIEST:
        return ends.min_offset
    if position.kind is PositionKind.LATEST:
        return ends.max_offset
    if position.kind is PositionKind.OFFSET:
        return position.value  # a missing or future one is told when it is read
    return reader.offset_at(topic, queue, position)
