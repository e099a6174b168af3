"""TopicTable: a topic of one broker in the object store, as a Delta table.

A table belongs to one incarnation of a topic: its path has the store's id and the offset of the log where the topic was
made. A topic that is deleted and made again has another table; a group of replicas has one.

Progress is in the table. Each commit that adds messages of a queue states the queue's end in it. It holds only where
the last one stated the offset from which this one goes on. So nothing is in it twice, and nothing is left out, whoever
else uploads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from types import MappingProxyType
from typing import Any, Final

import msgspec

from entrepot.broker.metadata.origin import table_name
from entrepot.broker.tiered.columns import delta_schema
from entrepot.broker.tiered.cutting import day_of, segments_of
from entrepot.broker.tiered.delta_actions import AddFile, OwnAction, RemoveFile, Transaction
from entrepot.broker.tiered.delta_log import ConflictError, DeltaLog, next_maintenance
from entrepot.broker.tiered.fence import Fence
from entrepot.broker.tiered.marks import TableMark
from entrepot.broker.tiered.objects import ObjectStore, TierError
from entrepot.broker.tiered.places import Place, Places
from entrepot.broker.tiered.segment import Run, Segment, runs_of, tags_of
from entrepot.broker.tiered.snapshot import PROGRESS, Snapshot
from entrepot.domain.clock import Clock
from entrepot.domain.errors import Code
from entrepot.domain.escaped_names import Escaping
from entrepot.domain.tiering import Hole, joined

CHECKS_FOR_A_LOAD: Final = 24
"""Checks that the table is unchanged for one that reads its whole log."""
MAX_LOOKED_AT: Final = 64
"""Most segments by which the bytes of messages are estimated."""
FOOTER_BYTES: Final = 8
_MAGIC: Final = b"PAR1"
_FOLDERS: Final = Escaping("_.-", sign="~")  # delta-rs opens no path with a per cent sign


@dataclass(frozen=True, slots=True)
class ColdBounds:
    """Offsets of a queue in the table: `first` to before `next_offset`. Both are equal where it has none."""

    first: int
    next_offset: int


def root_of(topic: str, store_id: str, since: int) -> str:
    """Return the path of the table of a topic that was made at an offset of a store's log."""
    return f"{folder_of(topic)}/{table_name(store_id, since)}"


def folder_of(topic: str) -> str:
    """Return the path of the folder of a topic's tables."""
    return _FOLDERS.name(topic)


def topic_of(root: str) -> str:
    """Return the topic of the table at a path."""
    return _FOLDERS.text(root.partition("/")[0])


class TopicTable:
    """A table, not for several threads at once. Requests raise TierError. `fence`: of its writers."""

    def __init__(
        self, objects: ObjectStore, root: str, clock: Clock, random: Random, fence: Fence | None = None
    ) -> None:
        self.root, self.fence = root, fence
        self._objects, self._clock, self._random = objects, clock, random
        self._log = DeltaLog(objects, root, clock)
        self._snapshot: Snapshot | None = None
        self._checks = 0
        self._places = Places()
        self._holes: dict[int, tuple[Hole, ...]] = {}

    # -- contents ------------------------------------------------------------------------------------------------

    @property
    def url(self) -> str:
        """URL of the object store."""
        return self._objects.url

    def open(self, *, create: bool = False, known: TableMark | None = None) -> bool:
        """Load the newest version; with `create` make a missing table, unless it is `known`. True if it is there.
        Raises PRECONDITION_FAILED for a table that has less than is known."""
        snapshot = self._log.load()
        if known is not None:
            known.check(self.root, self.url, snapshot)
        if snapshot is None and create:
            snapshot = self._log.create(delta_schema(), {}, self._attempt())
        if snapshot is not None:
            self.take(snapshot)
            if self.fence is not None:
                self.fence.check(self.root, snapshot)
        return snapshot is not None

    def refresh(self) -> None:
        """Take over others' commits since."""
        if (newest := self.newest()) is not None:
            self.take(newest)

    def newest(self) -> Snapshot | None:
        """Return the present version, which is not taken over yet; None where there is no table."""
        return self._log.load() if self._snapshot is None else self._log.refresh(self._snapshot)

    def check_current(self) -> None:
        """Raise TierError where the store has less than is known here: it was put back to an earlier state. Now and
        then all of the log is read: it may have a hole."""
        self._log.check_is_there(self.snapshot)
        self._checks += 1
        if self._checks % CHECKS_FOR_A_LOAD == 0:
            self._log.load()

    def missing(self) -> int:
        """Return how many messages between the table's first ones and its end are lost: those of holes, and of runs
        from before there were holes."""
        return self._places.missing

    @property
    def snapshot(self) -> Snapshot:
        if self._snapshot is None:
            raise TierError(f"the table {self.root} is not open")
        return self._snapshot

    def take(self, snapshot: Snapshot) -> None:
        """Take over a version. Raises MESSAGE_CORRUPTED for a file of another program: then all stays as it was."""
        if self._snapshot is None:
            places = Places()
            with_holes: set[int] = set()
            for path in snapshot.files:
                runs = _runs_of(self.root, snapshot.files[path])
                places.add(runs, path)
                with_holes |= {run.queue_id for run in runs if not run.rows}
            self._snapshot, self._places = snapshot, places
            self._note_holes(with_holes)
            return
        added, gone = snapshot.files.differences(self._snapshot.files)
        new = [(path, _runs_of(self.root, snapshot.files[path])) for path in added]
        old = [(path, self.runs(path)) for path in gone]
        self._snapshot = snapshot
        for path, runs in old:
            self._places.remove(runs, path)
        for path, runs in new:
            self._places.add(runs, path)
        self._note_holes({run.queue_id for _, runs in (*new, *old) for run in runs if not run.rows})

    def _note_holes(self, queues: set[int]) -> None:
        """Take over the holes of queues, of which some have come or gone."""
        for queue_id in queues:
            holes = [Hole(place.first, place.next_offset) for place in self._places.all(queue_id) if not place.rows]
            self._holes[queue_id] = joined(holes)

    def progress(self, queue_id: int) -> int | None:
        """Return the offset from which the next upload of a queue goes on; None without an upload."""
        return self.snapshot.transactions.get(_progress_of(queue_id))

    def bounds(self, queue_id: int) -> ColdBounds:
        end = self.progress(queue_id) or 0
        first = next((place.first for place in self._places.all(queue_id) if place.rows), end)
        return ColdBounds(first, end)

    def progressing(self) -> list[int]:
        """Return the queues with uploads, even if these are gone since."""
        return list(self.snapshot.ends)

    def place(self, queue_id: int, offset: int) -> Place | None:
        """Return the run that has an offset, or the first one after it; None at the end. Raises COLD_CORRUPTED where
        the table has lost a part between two of its runs."""
        before, after = self._places.around(queue_id, offset)
        if before is not None and offset < before.next_offset:
            return before
        if after is not None:
            if before is not None:
                raise self._lost(queue_id, before.next_offset, after.first)
            return after
        end = self.progress(queue_id) or 0
        if before is not None and offset < end:
            raise self._lost(queue_id, before.next_offset, end)
        return None

    def _lost(self, queue_id: int, first: int, end: int) -> TierError:
        text = f"the table {self.root} has lost messages {first} to {end} of queue {queue_id}"
        return TierError(f"{text}: restore the file that was deleted (entrepot tier verify)", Code.COLD_CORRUPTED)

    def holes(self, queue_id: int) -> tuple[Hole, ...]:
        """Return the holes of a queue, in order, as known since the last `take`."""
        return self._holes.get(queue_id, ())

    def places(self, queue_id: int, first: int, end: int) -> list[Place]:
        """Return the runs in a range of offsets, in order. The table has lost any parts between them."""
        return self._places.within(queue_id, first, end)

    def since(self, queue_id: int, time_ms: int) -> int:
        """Return an offset before which every message is older, or the end. Store time may step back: all runs are
        read."""
        found = self._places.first_since(queue_id, time_ms)
        return self.bounds(queue_id).next_offset if found is None else found

    # -- upload --------------------------------------------------------------------------------------------------

    @property
    def schema(self) -> str:
        """Spark's JSON schema."""
        return self.snapshot.metadata.schema_string

    def upload(
        self,
        rows: Any,
        starts: Mapping[int, int | None],
        ends: Mapping[int, int],
        schema: str | None = None,
        given_up: Mapping[int, int] = MappingProxyType({}),
    ) -> None:
        """Add rows, in order of queue and offset, of queues that go on at `starts` and then end at `ends`.

        Each of these queues has a row. Offsets without one, which the broker no longer had, become holes; in a queue
        without a start they begin at `given_up`. `schema`: the table's from now on, with more columns. Raises
        ConflictError where another has uploaded meanwhile: then `progress` is new.
        """
        began = {**given_up, **{queue_id: start for queue_id, start in starts.items() if start is not None}}
        now_ms = self._clock.now_ms()
        files = [self._store(segment, day) for day, segment in segments_of(rows, began, ends, now_ms)]
        expected = {_progress_of(queue_id): start for queue_id, start in starts.items()}
        actions: list[OwnAction] = [*files]
        actions += [Transaction(_progress_of(queue_id), end, now_ms) for queue_id, end in ends.items()]
        if schema not in (None, self.schema):
            actions.append(msgspec.structs.replace(self.snapshot.metadata, schema_string=schema))
        self._commit(actions, "WRITE", expected)

    def _store(self, segment: Segment, day: str, *, is_new: bool = True) -> AddFile:
        path = f"{day}/{self._attempt()}.parquet"
        stored = f"{self.root}/{path}"
        self._objects.put_new(stored, segment.data)
        size = self._objects.size(stored)
        [end] = self._objects.get_ranges(stored, [(size - FOOTER_BYTES, size)])
        if size != len(segment.data) or end != segment.data[-FOOTER_BYTES:] or end[-4:] != _MAGIC:
            raise TierError(f"{stored} was stored, and is another object now")
        tags = tags_of(segment.runs, is_clustered=segment.is_clustered)
        return AddFile(path, size, self._clock.now_ms(), is_new, segment.stats, tags)

    def _attempt(self) -> str:
        return f"{self._random.getrandbits(128):032x}"

    def _commit(self, actions: Sequence[OwnAction], operation: str, expected: Mapping[str, int | None]) -> None:
        """Commit. Raises FencedError where another is to write, ConflictError where the table has gone on."""
        if self.fence is not None:
            now_ms = self._clock.now_ms()
            actions, expected = self.fence.guarded(self.root, self.snapshot, actions, expected, now_ms)
        self._write(actions, operation, expected)

    def written_ms(self) -> int:
        """Return the time of the newest commit, by its maker's clock, in epoch milliseconds."""
        return self._log.written_ms(self.snapshot)

    def take_over(self, fence: Fence) -> None:
        """Take over the table; its former owner is shut out. Raises ConflictError where that one has just written."""
        actions, expected = fence.taking_over(self.snapshot, self._clock.now_ms())
        self._write(actions, "TAKE OVER", expected)

    def _write(self, actions: Sequence[OwnAction], operation: str, expected: Mapping[str, int | None]) -> None:
        try:
            snapshot = self._log.commit(self.snapshot, actions, self._attempt(), operation=operation, expected=expected)
        except ConflictError as conflict:  # the next try goes on from the table's present state
            self.take(conflict.snapshot)
            raise
        self.take(snapshot)
        self._log.checkpoint(snapshot)

    def runs(self, path: str) -> tuple[Run, ...]:
        """Return the runs of a segment that is in the table."""
        return _runs_of(self.root, self.snapshot.files[path])

    def replace(self, paths: Sequence[str], segment: Segment) -> None:
        """Replace segments of a day by one with the same messages. Raises ConflictError if the table has changed."""
        now_ms = self._clock.now_ms()
        added = self._store(segment, paths[0].partition("/")[0], is_new=False)
        files = self.snapshot.files
        removes = [RemoveFile(path, False, now_ms, files.size(path)) for path in paths]
        self._commit([added, *removes, next_maintenance(self.snapshot)], "OPTIMIZE", {})

    # -- removal -------------------------------------------------------------------------------------------------

    def expire(self, before_ms: int) -> int:
        """Remove segments with only older messages, if first in their queues, so that no gap arises. Returns their
        number."""
        last_day = day_of(before_ms)
        old = {path: self.runs(path) for path in self.snapshot.files if path.partition("/")[0] <= last_day}
        gone = {path: runs for path, runs in old.items() if all(run.times[1] < before_ms for run in runs)}
        while following := self._following(gone):
            for path in following:  # and those that follow these in their other queues
                del gone[path]
        if not gone:
            return 0
        now_ms = self._clock.now_ms()
        files = self.snapshot.files
        removes: list[OwnAction] = [RemoveFile(path, True, now_ms, files.size(path)) for path in sorted(gone)]
        self._commit([*removes, next_maintenance(self.snapshot)], "DELETE", {})
        return len(gone)

    def _following(self, gone: Mapping[str, Sequence[Run]]) -> list[str]:
        """Return those that have a kept segment before them in one of their queues."""
        kept: dict[int, int] = {}
        for queue_id in {run.queue_id for runs in gone.values() for run in runs}:
            first = next((place.first for place in self._places.all(queue_id) if place.path not in gone), None)
            if first is not None:
                kept[queue_id] = first
        return [
            path
            for path, runs in gone.items()
            if any(run.queue_id in kept and run.first >= kept[run.queue_id] for run in runs)
        ]

    def vacuum(self, grace_ms: int) -> int:
        """Delete objects that no reader needs any more; return their number."""
        if self.fence is not None:
            self.fence.check(self.root, self.snapshot)
        found = self._log.vacuum(self.snapshot, grace_ms, self._clock.now_ms())
        self._log.delete(self.snapshot, found)
        return len(found.tombstoned) + len(found.orphans)


def bytes_of(snapshot: Snapshot, places: Sequence[Place], first: int, end: int) -> int:
    """Return about how many bytes in the object store the messages from an offset to before another one have. `places`:
    the runs of these, of a version of the table; of very many some are looked at."""
    full = [place for place in places if place.rows]
    rows = sum(min(end, place.next_offset) - max(first, place.first) for place in full)
    size = of_files = 0
    for path in {place.path for place in full[:: len(full) // MAX_LOOKED_AT + 1]}:
        file = snapshot.files[path]
        size, of_files = size + file.size, of_files + sum(run.rows for run in runs_of(file.tags))
    return rows * size // max(of_files, 1)


def _progress_of(queue_id: int) -> str:
    return f"{PROGRESS}{queue_id}"


def _runs_of(root: str, file: AddFile) -> tuple[Run, ...]:
    """Return the runs of a segment. Raises MESSAGE_CORRUPTED for a file that another program added."""
    try:
        return runs_of(file.tags)
    except msgspec.DecodeError:
        raise TierError(
            f"{root}/{file.path} is in the table, and was not written by a broker: remove it from the table again",
            Code.MESSAGE_CORRUPTED,
        ) from None
