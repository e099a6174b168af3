"""DirectReader: tables read by their columns, for readers of many messages: no broker is asked.

A table has the segment of each offset (`found`). The rows of a segment come as Arrow tables (`rows`), with only the
wanted columns. Queue ids are global.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from entrepot.broker.tiered.bands import PLACE, bands_of, in_order
from entrepot.broker.tiered.cold import mask_column, mask_of
from entrepot.broker.tiered.columns import CORRUPTED, FLAGS, rows_at
from entrepot.broker.tiered.objects import ObjectStore, TierError
from entrepot.broker.tiered.segment_reader import open_segment
from entrepot.broker.tiered.table import TopicTable
from entrepot.domain.clock import Clock
from entrepot.domain.errors import Code
from entrepot.domain.expression.filter import FilterExpression, FilterKind, MessageFilter, compile_filter
from entrepot.domain.message import Message
from entrepot.domain.tiering import ColdRows, ColdSegment, TierAddress

READ_BYTES: Final = 8 << 20
"""Bytes of columns read at a time, uncompressed: as many bands, at least one."""
_ASKED: Final = {
    FilterKind.TAG: ("tag",),
    FilterKind.SUB_TOPIC: ("topic", "sub_topic"),
    FilterKind.SQL92: ("tag", "keys", "properties"),
}
"""Columns that filters look at, besides that of the first mask."""

Part = tuple[int, int, int]
"""Part of a queue: its id, and its offsets from the second to before the third."""


class Found(NamedTuple):
    """A part of a queue, and its segment."""

    part: Part
    segment: ColdSegment


class DirectReader:
    """A `store_client.blocking.ColdReader`. Not for several threads at once. All calls raise TierError."""

    def __init__(self, objects: ObjectStore, address: TierAddress, clock: Clock) -> None:
        self._objects, self._address, self._clock = objects, address, clock
        self._tables: dict[str, TopicTable] = {}

    def table(self, root: str) -> TopicTable | None:
        """Return a table as it is now; None where there is none."""
        table = self._tables.get(root)
        if table is not None:
            table.refresh()
            return table
        table = TopicTable(self._objects, root, self._clock, Random())
        if not table.open():
            return None
        self._tables[root] = table
        return table

    def found(self, root: str, parts: Sequence[Part]) -> list[Found]:
        """Return parts of these that the newest version of a table has, in the order of its segments; no holes."""
        table = self.table(root)
        if table is None:
            return []
        files = table.snapshot.files
        found: dict[str, list[Part]] = {}
        for queue_id, first, end in sorted(parts):
            for place in table.places(queue_id, first, end):
                if not place.rows:
                    continue
                part = queue_id, max(first, place.first), min(end, place.next_offset)
                found.setdefault(place.path, []).append(part)
        in_order = sorted(found, key=lambda path: (path.partition("/")[0], min(part[1] for part in found[path]), path))
        result = []
        for path in in_order:
            rows = sum(run.rows for run in table.runs(path))
            segment = ColdSegment(self._address, root, path, files.size(path), rows)
            result += [Found(part, segment) for part in found[path]]
        return result

    def end(self, root: str, queue_id: int) -> int:
        """Return the end of a queue in a table when it was last looked at."""
        table = self._tables.get(root)
        return 0 if table is None else table.progress(queue_id) or 0

    def rows(
        self,
        segment: ColdSegment,
        parts: Sequence[Part],
        columns: Sequence[str],
        filter: FilterExpression | None = None,
    ) -> Iterator[ColdRows]:
        """Yield the rows of parts of a segment, with some of its columns. Parts are in order of queue and offset, and
        so are the rows. Raises MissingObjectError, COLD_CORRUPTED where it is not the segment in the table."""
        path = f"{segment.table}/{segment.path}"
        compiled = None if filter is None else compile_filter(filter)
        wanted = None if compiled is None or compiled.accepts_all else compiled
        try:
            with pq.ParquetFile(open_segment(self._objects, path, segment.size), pre_buffer=True) as file:
                if file.metadata.num_rows != segment.rows:
                    text = f"{path} is corrupted: it has {file.metadata.num_rows} lines of {segment.rows}"
                    raise TierError(text, Code.COLD_CORRUPTED)
                if missing := {*PLACE, *columns}.difference(file.schema_arrow.names):
                    raise TierError(f"{path} has no column {min(missing)!r}", Code.COLD_CORRUPTED)
                yield from _rows(file, parts, columns, wanted)
        except (pa.ArrowException, OSError) as error:
            raise TierError(f"{path} cannot be read: {error}", Code.COLD_CORRUPTED) from None


def _rows(file: Any, parts: Sequence[Part], columns: Sequence[str], wanted: MessageFilter | None) -> Iterator[ColdRows]:
    flags = [FLAGS] if FLAGS in file.schema_arrow.names else []
    names = list(dict.fromkeys((*PLACE, *columns, *flags)))
    for groups in _batches_of(file.metadata, parts, names, most=1 if wanted is not None else None):
        place_names = (
            names if wanted is None else [*PLACE, *flags, mask_column(wanted), *_ASKED[wanted.expression.kind]]
        )
        table = _read(file, groups, list(dict.fromkeys(place_names)))
        at = _rows_of(table, parts)
        if not len(at):
            continue
        queue_id, offset = _place(table, at[-1])
        corrupted = None
        if flags and (is_corrupted := table.column(FLAGS).to_numpy()[at] & CORRUPTED != 0).any():
            corrupted = _place(table, at[is_corrupted][0])
            at = at[~is_corrupted]
        if wanted is not None and len(at):
            at = _matching(table, at, wanted)
            if len(at):  # else no wanted row is in it
                table = _read(file, groups, names)
        rows = rows_at(table, at).select(list(columns)) if len(at) else pa.table({})
        yield ColdRows(rows, (queue_id, offset + 1), corrupted)


def _read(file: Any, groups: list[int], names: list[str]) -> Any:
    return in_order(file.read_row_groups(groups, columns=names, use_threads=False))


def _place(table: Any, at: Any) -> tuple[int, int]:
    queue_id, offset = (table.column(name)[int(at)].as_py() for name in PLACE)
    return queue_id, offset


def _batches_of(footer: Any, parts: Sequence[Part], names: Sequence[str], most: int | None) -> Iterator[list[int]]:
    """Yield the row groups of bands that may have rows of the parts, as many at a time as are worth a read."""
    leaves = [footer.schema.column(at).path.partition(".")[0] for at in range(footer.num_columns)]
    read = [at for at, name in enumerate(leaves) if name in names]
    taken: list[int] = []
    size = bands = 0
    for band in bands_of(footer):
        if not any(band.may_have(*part) for part in parts):
            continue
        groups = map(footer.row_group, band.groups)
        own = sum(group.column(at).total_uncompressed_size for group in groups for at in read)
        if taken and (size + own > READ_BYTES or bands == most):
            yield taken
            taken, size, bands = [], 0, 0
        taken += band.groups
        size, bands = size + own, bands + 1
    if taken:
        yield taken


def _rows_of(table: Any, parts: Sequence[Part]) -> Any:
    """Return the places of the parts' rows."""
    queues, offsets = (table.column(name).to_numpy() for name in PLACE)
    chosen = np.zeros(len(queues), np.bool_)
    for queue_id, first, end in parts:
        chosen |= (queues == queue_id) & (offsets >= first) & (offsets < end)
    return np.flatnonzero(chosen)


def _matching(table: Any, at: Any, wanted: MessageFilter) -> Any:
    """Return the places among these with messages that the filter wants."""
    at = at[np.asarray(mask_of(wanted)(table))[at]]
    asked = table.select(_ASKED[wanted.expression.kind]).take(pa.array(at))
    values = {name: asked.column(name).to_pylist() for name in asked.column_names}
    rows = [dict(zip(values, row, strict=True)) for row in zip(*values.values(), strict=True)]
    matches = np.fromiter((wanted.matches(_message(row)) for row in rows), np.bool_, len(rows))
    return at[matches]


def _message(row: dict[str, Any]) -> Message:
    """Return a message as far as a filter looks at it."""
    return Message(
        row.get("topic", ""),
        b"",
        row.get("sub_topic", ""),
        tag=row.get("tag") or "",
        keys=tuple(row.get("keys") or ()),
        properties=tuple(
            (pair["name"], pair["bytes"] if pair["text"] is None else pair["text"])
            for pair in row.get("properties") or ()
        ),
    )
