"""The digest of rows: a number that adds up. Two parts together have the sum of their digests, modulo 2**64.

It covers everything of a message that its publisher gave, and its place in its queue, but not its record's place in a
log. So the rows of a merged segment have the digests of the replaced ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from google_crc32c import value as crc32c
from numpy.typing import NDArray

from entrepot.broker.tiered.columns import CORRUPTED

MASK: Final = (1 << 64) - 1
_JOINED: Final = ("topic", "sub_topic", "message_group", "tag", "message_id", "body")
_NUMBERS: Final = ("queue_id", "queue_offset", "store_time", "born_time", "qos")
_LISTS: Final = ("keys", "properties", "system")
_STEP: Final = np.uint64(0x9E3779B97F4A7C15)
_FIRST: Final = np.uint64(0xBF58476D1CE4E5B9)
_SECOND: Final = np.uint64(0x94D049BB133111EB)


def digest_of(rows: Any) -> int:
    """Return the digest of some rows, an Arrow table."""
    total = 0
    for batch in rows.to_batches():
        total += int(_hashes(batch).sum(dtype=np.uint64)) if batch.num_rows else 0
    return total & MASK


def _hashes(rows: Any) -> NDArray[np.uint64]:
    parts = [rows.column(name).cast(pa.binary()) for name in _JOINED]
    lengths = np.zeros(rows.num_rows, np.uint64)
    for name in _LISTS:
        for values, hashes in _of_lists(rows.column(name)):
            parts.append(values)
            lengths = _mixed(lengths + hashes)
    joined = pc.binary_join_element_wise(*parts, pa.scalar(b"\0", pa.binary()), null_handling="replace")
    found = _checksums(joined) + lengths
    for name in _NUMBERS:
        found = _mixed(found + _numbers(rows.column(name)))
    return _mixed(found + (_numbers(rows.column("flags")) & np.uint64(CORRUPTED)))


def _mixed(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return numbers of which each bit depends on all bits (splitmix64)."""
    values = values + _STEP
    values = (values ^ (values >> np.uint64(30))) * _FIRST
    values = (values ^ (values >> np.uint64(27))) * _SECOND
    return values ^ (values >> np.uint64(31))


def _numbers(column: Any) -> NDArray[np.uint64]:
    whole: NDArray[np.int64] = column.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    return whole.view(np.uint64)


def _checksums(values: Any) -> NDArray[np.uint64]:
    """Return the checksums of an array of bytes or texts without nulls."""
    _, offsets, data = values.buffers()
    bounds = np.frombuffer(offsets, np.int32)[values.offset : values.offset + len(values) + 1].tolist()
    content = b"" if data is None else data.to_pybytes()
    return np.fromiter(
        [crc32c(content[start:end]) for start, end in pairwise(bounds)],
        np.uint64,
        len(values),
    )


def _of_lists(lists: Any) -> Iterator[tuple[Any, NDArray[np.uint64]]]:
    """Yield the parts of lists of texts, or of structs of these: each list's values joined, and their lengths."""
    bounds = lists.offsets.to_numpy()
    starts, count = bounds[:-1] - bounds[0], int(bounds[-1] - bounds[0])
    values = lists.values.slice(int(bounds[0]), count)
    of_list = np.diff(bounds)
    places = (np.arange(count, dtype=np.int64) - np.repeat(starts, of_list)) << 32
    for part in values.flatten() if pa.types.is_struct(values.type) else [values]:
        if not count:
            nothing = [None, pa.py_buffer(np.zeros(len(bounds), np.int32)), pa.py_buffer(b"")]
            yield pa.Array.from_buffers(pa.binary(), len(lists), nothing), np.zeros(len(lists), np.uint64)
            continue
        _, offsets, data = part.buffers()
        ends = np.frombuffer(offsets, np.int32)[part.offset : part.offset + count + 1]
        joined = pa.py_buffer(ends[bounds - bounds[0]])
        lengths = np.diff(ends).astype(np.int64)
        if part.null_count:
            lengths[part.is_null().to_numpy(zero_copy_only=False)] = -1
        hashes = np.concatenate([np.zeros(1, np.uint64), np.cumsum(_mixed((places + lengths).view(np.uint64)))])
        yield (
            pa.Array.from_buffers(pa.binary(), len(lists), [None, joined, data]),
            hashes[starts + of_list] - hashes[starts],
        )
