"""Verification: the tables of an object store, checked without a broker. Nothing is written.

A table has the runs of queues in each segment, with counts and digests. So missing, doubled and altered messages can be
found from outside.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from entrepot.broker.tiered.bands import bands_of, in_order
from entrepot.broker.tiered.columns import by_queue, is_corrupted
from entrepot.broker.tiered.delta_actions import AddFile
from entrepot.broker.tiered.delta_log import DeltaLog
from entrepot.broker.tiered.digest import MASK, digest_of
from entrepot.broker.tiered.objects import MissingObjectError, ObjectStore, TierError
from entrepot.broker.tiered.segment import Run, counted, read_footer, runs_of
from entrepot.broker.tiered.segment_reader import open_segment
from entrepot.broker.tiered.snapshot import Snapshot
from entrepot.broker.tiered.table import topic_of
from entrepot.domain.clock import Clock
from entrepot.domain.errors import Code
from entrepot.domain.tiering import Hole, joined

FIRST_COMMIT: Final = "/_delta_log/00000000000000000000.json"
MAX_PROBLEMS: Final = 1_000
"""Most problems reported of one table; the search ends there."""


@dataclass(frozen=True, slots=True)
class QueueShown:
    """A queue in a table: offsets `first` to before `next_offset`, of which `rows` are messages."""

    queue_id: int
    first: int
    next_offset: int
    rows: int
    segments: int


@dataclass(frozen=True, slots=True)
class TableShown:
    """A table. `topic` with its namespace; `bytes` of its segments; `oldest_ms`, `newest_ms`: store times in epoch
    milliseconds, None without messages. `foreign_commits`: by other programs, as far as its log goes back."""

    topic: str
    root: str
    version: int
    segments: int
    bytes: int
    rows: int
    oldest_ms: int | None
    newest_ms: int | None
    foreign_commits: int
    queues: tuple[QueueShown, ...]


@dataclass(frozen=True, slots=True)
class Problem:
    """A fault of a table; if known, with offsets of a queue (`first` to before `end`)."""

    table: str
    text: str
    queue_id: int | None = None
    first: int | None = None
    end: int | None = None

    def __str__(self) -> str:
        place = "" if self.queue_id is None else f", queue {self.queue_id}"
        if self.first is not None:
            place += f", offsets {self.first} to {self.end}"
        return f"{self.table}{place}: {self.text}"


@dataclass(slots=True)
class Verdict:
    """A verified table. `notes`: oddities that cost no message. `shown` None: its log is corrupted."""

    table: str
    shown: TableShown | None = None
    problems: list[Problem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    rows_read: int = 0


def roots(objects: ObjectStore, prefix: str = "") -> list[str]:
    """Return the paths of all tables with a prefix. All objects there are listed. Raises TierError."""
    end = len(FIRST_COMMIT)
    return [each.path[:-end] for each in objects.objects(prefix) if each.path.endswith(FIRST_COMMIT)]


def show(objects: ObjectStore, root: str, clock: Clock) -> TableShown:
    """Return the contents of a table, by its log alone. Raises TierError, also for a log that is corrupted."""
    snapshot = _loaded(objects, root, clock)
    return _shown(root, snapshot, {path: _runs(file) or () for path, file in snapshot.files.items()})


def verify(objects: ObjectStore, root: str, clock: Clock, *, is_full: bool = False) -> Verdict:
    """Look for missing, doubled or altered messages. `is_full`: all rows are read, too. Raises TierError where the
    store is away; all else is a problem of the table."""
    verdict = Verdict(root)
    try:
        snapshot = _loaded(objects, root, clock)
    except TierError as error:
        if error.code is Code.UNAVAILABLE:
            raise
        verdict.problems.append(Problem(root, error.message))
        return verdict
    for problem in _Table(objects, root, snapshot, verdict).problems(is_full=is_full):
        verdict.problems.append(problem)
        if len(verdict.problems) >= MAX_PROBLEMS:
            verdict.notes.append(f"only the first {MAX_PROBLEMS} problems are told")
            break
    return verdict


class _Table:
    """One table under verification, at one version."""

    def __init__(self, objects: ObjectStore, root: str, snapshot: Snapshot, verdict: Verdict) -> None:
        self._objects, self._root, self._snapshot, self._verdict = objects, root, snapshot, verdict
        self._files = snapshot.files
        self._places = 0
        self._runs = {path: _runs(file) for path, file in self._files.items()}
        known = {path: runs or () for path, runs in self._runs.items()}
        verdict.shown = _shown(root, snapshot, known)

    def problems(self, *, is_full: bool) -> Iterator[Problem]:
        for commit in self._snapshot.foreign:
            who = commit.engine or "another program"
            self._verdict.notes.append(f"version {commit.version} ({commit.operation}) was committed by {who}")
        for path, runs in self._runs.items():
            if runs is None:
                yield Problem(self._root, f"{path} is in the table, and was not written by a broker: remove it again")
        yield from self._gaps()
        yield from self._holes()
        corrupted: set[str] = set()
        for problem, path in self._objects_that_differ():
            corrupted.add(path)
            yield problem
        if is_full:
            for path in sorted(self._files.keys() - corrupted):
                yield from self._rows(path)
            if self._places:
                text = (
                    f"{self._places} messages were corrupted on the disk when they were uploaded, and have no content"
                )
                self._verdict.notes.append(text)

    # -- the log -------------------------------------------------------------------------------------------------

    def _gaps(self) -> Iterator[Problem]:
        """Find gaps: runs of a queue follow each other up to its progress."""
        by_queue, ends = _by_queue(self._runs), self._snapshot.ends
        for queue_id, runs in sorted(by_queue.items()):
            for before, after in pairwise(runs):
                yield from self._between(queue_id, before.next_offset, after.first)
            if queue_id in ends:
                yield from self._between(queue_id, runs[-1].next_offset, ends[queue_id])
            else:
                yield self._at(runs, queue_id, "the table has messages of it, and no progress")

    def _holes(self) -> Iterator[Problem]:
        """Tell what was lost before its upload. Runs from before there were holes have a number alone."""
        for queue_id, runs in sorted(_by_queue(self._runs).items()):
            holes = joined(Hole(run.first, run.next_offset) for run in runs if not run.rows)
            for first, end in holes:
                text = f"{end - first} messages are missing: they left the disk before they were uploaded"
                yield Problem(self._root, text, queue_id, first, end)
            for run in runs:
                if run.rows and (missing := run.next_offset - run.first - run.rows):
                    text = f"{missing} messages of these are missing: they left the disk before they were uploaded"
                    yield Problem(self._root, text, queue_id, run.first, run.next_offset)

    def _between(self, queue_id: int, end: int, first: int) -> Iterator[Problem]:
        if end < first:
            yield Problem(self._root, "no segment of the table has them", queue_id, end, first)
        elif end > first:
            yield Problem(self._root, "two segments of the table have them", queue_id, first, end)

    def _at(self, runs: Iterable[Run], queue_id: int, text: str) -> Problem:
        of_queue = [run for run in runs if run.queue_id == queue_id]
        first, end = min(run.first for run in of_queue), max(run.next_offset for run in of_queue)
        return Problem(self._root, text, queue_id, first, end)

    # -- the objects ---------------------------------------------------------------------------------------------

    def _objects_that_differ(self) -> Iterator[tuple[Problem, str]]:
        """Yield segments that are gone, or have another size; with their path in the table."""
        cut = len(self._root) + 1
        sizes = {each.path[cut:]: each.size for each in self._objects.objects(f"{self._root}/")}
        for path, size, _ in sorted(self._files.sizes()):
            found = sizes.pop(path, None)
            if found == size:
                continue
            text = f"{path} is gone" if found is None else f"{path} has {found} B, not the {size} B of the table"
            for problem in self._each_run(path, text):
                yield problem, path
        dead = [path for path in sizes if path.endswith(".parquet") and not path.startswith("_delta_log/")]
        if dead:
            self._verdict.notes.append(f"{len(dead)} objects are in no version of the table: the broker removes them")

    def _each_run(self, path: str, text: str) -> Iterator[Problem]:
        runs = self._runs[path]
        if not runs:
            yield Problem(self._root, text)
        for run in runs or ():
            yield Problem(self._root, text, run.queue_id, run.first, run.next_offset)

    # -- the rows ------------------------------------------------------------------------------------------------

    def _rows(self, path: str) -> Iterator[Problem]:
        """Check counts, offsets and digests of a segment's rows against its runs."""
        runs = self._runs[path]
        if runs is None:
            return
        try:
            found = self._read(path)
        except MissingObjectError:
            yield from self._each_run(path, f"{path} is gone")
            return
        except TierError as error:
            if error.code is Code.UNAVAILABLE:
                raise
            yield from self._each_run(path, error.message)
            return
        for queue_id, of_queue in _by_queue({path: runs}).items():
            fault = _fault(of_queue, found.pop(queue_id, _Rows()))
            if fault is not None:
                yield Problem(self._root, f"{path} {fault}", queue_id, of_queue[0].first, of_queue[-1].next_offset)
        for queue_id, rows in sorted(found.items()):
            text = f"{path} has rows of which the table does not know"
            yield Problem(self._root, text, queue_id, rows.first, rows.last + 1)

    def _read(self, path: str) -> dict[int, _Rows]:
        """Return the rows of a segment, by queue; one band is held at a time."""
        stored = f"{self._root}/{path}"
        source = open_segment(self._objects, stored, self._files.size(path))
        found: dict[int, _Rows] = {}
        try:
            with pq.ParquetFile(source, metadata=read_footer(source)) as file:
                for band in bands_of(file.metadata):
                    rows = in_order(file.read_row_groups(list(band.groups)))
                    self._verdict.rows_read += len(rows)
                    self._places += int(is_corrupted(rows).sum())
                    for part in by_queue(rows):
                        found.setdefault(part.column("queue_id")[0].as_py(), _Rows()).add(part)
        except TierError:
            raise
        except (pa.ArrowException, OSError, ValueError, TypeError, KeyError) as error:
            raise TierError(f"{path} is corrupted: {error}", Code.MESSAGE_CORRUPTED) from None
        return found


@dataclass(slots=True)
class _Rows:
    """Rows of a queue in a segment, added up."""

    count: int = 0
    digest: int = 0
    first: int = -1
    last: int = -1
    is_in_order: bool = True

    def add(self, rows: Any) -> None:
        offsets = rows.column("queue_offset").to_numpy()
        if self.count == 0:
            self.first = int(offsets[0])
        self.is_in_order &= bool(offsets[0] > self.last) and bool((np.diff(offsets) > 0).all())
        self.count += len(offsets)
        self.last = int(offsets[-1])
        self.digest = (self.digest + digest_of(rows)) & MASK


def _fault(runs: Sequence[Run], rows: _Rows) -> str | None:
    """Return the fault of the rows of a queue in a segment, by its runs in order."""
    count, digest = counted(runs)
    if rows.count != count:
        return f"has {rows.count} messages of it, not {count}"
    if not rows.is_in_order:
        return "has messages of it twice, or out of order"
    if rows.count and not runs[0].first <= rows.first <= rows.last < runs[-1].next_offset:
        return f"has offsets {rows.first} to {rows.last + 1} of it"
    return None if rows.digest == digest else "has other messages of it than were uploaded (digest)"


def _loaded(objects: ObjectStore, root: str, clock: Clock) -> Snapshot:
    snapshot = DeltaLog(objects, root, clock).load()
    if snapshot is None:
        raise TierError(f"there is no table {root}", Code.BAD_REQUEST)
    return snapshot


def _runs(file: AddFile) -> tuple[Run, ...] | None:
    """Return a file's runs, or None if another program added it."""
    try:
        return runs_of(file.tags)
    except msgspec.DecodeError:
        return None


def _by_queue(runs_of_files: Mapping[str, Iterable[Run] | None]) -> dict[int, list[Run]]:
    found: dict[int, list[Run]] = {}
    for runs in runs_of_files.values():
        for run in runs or ():
            found.setdefault(run.queue_id, []).append(run)
    for of_queue in found.values():
        of_queue.sort(key=lambda run: (run.first, run.next_offset))
    return found


def _shown(root: str, snapshot: Snapshot, runs_of_files: Mapping[str, tuple[Run, ...]]) -> TableShown:
    segments = Counter(queue_id for runs in runs_of_files.values() for queue_id in {run.queue_id for run in runs})
    queues = tuple(
        QueueShown(queue_id, runs[0].first, runs[-1].next_offset, sum(run.rows for run in runs), segments[queue_id])
        for queue_id, runs in sorted(_by_queue(runs_of_files).items())
    )
    times = [run.times for runs in runs_of_files.values() for run in runs]
    return TableShown(
        topic=topic_of(root),
        root=root,
        version=snapshot.version,
        segments=len(snapshot.files),
        bytes=snapshot.files.bytes,
        rows=sum(queue.rows for queue in queues),
        oldest_ms=min((least for least, _ in times), default=None),
        newest_ms=max((greatest for _, greatest in times), default=None),
        foreign_commits=snapshot.foreign_commits,
        queues=queues,
    )
