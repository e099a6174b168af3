"""Records: messages of one queue on the wire, each as it lies in the commit log, and their columns.

A run (big-endian): count (4), next offset (8), minimum and maximum offset of the queue (8 each), then `count` entries
of queue offset (8), commit-log offset (8) and size (4), then the records in sequence.

The broker copies bytes and decodes nothing; a reader gets whole columns with one operation for thousands of records.
The layout of a record is drawn in `broker/store/record.py`; `RECORD` is its fixed part for numpy, and
`tests/unit/remoting/test_records.py` keeps the two equal.
"""

from __future__ import annotations

import struct
from copy import copy
from dataclasses import dataclass
from mmap import mmap
from typing import Any, Final

import numpy as np
from google_crc32c import value as crc32c
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from entrepot.domain.errors import CorruptedError
from entrepot.protocols.wire.frames import RemotingError

ENTRY: Final = np.dtype([("queue_offset", ">i8"), ("commit_log_offset", ">i8"), ("size", ">u4")])
RECORD: Final = np.dtype(
    [
        ("magic", ">u4"),
        ("checksum", ">u4"),
        ("version", "u1"),
        ("kind", "u1"),
        ("flags", ">u2"),
        ("length", ">u4"),
        ("commit_log_offset", ">i8"),
        ("durable_floor", ">i8"),
        ("store_time_ms", ">i8"),
        ("queue_id", ">u4"),
        ("queue_offset", ">i8"),
        ("born_time_ms", ">i8"),
        ("filter_hash", ">u8"),
        ("topic", ">u2"),
        ("sub_topic", ">u2"),
        ("message_group", ">u2"),
        ("tag", "u1"),
        ("message_id", "u1"),
        ("keys", ">u2"),
        ("properties", ">u4"),
        ("body", ">u4"),
    ]
)
"""The fixed part of a message's record.  From `topic` on: the lengths of the parts that follow, in this order."""
MAGIC: Final = int.from_bytes(b"ENTR", "big")
VERSION: Final = 1
MESSAGE_KINDS: Final = (1, 2, 6)
CHECKSUM_START: Final = 8
VARIABLE: Final = ("topic", "sub_topic", "message_group", "tag", "message_id", "keys", "properties", "body")
MAX_RUN_BYTES: Final = 16 << 20
"""Limit of the records in one answer; a single larger one comes alone."""
_HEAD: Final = struct.Struct(">IQQQ")


@dataclass(frozen=True, slots=True)
class RecordRun:
    """Records of one queue, in order.  `starts`: position of each in `data`, which may hold others between them.
    `next_offset`: the offset to go on, after messages that the filter does not match, too."""

    entries: NDArray[Any]
    starts: NDArray[np.int64]
    data: bytes | mmap
    next_offset: int
    min_offset: int
    max_offset: int

    def __len__(self) -> int:
        return len(self.entries)

    @property
    def queue_offsets(self) -> NDArray[np.int64]:
        """Offsets of the messages in their queue."""
        return self.entries["queue_offset"].astype(np.int64)


def encode_run(entries: NDArray[Any], records: bytes, bounds: tuple[int, int, int]) -> bytes:
    """Return a run of packed records; `bounds` are next, minimum and maximum offset."""
    return b"".join((_HEAD.pack(len(entries), *bounds), entries.tobytes(), records))


def decode_run(payload: bytes) -> RecordRun:
    """Reverse `encode_run`.  Raises RemotingError."""
    if len(payload) < _HEAD.size:
        raise RemotingError("a run of records is cut short")
    count, next_offset, min_offset, max_offset = _HEAD.unpack_from(payload)
    first = _HEAD.size + count * ENTRY.itemsize
    if len(payload) < first:
        raise RemotingError("a run of records is cut short")
    entries = np.frombuffer(payload, ENTRY, count, _HEAD.size)
    if int(entries["size"].sum(dtype=np.int64)) != len(payload) - first:
        raise RemotingError("a run of records has other bytes than it says")
    ends = np.cumsum(entries["size"], dtype=np.int64)
    return RecordRun(entries, first + ends - entries["size"], payload, next_offset, min_offset, max_offset)


class RecordColumns:
    """The columns of a run's records, each checked against its entry.  `header` has the fixed parts.  `corrupted`:
    places in the run of records that fail their check; `starts`, `header` and `queue_offsets` leave them out."""

    def __init__(self, run: RecordRun) -> None:
        self.data = run.data
        self._bytes = np.frombuffer(run.data, np.uint8)
        header = self._headers(run)
        whole = self._is_whole(run, header)
        self.corrupted: list[int] = np.flatnonzero(~whole).tolist()
        self.queue_offsets = run.queue_offsets
        self.starts = run.starts
        self.header = header
        if self.corrupted:
            self.queue_offsets = self.queue_offsets[whole]
            self.starts, self.header = self.starts[whole], header[whole]
        self._spans: dict[str, tuple[NDArray[np.int64], NDArray[np.int64]]] = {}

    def __len__(self) -> int:
        return len(self.starts)

    def row(self, at: int) -> RecordColumns:
        """Return the columns of one record alone, by its place among those that are whole."""
        found = copy(self)
        found.queue_offsets = self.queue_offsets[at : at + 1]
        found.starts, found.header = self.starts[at : at + 1], self.header[at : at + 1]
        found._spans = {}
        return found

    def _headers(self, run: RecordRun) -> NDArray[Any]:
        size = RECORD.itemsize
        if not len(run):
            return np.empty(0, RECORD)
        limit = max(len(self._bytes) - size, 0)
        if limit == 0 and len(self._bytes) < size:
            return np.zeros(len(run), RECORD)  # too short to be records: all of them fail
        first = np.clip(run.starts, 0, limit)
        headers: NDArray[Any] = sliding_window_view(self._bytes, size)[first].view(RECORD).ravel()
        return headers

    def _is_whole(self, run: RecordRun, header: NDArray[Any]) -> NDArray[np.bool_]:
        entries, starts = run.entries, run.starts
        lengths = header["length"].astype(np.int64)
        claimed = sum(header[name].astype(np.int64) for name in VARIABLE) + RECORD.itemsize
        whole: NDArray[np.bool_] = (
            (header["magic"] == MAGIC)
            & (header["version"] == VERSION)
            & np.isin(header["kind"], MESSAGE_KINDS)
            & (header["commit_log_offset"] == entries["commit_log_offset"])
            & (header["length"] == entries["size"])
            & (claimed <= lengths)
            & (starts >= 0)
            & (starts + lengths <= len(self._bytes))
        )
        data = run.data  # slices of it are bytes, as the checksum wants them
        begins = (starts + CHECKSUM_START).tolist()
        ends = (starts + lengths).tolist()
        if whole.all():
            sums = np.fromiter(
                [crc32c(data[begin:end]) for begin, end in zip(begins, ends, strict=True)], np.uint32, len(begins)
            )
            same: NDArray[np.bool_] = sums == header["checksum"]
            return same
        for at in np.flatnonzero(whole).tolist():
            whole[at] = crc32c(data[begins[at] : ends[at]]) == header["checksum"][at]
        return whole

    def spans(self, name: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the start in `data` of a part of variable length, and its length, for each record."""
        if not self._spans:
            start = self.starts + RECORD.itemsize
            for each in VARIABLE:
                length = self.header[each].astype(np.int64)
                self._spans[each] = start, length
                start = start + length
        return self._spans[name]

    def check(self, queue: str, run: RecordRun) -> None:
        """Raise MESSAGE_CORRUPTED if a record is corrupted."""
        if self.corrupted:
            at = int(run.entries["queue_offset"][self.corrupted[0]])
            raise CorruptedError(f"message {at} of {queue} is corrupted")
