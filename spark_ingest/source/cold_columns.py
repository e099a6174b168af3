"""The columns of every topic, from rows of its cold tables: the same as `columns.py` makes of records."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from entrepot.protocols.wire.arrow_columns import TIMESTAMP
from entrepot.spark_ingest.source.columns import null_if_empty, property_map

READ: Final[dict[str, tuple[str, ...]]] = {
    "topic": (),
    "born_time": ("born_time", "odd_born_ms"),
    "properties": ("system", "properties"),
}
"""Columns of a cold table for columns of another name here."""
MAP: Final = pa.map_(pa.string(), pa.string())


def table_columns(names: Iterable[str], *, has_body: bool) -> list[str]:
    """The columns of cold tables to read for some of ours; `has_body` adds that of bodies."""
    found = [column for name in names for column in READ.get(name, (name,))]
    return list(dict.fromkeys((*found, *(("body",) if has_body else ()), "queue_offset")))


def cold_array(name: str, rows: pa.Table, topic: str) -> pa.Array:
    """One column of rows of a topic's table."""
    match name:
        case "topic":
            return pa.repeat(pa.scalar(topic, pa.string()), rows.num_rows)
        case "tag" | "message_group":
            return null_if_empty(column_of(rows, name))
        case "message_id":
            return pc.ascii_upper(column_of(rows, name))
        case "born_time":
            return _born_times(rows)
        case "properties":
            return _properties(rows)
    return column_of(rows, name)


def column_of(rows: pa.Table, name: str) -> pa.Array:
    """A column in one piece."""
    column = rows.column(name)
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks or [pa.array([], column.type)])


def _born_times(rows: pa.Table) -> pa.Array:
    """Born times; those out of range are in another column, and come as the 64 bits that records make of them."""
    times = column_of(rows, "born_time")
    if not times.null_count:
        return times
    found = [None if odd is None else int(odd) for odd in column_of(rows, "odd_born_ms").to_pylist()]
    known = pc.fill_null(times.view(pa.int64()), 0).to_numpy()
    odd = np.array([0 if ms is None else ms for ms in found], np.uint64).astype(np.int64) * 1000
    return pa.array(np.where([ms is None for ms in found], known, odd)).view(TIMESTAMP)


def _properties(rows: pa.Table) -> pa.Array:
    """Well-known properties and the user's, as in records."""
    system, own = column_of(rows, "system"), column_of(rows, "properties")
    if (joined := _joined(system, own)) is not None:
        return joined
    found = [
        property_map(dict(map(_pair, well_known)), map(_pair, others))
        for well_known, others in zip(system.to_pylist(), own.to_pylist(), strict=True)
    ]
    return pa.array(found, MAP)


def _joined(system: pa.Array, own: pa.Array) -> pa.Array | None:
    """Lists of pairs joined row by row, without a look at each pair. None where one is not text, or a row repeats a
    name."""
    lists = (system, own)
    if any(each.null_count for each in lists):
        return None
    names, texts = (pa.concat_arrays([each.flatten().field(name) for each in lists]) for name in ("name", "text"))
    if names.null_count or texts.null_count:
        return None
    counts = [pc.list_value_length(each).to_numpy() for each in lists]
    number = np.concatenate([np.repeat(np.arange(len(each)), each) for each in counts])
    codes = pc.dictionary_encode(names)
    of_row = np.sort(number * len(codes.dictionary) + codes.indices.to_numpy())
    if (of_row[1:] == of_row[:-1]).any():
        return None
    order = pa.array(np.argsort(number, kind="stable"))  # in a row the well-known ones come first
    offsets = np.concatenate([[0], np.cumsum(counts[0] + counts[1])]).astype(np.int32)
    return pa.MapArray.from_arrays(pa.array(offsets), names.take(order), texts.take(order))


def _pair(pair: dict[str, Any]) -> tuple[str, Any]:
    return pair["name"], pair["bytes"] if pair["text"] is None else pair["text"]
