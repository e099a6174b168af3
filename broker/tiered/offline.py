"""OfflineTables: the messages of an object store, read without a broker.

Only the newest table of a topic counts in each store: the topic may have been deleted and made anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from random import Random

from entrepot.broker.cold.records import MAX_COLD_RUN, encode_cold
from entrepot.broker.tiered.cold import ColdTopic
from entrepot.broker.tiered.objects import ObjectStore
from entrepot.broker.tiered.segment_reader import SegmentReader
from entrepot.broker.tiered.table import TopicTable, bytes_of, folder_of, topic_of
from entrepot.broker.tiered.verification import roots
from entrepot.domain.broker_of_queue import broker_of_queue, local_queue
from entrepot.domain.clock import Clock
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.expression.filter import FilterExpression, compile_filter
from entrepot.domain.position import Position, PositionKind
from entrepot.domain.tiering import MAX_HOLES, TierAddress, TierStatus
from entrepot.domain.topic import QueueBounds, incarnation_of
from entrepot.protocols.wire.records import RecordRun, decode_run


class _Table:
    """A table, and the readers of its messages by the broker of each queue."""

    def __init__(self, objects: ObjectStore, reader: SegmentReader, root: str, clock: Clock) -> None:
        self.root = root
        self.table = TopicTable(objects, root, clock, Random())
        self._reader = reader
        self._cold: dict[int, ColdTopic] = {}

    def of_queue(self, queue_id: int) -> ColdTopic:
        number = broker_of_queue(queue_id)
        if number not in self._cold:
            self._cold[number] = ColdTopic(self.table, self._reader, number)
        return self._cold[number]


class OfflineTables:
    """A `store_client.blocking.BlockingReader`. `tables`: paths of those that count; empty: all. Calls raise TierError,
    and those that name a topic TOPIC_NOT_FOUND where it has no table."""

    def __init__(self, objects: ObjectStore, address: TierAddress, clock: Clock, tables: Sequence[str] = ()) -> None:
        self._objects, self._address, self._clock, self._chosen = objects, address, clock, tables
        self._reader = SegmentReader(objects)
        self._tables: dict[str, _Table] = {}

    def close(self) -> None:
        self._tables.clear()

    def topics(self) -> list[str]:
        """Return the names of the topics that have a table."""
        return sorted({topic_of(root) for root in self._roots()})

    def bounds(self, topic: str) -> list[QueueBounds]:
        """Return the bounds of each queue in the present tables."""
        found = []
        for each in self._opened(topic):
            for queue_id in sorted(each.table.progressing()):
                bounds = each.table.bounds(queue_id)
                number = incarnation_of(each.root)
                found.append(QueueBounds(queue_id, bounds.first, bounds.next_offset, incarnation=number))
        return found

    def tiering(self, topics: Sequence[str]) -> list[TierStatus]:
        """Return the tables of topics."""
        found = []
        for topic in topics:
            for each in self._opened(topic):
                table = each.table
                ends = ((local_queue(q), table.bounds(q).next_offset) for q in sorted(table.progressing()))
                size = table.snapshot.files.bytes
                segments = len(table.snapshot.files)
                holes = [
                    (queue_id, *hole) for queue_id in sorted(table.progressing()) for hole in table.holes(queue_id)
                ]
                found.append(
                    TierStatus(
                        topic,
                        each.root,
                        tuple(ends),
                        0,
                        segments,
                        size,
                        address=self._address,
                        missing=table.missing(),
                        holes=tuple(holes[:MAX_HOLES]),
                    )
                )
        return found

    def offset_at(self, topic: str, queue_id: int, position: Position) -> int:
        """Return the queue offset of a position."""
        each = self._of_queue(topic, queue_id)
        bounds = each.table.bounds(queue_id)
        match position.kind:
            case PositionKind.EARLIEST:
                return bounds.first
            case PositionKind.LATEST:
                return bounds.next_offset
            case PositionKind.OFFSET:
                return min(max(position.value, bounds.first), bounds.next_offset)
            case PositionKind.TIME:
                return each.of_queue(queue_id).since(local_queue(queue_id), position.value)

    def bytes_between(self, topic: str, queue_id: int, from_offset: int, to_offset: int) -> int:
        """Return about how many bytes of the tables the messages of a range have."""
        table = self._of_queue(topic, queue_id).table
        return bytes_of(table.snapshot, table.places(queue_id, from_offset, to_offset), from_offset, to_offset)

    def records(
        self,
        topic: str,
        queue_id: int,
        from_offset: int,
        to_offset: int,
        max_bytes: int,
        filter: FilterExpression | None = None,
    ) -> RecordRun:
        """Return the records in a range of offsets, made anew of rows. Raises ILLEGAL_OFFSET, MESSAGE_CORRUPTED."""
        each = self._of_queue(topic, queue_id)
        bounds = each.table.bounds(queue_id)
        if not bounds.first <= from_offset <= bounds.next_offset:
            text = f"offset {from_offset} is outside of {bounds.first} to {bounds.next_offset}"
            raise EntrepotError(Code.ILLEGAL_OFFSET, text)
        compiled = None if filter is None else compile_filter(filter)
        wanted = None if compiled is None or compiled.accepts_all else compiled
        page = each.of_queue(queue_id).read(local_queue(queue_id), from_offset, MAX_COLD_RUN, wanted)
        return decode_run(encode_cold(page, bounds.first, bounds.next_offset, to_offset, max_bytes))

    def _roots(self, topic: str = "") -> list[str]:
        """Return the paths of the tables of a topic, or of all: the chosen ones, or of each store the newest one."""
        found = roots(self._objects, f"{folder_of(topic)}/" if topic else "")
        if self._chosen:
            return [root for root in found if root in self._chosen]
        return newest(found)

    def _opened(self, topic: str) -> list[_Table]:
        """Return the tables of a topic as they are now."""
        named = self._roots(topic)
        if not named:
            raise EntrepotError(Code.TOPIC_NOT_FOUND, f"there is no table of topic {topic!r} at {self._address.url}")
        owners: dict[int, str] = {}
        opened = []
        for root in named:
            each = self._tables.get(root) or _Table(self._objects, self._reader, root, self._clock)
            each.table.refresh()
            self._tables[root] = each
            for queue_id in each.table.progressing():
                if (other := owners.setdefault(queue_id, root)) != root:
                    text = f"the tables {other} and {root} both have queue {queue_id}: name the one that is meant"
                    raise EntrepotError(Code.BAD_REQUEST, f"{text} (tier.tables)")
            opened.append(each)
        return opened

    def _of_queue(self, topic: str, queue_id: int) -> _Table:
        known = [each for each in self._tables.values() if topic_of(each.root) == topic]
        found = _with_queue(known, queue_id) or _with_queue(self._opened(topic), queue_id)
        if found is None:
            raise EntrepotError(Code.TOPIC_NOT_FOUND, f"there is no queue {queue_id} of topic {topic!r}")
        return found


def _with_queue(tables: Iterable[_Table], queue_id: int) -> _Table | None:
    return next((each for each in tables if each.table.progress(queue_id) is not None), None)


def newest(found: Iterable[str]) -> list[str]:
    """Return, of the tables of each topic and store, the one whose topic was made last."""
    last: dict[str, int] = {}
    for root in found:
        name, _, since = root.rpartition("-")
        if name and since.isdecimal():
            last[name] = max(last.get(name, 0), int(since))
    return [f"{name}-{since}" for name, since in sorted(last.items())]
