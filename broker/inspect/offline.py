"""OfflineStore: the messages of a data directory that no server has open, read in place.

It is assembled as at a start, over a disk that keeps recovery's changes to itself. The log's segments are mapped into
memory, so that records are read without a copy. The directory's lock is held, shared with other readers: a server that
starts meanwhile is refused.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from entrepot.broker.consume.places import place_of
from entrepot.broker.consume.runs import find_entries
from entrepot.broker.inspect.log_files import LogFiles, Segment
from entrepot.broker.inspect.read_only import IdleSyncChannel, ReadOnlyDisk, ReadRows
from entrepot.broker.inspect.state_rows import read_state
from entrepot.broker.inspect.verification import lock_store
from entrepot.broker.opening.opened_store import assemble
from entrepot.broker.ports.catalog import Catalog
from entrepot.broker.settings.store import BrokerSettings
from entrepot.broker.store.log_reading import CommitLogLayout
from entrepot.broker.store.record_runs import bytes_between
from entrepot.domain.errors import CorruptedError
from entrepot.domain.expression.filter import FilterExpression
from entrepot.domain.position import Position
from entrepot.domain.tiering import TierStatus
from entrepot.domain.topic import QueueBounds
from entrepot.protocols.wire.records import RecordRun


class OfflineStore:
    """A `store_client.blocking.BlockingReader`. Raises NotAStoreError, StoreFailedError (it is in use)."""

    def __init__(self, root: str) -> None:
        root = os.path.abspath(root)
        self._lock = lock_store(root)
        self._scratch = tempfile.TemporaryDirectory(prefix="entrepot-offline-")
        self._maps: dict[int, mmap.mmap] = {}
        self._disk = ReadOnlyDisk(self._scratch.name)
        try:
            log = LogFiles(root)
            self._segments: dict[int, Segment] = {segment.start: segment for segment in log.segments}
            layout = replace(CommitLogLayout(), segment_size_bytes=log.segment_size)
            rows = read_state(f"{root}/state.db").trusted
            state_file = ReadRows(f"{root}/state.db", None if rows is None else dict(rows))
            settings = BrokerSettings(Path(root), layout=layout)
            opened = assemble(settings, self._disk, IdleSyncChannel(), IdleSyncChannel(), state_file)
        except BaseException:
            self.close()
            raise
        self._engine, self._catalog = opened.engine, Catalog(opened.engine, opened.registry, opened.store_id)
        self._segment_size = opened.engine.commit_log.layout.segment_size_bytes

    def close(self) -> None:
        """Release the directory."""
        self._maps.clear()
        self._disk.close_all()
        self._scratch.cleanup()
        self._lock.release()

    def topics(self) -> list[str]:
        """Return the names of all topics, the system's own included."""
        return sorted(self._catalog.registry.topics)

    def bounds(self, topic: str) -> list[QueueBounds]:
        """Return the readable bounds of each queue. Raises TOPIC_NOT_FOUND."""
        return self._catalog.with_incarnation(topic, self._catalog.bounds_of(self._catalog.existing_topic(topic)))

    def offset_at(self, topic: str, queue_id: int, position: Position) -> int:
        """Return the queue offset of a position. Raises TOPIC_NOT_FOUND."""
        return place_of(self._engine, self._catalog.existing_queue(topic, queue_id), position)

    def bytes_between(self, topic: str, queue_id: int, from_offset: int, to_offset: int) -> int:
        """Return about how many bytes of the log the messages of a range have."""
        queue = self._catalog.existing_queue(topic, queue_id)
        return bytes_between(queue, max(from_offset, queue.min_offset), min(to_offset, queue.visible_offset))

    def tiering(self, topics: Sequence[str]) -> list[TierStatus]:
        """Return nothing: a directory does not know its tier, and messages there are not read."""
        return []

    def records(
        self,
        topic: str,
        queue_id: int,
        from_offset: int,
        to_offset: int,
        max_bytes: int,
        filter: FilterExpression | None = None,
    ) -> RecordRun:
        """Return the records in a range of offsets, those of one segment at most. Raises TOPIC_NOT_FOUND,
        ILLEGAL_OFFSET, ILLEGAL_FILTER_EXPRESSION, MESSAGE_CORRUPTED."""
        queue = self._catalog.existing_queue(topic, queue_id)
        entries, next_offset = find_entries(self._engine, queue, from_offset, to_offset, max_bytes, filter)
        places = entries["commit_log_offset"].astype(np.int64)
        if not len(entries):
            return RecordRun(entries, places, b"", next_offset, queue.min_offset, queue.visible_offset)
        segment = int(places[0]) // self._segment_size
        inside = int((places // self._segment_size == segment).cumprod().sum())
        if inside < len(entries):
            next_offset = int(entries["queue_offset"][inside])
            entries, places = entries[:inside], places[:inside]
        start = segment * self._segment_size
        data = self._mapped(start)
        return RecordRun(entries, places - start, data, next_offset, queue.min_offset, queue.visible_offset)

    def _mapped(self, start: int) -> mmap.mmap:
        mapped = self._maps.get(start)
        if mapped is None:
            segment = self._segments.get(start)
            if segment is None or segment.end == segment.start:
                raise CorruptedError(f"the log's segment {start:020d} is missing")
            with open(segment.path, "rb") as file:
                mapped = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
            self._maps[start] = mapped
        return mapped
