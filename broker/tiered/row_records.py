"""Records of rows: a run of cold messages as it lay in the log, without trailers that name other records.

Readers of runs get bytes; no message is made for them.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from google_crc32c import value as crc32c
from numpy.typing import NDArray

from entrepot.broker.store.record import RecordKind, encode_properties
from entrepot.broker.store.record_trailer import encode_further
from entrepot.broker.tiered.columns import born_times, distinct_properties, one_array
from entrepot.domain.broker_of_queue import local_queue
from entrepot.protocols.wire.records import CHECKSUM_START, ENTRY, MAGIC, RECORD, VARIABLE, VERSION, encode_run
from entrepot.protocols.wire.stored_record import FURTHER_FLAG

_TEXTS: Final = ("topic", "sub_topic", "message_group", "tag", "body")
_CHECKSUM_AT: Final = 4
_NOTHING: Final = pa.scalar(b"", pa.binary())


def run_of_rows(rows: Any, bounds: tuple[int, int, int], to_offset: int, max_bytes: int) -> bytes:
    """Return a run of rows of one queue below an offset, as many as have `max_bytes`, at least one. `bounds`: the
    offset after the rows, and the least and the end of the queue."""
    offsets = rows.column("queue_offset").to_numpy()
    rows = rows.slice(0, int(np.searchsorted(offsets, to_offset)))
    next_offset = min(bounds[0], to_offset)
    if not len(rows):
        return encode_run(np.empty(0, ENTRY), b"", (next_offset, *bounds[1:]))
    parts = _parts(rows)
    further = _further(rows)
    lengths = {name: pc.binary_length(part).to_numpy() for name, part in parts.items()}
    sizes = RECORD.itemsize + sum(length.astype(np.int64) for length in lengths.values())
    if further is not None:
        sizes = sizes + pc.binary_length(further).to_numpy()
    fitting = max(int(np.searchsorted(np.cumsum(sizes), max_bytes, "right")), 1)
    if fitting < len(rows):
        next_offset = int(offsets[fitting])
    header = _header(rows, lengths, sizes, further)[:fitting]
    fixed = pa.Array.from_buffers(pa.binary(), fitting, [None, _every(RECORD.itemsize, fitting), pa.py_buffer(header)])
    variable = [parts[name].slice(0, fitting) for name in VARIABLE]
    if further is not None:
        variable.append(further.slice(0, fitting))
    records = _with_checksums(pc.binary_join_element_wise(fixed, *variable, _NOTHING), sizes[:fitting])
    entries = np.empty(fitting, ENTRY)
    for name, values in (("queue_offset", offsets), ("size", sizes), ("commit_log_offset", _log_offsets(rows))):
        entries[name] = values[:fitting]
    return encode_run(entries, records, (next_offset, *bounds[1:]))


def _parts(rows: Any) -> dict[str, Any]:
    """Return the parts of variable length, as arrays of bytes."""
    parts = {name: one_array(rows.column(name)).cast(pa.binary()) for name in _TEXTS}
    parts["keys"] = pc.binary_join(one_array(rows.column("keys")), "\0").cast(pa.binary())
    ids = one_array(rows.column("message_id"))
    _, ends, digits = ids.buffers()
    ends = np.frombuffer(ends, np.int32)[ids.offset : ids.offset + len(ids) + 1]
    raw = b"" if digits is None else bytes.fromhex(digits.to_pybytes()[ends[0] : ends[-1]].decode())
    halves = pa.py_buffer(((ends - ends[0]) // 2).astype(np.int32))
    parts["message_id"] = pa.Array.from_buffers(pa.binary(), len(ids), [None, halves, pa.py_buffer(raw)])
    indices, distinct = distinct_properties(rows)
    encoded = [encode_properties(system, user) if system or user else b"" for user, system in distinct]
    parts["properties"] = pa.array(encoded, pa.binary()).take(pa.array(indices))
    return parts


def _further(rows: Any) -> Any:
    """Return the parts after the bodies; None where no row lies in further queues."""
    lists = one_array(rows.column("further"))
    if lists.offsets[0] == lists.offsets[-1]:
        return None
    places = [
        [(each["topic"], local_queue(each["queue_id"]), each["queue_offset"]) for each in of_row]
        for of_row in lists.to_pylist()
    ]
    return pa.array([encode_further(of_row) if of_row else b"" for of_row in places], pa.binary())


def _header(rows: Any, lengths: dict[str, Any], sizes: NDArray[np.int64], further: Any) -> NDArray[Any]:
    """Return the fixed parts, without checksums."""
    header = np.zeros(len(rows), RECORD)
    header["magic"], header["version"], header["kind"] = MAGIC, VERSION, RecordKind.MESSAGE
    header["flags"] = rows.column("qos").to_numpy()
    if further is not None:
        header["flags"] |= np.where(pc.binary_length(further).to_numpy() > 0, FURTHER_FLAG, 0).astype(np.uint16)
    header["length"] = sizes
    header["commit_log_offset"] = header["durable_floor"] = _log_offsets(rows)
    header["store_time_ms"] = rows.column("store_time").cast(pa.int64()).to_numpy() // 1000
    header["queue_id"] = local_queue(rows.column("queue_id")[0].as_py())
    header["queue_offset"] = rows.column("queue_offset").to_numpy()
    header["born_time_ms"] = born_times(rows).view(np.int64)
    header["filter_hash"] = rows.column("filter_hash").to_numpy().view(np.uint64)
    for name, length in lengths.items():
        header[name] = length
    return header


def _log_offsets(rows: Any) -> NDArray[np.int64]:
    found: NDArray[np.int64] = rows.column("log_offset").to_numpy()
    return found


def _every(size: int, count: int) -> Any:
    return pa.py_buffer(np.arange(0, size * count + 1, size, dtype=np.int32))


def _with_checksums(records: Any, sizes: NDArray[np.int64]) -> bytes:
    """Return the bytes of all records, with the checksum of each in its place."""
    ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
    data = records.buffers()[2].to_pybytes()[: ends[-1]]
    sums = [crc32c(data[start + CHECKSUM_START : end]) for start, end in pairwise(ends.tolist())]
    written = np.frombuffer(data, np.uint8).copy()
    places = ends[:-1, None] + np.arange(_CHECKSUM_AT, CHECKSUM_START)
    written[places] = np.array(sums, ">u4").view(np.uint8).reshape(-1, 4)
    return written.tobytes()
