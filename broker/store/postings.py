"""Postings: the positions of one full consume-queue file's entries by sub-topic hash, in a file of its own.

All little-endian: a header of 32 bytes (magic, format version, entries, distinct hashes, CRC-32C of the consume-queue
file, CRC-32C of everything after the header, CRC-32C of the header before this field); every 512th hash (u64); the
distinct hashes, sorted (u64); the start of each one's positions, and the end (u32); the positions, ascending for each
hash (u32). The file is derived: it is written without a sync, and rebuilt by any reader who finds it corrupted.
"""

from __future__ import annotations

import struct
from typing import Final

import numpy as np
from google_crc32c import value as crc32c
from numpy.typing import NDArray

from entrepot.broker.store.hash_scan import Hashes, hashes_of
from entrepot.broker.store.open_files import OpenFiles
from entrepot.domain.errors import CorruptedError

MAGIC: Final = b"ENPOSTNG"
FORMAT_VERSION: Final = 1
FENCE_INTERVAL: Final = 512
"""Distance of hashes kept in memory: one read of 4 KiB finds any other."""

_HEADER: Final = struct.Struct("<8sIIIIII")
_WITHOUT_ITS_CHECKSUM: Final = _HEADER.size - 4
_EXACT_POSITION_BITS: Final = 16  # a hash of 48 bits and this many bits of position fill 64 bits
_READ_FAILED: Final = "a postings file is cut short"


def encode_postings(entries: bytes) -> bytes:
    """Return the whole file for these consume-queue entries."""
    hashes = hashes_of(entries)
    order = _stable_order(hashes)
    ordered = hashes[order]
    is_first = np.ones(ordered.size, np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=is_first[1:])
    starts = np.flatnonzero(is_first)
    distinct = ordered[starts]
    body = b"".join(
        (
            distinct[::FENCE_INTERVAL].astype("<u8").tobytes(),
            distinct.astype("<u8").tobytes(),
            np.append(starts, ordered.size).astype("<u4").tobytes(),
            order.astype("<u4").tobytes(),
        )
    )
    head = _HEADER.pack(MAGIC, FORMAT_VERSION, ordered.size, distinct.size, crc32c(entries), crc32c(body), 0)[
        :_WITHOUT_ITS_CHECKSUM
    ]
    return b"".join((head, crc32c(head).to_bytes(4, "little"), body))


class Postings:
    """An open postings file: its fences are in memory, the rest is read when needed. Opening raises CorruptedError if
    the header is wrong, OSError if the disk fails."""

    __slots__ = ("_distinct", "_fences", "_files", "_hashes_place", "_positions_place", "_starts_place", "path")

    def __init__(self, files: OpenFiles, path: str, entries: int) -> None:
        self._files = files
        self.path = path
        found, self._distinct, _source, _body = _decode_header(files.read(path, _HEADER.size, 0))
        if found != entries:
            raise CorruptedError("a postings file of another size of consume-queue file")
        fences = -(-self._distinct // FENCE_INTERVAL)
        self._hashes_place = _HEADER.size + 8 * fences
        self._starts_place = self._hashes_place + 8 * self._distinct
        self._positions_place = self._starts_place + 4 * (self._distinct + 1)
        self._fences: Hashes = np.frombuffer(self._read(8 * fences, _HEADER.size), "<u8")

    def positions(self, hash48: int, most: int) -> NDArray[np.uint32] | None:
        """Return the ascending positions of a hash, or None above `most` positions (a scan is quicker then). Raises
        CorruptedError if the file was cut since it was opened."""
        fence = int(self._fences.searchsorted(np.uint64(hash48), "right")) - 1
        if fence < 0:
            return _NONE
        first = fence * FENCE_INTERVAL
        count = min(FENCE_INTERVAL, self._distinct - first)
        block: Hashes = np.frombuffer(self._read(8 * count, self._hashes_place + 8 * first), "<u8")
        place = int(block.searchsorted(np.uint64(hash48)))
        if place == count or block[place] != hash48:
            return _NONE
        start, end = struct.unpack("<II", self._read(8, self._starts_place + 4 * (first + place)))
        if end - start > most:
            return None
        return np.frombuffer(self._read(4 * (end - start), self._positions_place + 4 * start), "<u4")

    def _read(self, length: int, place: int) -> bytes:
        data = self._files.read(self.path, length, place)
        if len(data) != length:
            raise CorruptedError(_READ_FAILED)
        return data


def are_postings_of(data: bytes, entries: bytes) -> bool:
    """True if these are all bytes of the postings file of these consume-queue entries."""
    try:
        _count, _distinct, source, body = _decode_header(data[: _HEADER.size])
    except CorruptedError:
        return False
    return (body, source) == (crc32c(data[_HEADER.size :]), crc32c(entries))


def longest_postings(entries: int) -> int:
    """Return the length in bytes of the postings file if every entry has another hash."""
    return _HEADER.size + 8 * -(-entries // FENCE_INTERVAL) + 8 * entries + 4 * (entries + 1) + 4 * entries


_NONE: Final[NDArray[np.uint32]] = np.empty(0, np.uint32)


def _decode_header(data: bytes) -> tuple[int, int, int, int]:
    """Return entries, distinct hashes, and the two checksums. Raises CorruptedError."""
    if len(data) != _HEADER.size:
        raise CorruptedError(_READ_FAILED)
    magic, version, entries, distinct, source, body, own = _HEADER.unpack(data)
    if magic != MAGIC or version != FORMAT_VERSION or own != crc32c(data[:_WITHOUT_ITS_CHECKSUM]):
        raise CorruptedError("not a postings file of this format")
    return entries, distinct, source, body


def _stable_order(hashes: Hashes) -> NDArray[np.intp]:
    """Return a stable argsort, ten times as quick: hash and position are sorted as one number.

    Above 65,536 entries the lowest bits of a hash give way to the position. Mixing two hashes that way is as rare as a
    collision on 45 bits, and is detected.
    """
    bits = max(_EXACT_POSITION_BITS, (hashes.size - 1).bit_length())
    keys = (hashes >> np.uint64(bits - _EXACT_POSITION_BITS)) << np.uint64(bits)
    keys |= np.arange(hashes.size, dtype=np.uint64)
    keys.sort()
    order = (keys & np.uint64((1 << bits) - 1)).astype(np.intp)
    ordered = hashes[order]
    if np.any(ordered[1:] < ordered[:-1]):
        return np.argsort(hashes, kind="stable")
    return order
