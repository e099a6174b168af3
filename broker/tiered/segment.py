"""Segments: messages of one broker in one Parquet file, in order of queue and offset.

A segment has whole runs of queues: all that there was of a queue from `first` on to before `next_offset` is in it.
Runs of a queue follow each other without a gap, so a reader sees by them alone that one is missing.

The digest of a run is a sum over its messages: those of runs that are merged add up.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from google_crc32c import value as crc32c

from broker.tiered.columns import SCHEMA, to_table
from domain.message import StoredMessage, as_texts

GROUP_ROWS: Final = 16_384
"""Messages of a row group, which is the least that is read at once."""
_DICTIONARIES: Final = [
    "topic",
    "sub_topic",
    "message_group",
    "tag",
    "qos",
    "properties.list.element.name",
    "properties.list.element.text",
    "system.list.element.name",
    "system.list.element.text",
]
_DELTAS: Final = dict.fromkeys(("queue_offset", "store_time", "born_time", "log_offset"), "DELTA_BINARY_PACKED")
_BOUNDED: Final = ("queue_id", "queue_offset", "store_time", "message_id", "log_offset")
"""Columns whose least and greatest values stand in the table's log: by them readers leave segments out."""
MASK: Final = (1 << 64) - 1
_encode: Final = msgspec.msgpack.Encoder().encode


class Run(msgspec.Struct, frozen=True, array_like=True):
    """A queue's part of a segment: offsets from `first` to before `next_offset`, `rows` messages.

    `times`: least and greatest store time, in epoch milliseconds.  Store time may step back over a failover.
    """

    queue_id: int
    first: int
    next_offset: int
    rows: int
    times: tuple[int, int]
    digest: int


@dataclass(frozen=True, slots=True)
class Segment:
    """An encoded segment.  `stats`: as Delta's log has them, JSON."""

    data: bytes
    runs: tuple[Run, ...]
    rows: int
    stats: str


def digest_of(messages: Iterable[StoredMessage]) -> int:
    """A number that adds up: of two parts together it is the sum of theirs, modulo 2**64."""
    total = 0
    for message in messages:
        place = b"%d/%d/%d/%s/" % (
            message.queue_id,
            message.queue_offset,
            message.store_time_ms,
            message.message_id,
        )
        others = _encode(
            (
                message.topic,
                message.sub_topic,
                message.tag,
                message.keys,
                message.message_group,
                message.properties,
                sorted(as_texts(message.system).items()),
            )
        )
        total += crc32c(place + others) << 32 | crc32c(message.body)
    return total & MASK


def runs_of(messages: Sequence[StoredMessage], firsts: Mapping[int, int], ends: Mapping[int, int]) -> tuple[Run, ...]:
    """The runs of messages in order.  `firsts`, `ends`: by queue, the offsets between which all was read for its run;
    without a first one it is that of its first message."""
    found: list[Run] = []
    start = 0
    for at in range(1, len(messages) + 1):
        queue_id = messages[start].queue_id
        if at == len(messages) or messages[at].queue_id != queue_id:
            part = messages[start:at]
            times = [message.store_time_ms for message in part]
            first = firsts.get(queue_id, part[0].queue_offset)
            run = Run(queue_id, first, ends[queue_id], len(part), (min(times), max(times)), digest_of(part))
            found.append(run)
            start = at
    return tuple(found)


def encode_segment(messages: Sequence[StoredMessage], firsts: Mapping[int, int], ends: Mapping[int, int]) -> Segment:
    """One file of messages, which are in order of queue and offset; there is one at least."""
    table = to_table(messages)
    sink = io.BytesIO()
    pq.write_table(
        table,
        sink,
        row_group_size=GROUP_ROWS,
        compression="zstd",
        compression_level=1,
        use_dictionary=_DICTIONARIES,
        column_encoding=_DELTAS,
        write_page_index=True,
    )
    return Segment(sink.getvalue(), runs_of(messages, firsts, ends), len(messages), _stats(messages))


def _stats(messages: Sequence[StoredMessage]) -> str:
    columns: dict[str, list[Any]] = {
        "queue_id": [message.queue_id for message in messages],
        "queue_offset": [message.queue_offset for message in messages],
        "store_time": [message.store_time_ms for message in messages],
        "message_id": [message.message_id.hex() for message in messages],
        "log_offset": [message.commit_log_offset for message in messages],
    }
    least: dict[str, Any] = {name: min(columns[name]) for name in _BOUNDED}
    greatest: dict[str, Any] = {name: max(columns[name]) for name in _BOUNDED}
    for bounds in (least, greatest):
        bounds["store_time"] = _time_text(bounds["store_time"])
    told = {
        "numRecords": len(messages),
        "minValues": least,
        "maxValues": greatest,
        "nullCount": dict.fromkeys(_BOUNDED, 0),
    }
    return json.dumps(told)


def _time_text(time_ms: int) -> str:
    """A time as Delta's statistics have it."""
    shown: str = pa.scalar(time_ms, pa.timestamp("ms", "UTC")).as_py().strftime("%Y-%m-%dT%H:%M:%S.%f")
    return f"{shown[:-3]}Z"


def encode_runs(runs: Sequence[Run]) -> str:
    """Runs as text, for the tags of a segment in the table's log."""
    return msgspec.json.encode(runs).decode()


def decode_runs(text: str) -> tuple[Run, ...]:
    """The reverse.  Raises msgspec.DecodeError."""
    return msgspec.json.decode(text, type=tuple[Run, ...])


def read_footer(source: Any) -> Any:
    """The footer of a segment, from a file object.  Raises ValueError for what is no segment of ours."""
    try:
        metadata = pq.read_metadata(source)
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"no Parquet file: {error}") from None
    missing = set(SCHEMA.names) - set(metadata.schema.to_arrow_schema().names)
    if missing:
        raise ValueError(f"columns are missing: {', '.join(sorted(missing))}")
    return metadata
