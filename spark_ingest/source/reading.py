"""Reading of a piece by an executor: ranges in, Arrow batches out.

Cold ranges are read from their segments in the object store, the others from the brokers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Final, TypeVar

import pyarrow as pa

from entrepot.domain.errors import Code, CorruptedError, EntrepotError
from entrepot.domain.expression.filter import FilterExpression
from entrepot.domain.tiering import ColdSegment
from entrepot.protocols.wire.records import RecordColumns, RecordRun
from entrepot.spark_ingest.source.batches import BatchMaker
from entrepot.spark_ingest.source.options import Parse
from entrepot.spark_ingest.source.planning import Range, lose
from entrepot.spark_ingest.source.positions import DataLossError
from entrepot.spark_ingest.source.stores import cold_reader_of, reader_of
from entrepot.spark_ingest.source.telling import tell
from entrepot.spark_ingest.source.tier import UNREADABLE, found_in, is_away, tell_through_brokers
from entrepot.store_client.blocking import BlockingReader, StoreLocation

T = TypeVar("T")
FETCH_BYTES: Final = 8 << 20
"""Bytes of one request; the next ones are on their way during the work on them."""


@dataclass(frozen=True)
class ReadPlan:
    """The parts of a task that are the same for all, besides its ranges; small.

    `schema` is that of the output. `payload` has the fields of bodies, by column: a column may have a prefix that keeps
    it apart from the topic's own columns.
    """

    location: StoreLocation
    schema: pa.Schema
    filter: FilterExpression | None
    parse: Parse
    fails_on_data_loss: bool
    payload: tuple[tuple[str, str], ...] = field(default=())


def read_ranges(plan: ReadPlan, ranges: Sequence[Range]) -> Iterator[pa.RecordBatch]:
    """Yield the messages of ranges, in order: cold ones from their segments, others from the brokers. Raises
    DataLossError for missing messages, and MESSAGE_CORRUPTED; both are skipped without `fails_on_data_loss`."""
    make = BatchMaker(plan.schema, plan.parse, plan.payload)
    for segment, group in groupby(ranges, key=lambda each: each.segment):
        if segment is None:
            yield from _hot(plan, make, list(group))
        else:
            for topic, parts in groupby(group, key=lambda each: each.topic):
                yield from _cold(plan, make, segment, topic, list(parts))


def _hot(plan: ReadPlan, make: BatchMaker, ranges: Sequence[Range]) -> Iterator[pa.RecordBatch]:
    for each, run in _runs(plan, ranges):
        columns = RecordColumns(run)
        if plan.fails_on_data_loss:
            columns.check(f"{each.topic}/{each.queue_id}", run)
        if len(columns):
            yield make.batch(columns, each)


def _cold(
    plan: ReadPlan, make: BatchMaker, segment: ColdSegment, topic: str, ranges: list[Range], *, is_again: bool = False
) -> Iterator[pa.RecordBatch]:
    """Yield messages of a segment. An unreadable one may have been merged into another, by its table. The brokers are
    asked for the rest."""
    left = ranges
    failure: EntrepotError | None = None
    corrupted: tuple[int, int] | None = None
    try:
        if is_away(plan.location, segment.address):
            raise EntrepotError(Code.UNAVAILABLE, "the object store was away a moment ago")
        reader = cold_reader_of(segment.address)
        parts = [(each.queue_id, each.start, each.end) for each in ranges]
        for found in _ahead(reader.rows(segment, parts, make.cold_columns, plan.filter)):
            if found.corrupted is not None and plan.fails_on_data_loss:
                corrupted = found.corrupted
                break
            left = _behind(left, found.behind)
            if found.rows.num_rows:
                yield make.cold_batch(found.rows, topic)
        else:
            return
    except EntrepotError as error:
        failure = error
    if corrupted is not None:
        raise CorruptedError(f"message {corrupted[1]} of {topic}/{corrupted[0]} is corrupted")
    assert failure is not None, "all would have been read"
    if failure.code in UNREADABLE and not is_again:
        moved, left = _moved(segment, left)
        for other, group in groupby(moved, key=lambda each: each.segment):
            assert other is not None, "what is found is in a segment"
            yield from _cold(plan, make, other, topic, list(group), is_again=True)
    for each in left:
        yield from _unread(plan, make, segment, replace(each, segment=None), failure)


def _moved(segment: ColdSegment, ranges: list[Range]) -> tuple[list[Range], list[Range]]:
    """Split ranges of an unreadable segment into parts that are in other segments now, and the rest."""
    try:
        found, rest = found_in(cold_reader_of(segment.address), segment.table, ranges)
    except EntrepotError:
        return [], ranges
    return [each for each in found if each.segment != segment], [
        *rest,
        *(each for each in found if each.segment == segment),
    ]


def _unread(
    plan: ReadPlan, make: BatchMaker, segment: ColdSegment, each: Range, failure: EntrepotError
) -> Iterator[pa.RecordBatch]:
    """Yield an unreadable cold range from the brokers; what they cannot read either is lost."""
    if not plan.location.has_tier_only:
        tell_through_brokers(segment.address, failure)
        try:
            yield from _hot(plan, make, [each])
            return
        except EntrepotError as error:
            failure = error
    if failure.code not in UNREADABLE:
        raise failure
    text = f"{each.topic}/{each.queue_id} has lost messages {each.start} to {each.end}: {failure.message}"
    lose(text, fails=plan.fails_on_data_loss, tell=tell)


def _behind(ranges: Sequence[Range], place: tuple[int, int]) -> list[Range]:
    """Parts of ranges, in order of queue and offset, that lie after a place."""
    queue_id, offset = place
    found = []
    for each in ranges:
        if each.queue_id > queue_id:
            found.append(each)
        elif each.queue_id == queue_id and each.end > offset:
            found.append(replace(each, start=max(each.start, offset)))
    return found


def _ahead(items: Iterator[T]) -> Iterator[T]:
    """Yield items; a thread makes the next one during the work on one."""
    with ThreadPoolExecutor(1, "entrepot-cold") as pool:
        following: Future[T | None] = pool.submit(next, items, None)
        while (item := following.result()) is not None:
            following = pool.submit(next, items, None)
            yield item


def _runs(plan: ReadPlan, ranges: Sequence[Range]) -> Iterator[tuple[Range, RecordRun]]:
    """Yield runs of records; the next one is asked for during the work on one."""
    reader = reader_of(plan.location)
    with ThreadPoolExecutor(1, "entrepot-read") as pool:

        def ask(each: Range, at: int) -> Future[RecordRun]:
            return pool.submit(_fetch, reader, plan, each, at)

        waiting = list(ranges)
        under_way: tuple[Range, int, Future[RecordRun]] | None = None
        while under_way is not None or waiting:
            if under_way is None:
                each = waiting.pop(0)
                under_way = (each, each.start, ask(each, each.start))
            each, at, answer = under_way
            run = answer.result()
            under_way = None
            if run.next_offset < each.end:
                if run.next_offset <= at:
                    if plan.fails_on_data_loss:
                        raise DataLossError(f"DATA_LOSS: {each.topic}/{each.queue_id} ends at {at}, before {each.end}")
                else:
                    under_way = (each, run.next_offset, ask(each, run.next_offset))
            elif waiting:
                following = waiting.pop(0)
                under_way = (following, following.start, ask(following, following.start))
            yield each, run


def _fetch(reader: BlockingReader, plan: ReadPlan, each: Range, at: int) -> RecordRun:
    while True:
        try:
            return reader.records(each.topic, each.queue_id, at, each.end, FETCH_BYTES, plan.filter)
        except CorruptedError:
            raise
        except EntrepotError as error:
            if error.code not in (Code.ILLEGAL_OFFSET, Code.TOPIC_NOT_FOUND):
                raise
            if plan.fails_on_data_loss or error.code is Code.TOPIC_NOT_FOUND:
                text = f"DATA_LOSS: {each.topic}/{each.queue_id} at {at}: {error.message}"
                raise DataLossError(text) from error
            least = next((b.min_offset for b in reader.bounds(each.topic) if b.queue_id == each.queue_id), each.end)
            if not at < least < each.end:
                return reader.records(each.topic, each.queue_id, least, min(least, each.end), 1, plan.filter)
            at = least
