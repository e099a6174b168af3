"""Reading a piece: what an executor does.  Ranges come in, Arrow batches go out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from domain.errors import Code, CorruptedError, EntrepotError
from domain.expression.filter import FilterExpression
from protocols.remoting.arrow_columns import variable_array
from protocols.remoting.records import RecordColumns, RecordRun
from spark_ingest.source.columns import ENVELOPE, envelope_array
from spark_ingest.source.options import Parse
from spark_ingest.source.payloads import PayloadParser
from spark_ingest.source.planning import Range
from spark_ingest.source.positions import DataLossError
from spark_ingest.source.stores import reader_of
from store_client.blocking import BlockingReader, StoreLocation

FETCH_BYTES: Final = 8 << 20
"""What is asked for at a time; while it is worked on the next is on its way."""
ERROR_COLUMNS: Final = ("_error", "_raw")


@dataclass(frozen=True)
class ReadPlan:
    """Everything that a task needs besides its ranges; small, and the same for all.

    `schema`: what comes out.  `payload`: the fields of bodies, by column; the name in bodies is the column's without
    the prefix that keeps it apart from the topic's own columns.
    """

    location: StoreLocation
    schema: pa.Schema
    filter: FilterExpression | None
    parse: Parse
    fails_on_data_loss: bool
    payload: tuple[tuple[str, str], ...] = field(default=())


def read_ranges(plan: ReadPlan, ranges: Sequence[Range]) -> Iterator[pa.RecordBatch]:
    """The messages of ranges, in order.

    Raises DataLossError where messages are gone meanwhile, MESSAGE_CORRUPTED for one that is harmed (both are passed
    over where `fails_on_data_loss` is off).
    """
    make = _BatchMaker(plan)
    for each, run in _runs(plan, ranges):
        columns = RecordColumns(run)
        if plan.fails_on_data_loss:
            columns.check(f"{each.topic}/{each.queue_id}", run)
        if len(columns):
            yield make.batch(columns, each)


def _runs(plan: ReadPlan, ranges: Sequence[Range]) -> Iterator[tuple[Range, RecordRun]]:
    """Runs of records, the next one asked for while one is worked on."""
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


class _BatchMaker:
    """Makes batches of a plan's schema."""

    def __init__(self, plan: ReadPlan) -> None:
        self._schema = plan.schema
        self._parser: PayloadParser | None = None
        self._payload: dict[str, int] = {}
        if plan.parse is not Parse.NONE:
            fields = [pa.field(name, plan.schema.field(column).type) for column, name in plan.payload]
            self._parser = PayloadParser(plan.parse, fields)
            self._payload = {column: at for at, (column, _) in enumerate(plan.payload)}

    def batch(self, columns: RecordColumns, each: Range) -> pa.RecordBatch:
        """One run as a batch."""
        made: dict[str, pa.Array] = {}
        if self._parser is not None:
            payload, errors, raw = self._parser.parse(variable_array(columns, "body", pa.binary()))
            made = {"_error": errors, "_raw": raw}
            made |= {column: payload[at] for column, at in self._payload.items()}
        arrays = []
        for column in self._schema:
            array = made.get(column.name)
            if array is None:
                assert column.name in ENVELOPE
                array = envelope_array(column.name, columns, each.topic, each.queue_id)
            arrays.append(array if array.type == column.type else array.cast(column.type))
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)
