"""The data source for Spark: batch and stream readers, batch and stream writers.

The driver keeps one reader object for the life of a query and asks it for offsets and pieces; executors read the
pieces (`reading.py`). ADR 24: Spark reads by offset. Invariant: the same offsets are the same rows, as nothing here
depends on pops or acknowledgements.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyspark
from pyspark.sql.types import StructType

from entrepot.domain.errors import Code, EntrepotError
from entrepot.spark_ingest.source.arrow_schema import arrow_schema
from entrepot.spark_ingest.source.columns import ENVELOPE
from entrepot.spark_ingest.source.options import (
    EARLIEST,
    LATEST,
    Offsets,
    OptionError,
    Parse,
    SourceOptions,
    Start,
    read_options,
)
from entrepot.spark_ingest.source.planning import Range, limited, lose, pieces_of, ranges_between, without_remade
from entrepot.spark_ingest.source.positions import (
    Bounds,
    bounds_of,
    from_json,
    latest,
    present,
    remade,
    resolve,
    subscribed,
    to_json,
)
from entrepot.spark_ingest.source.reading import ReadPlan, read_ranges
from entrepot.spark_ingest.source.schemas import inferred_ddl, payload_columns, table_ddl
from entrepot.spark_ingest.source.spark_api import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
    ReadAllAvailable,
    SupportsTriggerAvailableNow,
)
from entrepot.spark_ingest.source.stores import reader_of
from entrepot.spark_ingest.source.telling import tell, tell_once
from entrepot.spark_ingest.source.tier import with_cold, without_holes, without_lost
from entrepot.spark_ingest.source.versions import lacks
from entrepot.spark_ingest.source.writing import BatchWriter, StreamWriter
from entrepot.store_client.blocking import BlockingReader, MovesGroups

OLD_SPARK_AT_ROCKETMQ: Final = (
    "streams of a RocketMQ cluster take Spark 4.2 or newer: an older one does not tell a source what it has read"
)


@dataclass
class Piece(InputPartition):
    """The ranges of one task."""

    ranges: list[Range]


class EntrepotDataSource(DataSource):
    """`spark.read.format("entrepot")` and its three relatives. Options: `spark_ingest.source.options`."""

    @classmethod
    def name(cls) -> str:
        return "entrepot"

    def schema(self) -> str:
        """The columns, unless the user gave them with `.schema(...)`."""
        options = read_options(self.options)
        payload = options.payload_schema
        if options.parse is not Parse.NONE and not payload:
            reader = reader_of(options.location)
            payload = inferred_ddl(reader, subscribed(reader, options), options)
        return table_ddl(options, payload)

    def reader(self, schema: StructType) -> DataSourceReader:
        return EntrepotReader(read_options(self.options), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return EntrepotStreamReader(read_options(self.options), schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        if overwrite:
            raise OptionError("a topic cannot be overwritten: use mode append")
        return BatchWriter(self.options, schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        return StreamWriter(self.options, schema)


def _plan(options: SourceOptions, schema: StructType) -> ReadPlan:
    arrow = arrow_schema(schema)
    payload = payload_columns(arrow.names)
    if options.parse is Parse.NONE and payload:
        raise OptionError(f"there is no column {payload[0][0]!r}; there are {', '.join(ENVELOPE)}")
    return ReadPlan(options.location, arrow, options.filter, options.parse, options.fails_on_data_loss, payload)


def _pieces(reader: BlockingReader, options: SourceOptions, ranges: list[Range]) -> list[Piece]:
    """The pieces for the tasks, with cold messages from the object store where possible."""
    statuses = [] if options.location.data_dir else reader.tiering(sorted({each.topic for each in ranges}))
    ranges = without_holes(statuses, ranges, fails=options.fails_on_data_loss, tell=tell_once)
    if options.reads_directly:
        ranges = with_cold(reader, options.location, statuses, ranges)
        if options.location.has_tier_only:
            ranges = without_lost(ranges, fails=options.fails_on_data_loss, tell=tell_once)
    pieces = pieces_of(ranges, min_pieces=options.min_partitions, max_rows=options.max_records_per_partition)
    return [Piece(piece) for piece in pieces]


class EntrepotReader(DataSourceReader):
    """One read from `startingOffsets` (earliest) to `endingOffsets` (latest)."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        if options.starting == Start("latest"):
            raise OptionError("startingOffsets cannot be latest in a batch read: nothing would be read")
        self._options = options
        self._plan = _plan(options, schema)

    def partitions(self) -> Sequence[InputPartition]:
        options = self._options
        reader = reader_of(options.location)
        bounds = bounds_of(reader, subscribed(reader, options))
        start = resolve(
            reader,
            options.starting or Start("earliest"),
            bounds,
            late_is_error=options.is_late_time_an_error,
            default=EARLIEST,
        )
        end = resolve(reader, options.ending or Start("latest"), bounds, late_is_error=False, default=LATEST)
        for topic, queues in end.items():  # a start after its end reads nothing
            for queue in queues:
                if start[topic][queue] >= queues[queue] and start[topic][queue] <= bounds[topic][queue].max_offset:
                    start[topic][queue] = queues[queue]
        ranges = ranges_between(start, end, bounds, fails=options.fails_on_data_loss, tell=tell)
        return _pieces(reader, options, ranges) or [Piece([])]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Piece)
        return read_ranges(self._plan, partition.ranges)


class EntrepotStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A stream from `startingOffsets` (latest) on. New queues, and new topics of a pattern, begin at their earliest
    message. The object lives on the driver as long as its query."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        if options.ending is not None:
            raise OptionError("endingOffsets are for batch reads: a stream has no end")
        self._options = options
        self._plan = _plan(options, schema)
        self._target: dict[str, Any] | None = None

    def __getstate__(self) -> dict[str, Any]:
        """The state for tasks, which need the plan alone."""
        return {"_options": self._options, "_plan": self._plan, "_target": None}

    def _bounds(self, known: dict[str, Any] | None = None) -> tuple[BlockingReader, Bounds]:
        """The bounds now; `known` are offsets of the checkpoint."""
        reader, offsets = reader_of(self._options.location), from_json(known or {})
        return reader, bounds_of(reader, subscribed(reader, self._options, offsets), offsets)

    def initialOffset(self) -> dict[str, Any]:
        reader, bounds = self._bounds()
        start = self._options.starting or Start("latest")
        late = self._options.is_late_time_an_error
        return to_json(resolve(reader, start, bounds, late_is_error=late, default=LATEST), bounds)

    def getDefaultReadLimit(self) -> Any:
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        """Fix the end of this query at the present end of the queues."""
        bounds = self._bounds()[1]
        self._target = to_json(latest(bounds), bounds)

    def latestOffset(self, start: dict[str, Any] | None = None, limit: Any = None) -> dict[str, Any]:
        """The end of the next batch: `start` itself where there is nothing."""
        options = self._options
        reader, bounds = self._bounds(start)
        if start is None:  # before Spark 4.2
            if options.location.rocketmq:
                raise OptionError(OLD_SPARK_AT_ROCKETMQ)
            if options.max_offsets is not None or options.max_bytes is not None:
                tell_once(lacks(pyspark.__version__))
            if any(each.may_lag for queues in bounds.values() for each in queues.values()):
                raise EntrepotError(Code.UNAVAILABLE, "the master of a broker is away: its slaves may have less")
            return to_json(latest(bounds), bounds)
        first = self._first(start, bounds)
        end = now = latest(bounds)
        if self._target is not None:
            end = from_json(self._target)
            for topic, queue in remade(self._target, present(bounds)):
                end[topic][queue] = now[topic][queue]
            end = self._with_known(end, first, now)
        ranges_between(first, end, bounds, fails=options.fails_on_data_loss, tell=tell_once)
        for topic, queues in end.items():
            known = first.setdefault(topic, {})
            for queue in queues:
                least = bounds.get(topic, {}).get(queue)
                known.setdefault(queue, queues[queue] if least is None else least.min_offset)
                if least is None or least.may_lag:
                    queues[queue] = max(queues[queue], known[queue])
        end = limited(first, end, self._share(reader, first, end))
        found = to_json(end, bounds)
        return start if found == start else found

    def _with_known(self, end: Offsets, first: Offsets, now: Offsets) -> Offsets:
        """The fixed end, with queues of the checkpoint that it lacks: their broker was away when it was fixed."""
        missing = [
            (topic, queue)
            for topic, queues in first.items()
            for queue in queues
            if queue in now.get(topic, {}) and queue not in end.get(topic, {})
        ]
        for topic, queue in missing:
            assert self._target is not None
            end.setdefault(topic, {})[queue] = now[topic][queue]
            self._target.setdefault(topic, {})[str(queue)] = now[topic][queue]
        return end

    def _first(self, start: dict[str, Any], bounds: Bounds) -> Offsets:
        """The start of a batch, without queues of topics that were made anew."""
        fails = self._options.fails_on_data_loss
        return without_remade(from_json(start), remade(start, present(bounds)), fails=fails, tell=tell_once)

    def _share(self, reader: BlockingReader, start: dict[str, dict[int, int]], end: dict[str, dict[int, int]]) -> float:
        """The share of the waiting messages that the limits allow for one batch."""
        options = self._options
        waiting = [
            Range(topic, queue, start[topic][queue], last)
            for topic, queues in end.items()
            for queue, last in queues.items()
            if start[topic][queue] < last
        ]
        share = 1.0
        rows = sum(each.rows for each in waiting)
        if options.max_offsets is not None and rows:
            share = min(share, options.max_offsets / rows)
        if options.max_bytes is not None and rows:
            size = sum(reader.bytes_between(r.topic, r.queue_id, r.start, r.end) for r in waiting)
            share = min(share, options.max_bytes / max(size, 1))
        return share

    def reportLatestOffset(self) -> dict[str, Any]:
        return to_json(latest(self._bounds()[1]))

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        options = self._options
        reader, bounds = self._bounds(end)
        first, last = self._first(start, bounds), from_json(end)
        for topic, queue in remade(end, present(bounds)):  # since the batch was planned: the next one begins anew
            text = f"{topic}/{queue} was to be read to {last[topic].pop(queue)}, and the topic was made anew since"
            lose(text, fails=options.fails_on_data_loss, tell=tell_once)
            first.get(topic, {}).pop(queue, None)
        ranges = ranges_between(first, last, bounds, fails=options.fails_on_data_loss, tell=tell_once)
        return _pieces(reader, options, ranges)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Piece)
        return read_ranges(self._plan, partition.ranges)

    def commit(self, end: dict[str, Any]) -> None:
        """Move the named group, if any, to these committed offsets, for its lag."""
        if not self._options.group:
            return
        reader = reader_of(self._options.location)
        if isinstance(reader, MovesGroups):
            for topic, queues in from_json(end).items():
                reader.move_group(self._options.group, topic, queues)

    def stop(self) -> None:
        """Do nothing: the process ends with the query, and closes its reader."""
