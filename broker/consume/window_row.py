"""The row of a consume window.

Big-endian: as-of offset (8), since (8), generation (8), base (8), delivered end (8), count (4), deflated (1), size (4).
Then, in that size, little-endian: status bytes, attempts (2 each) and deadlines (8 each). Then as msgpack, if there are
any: the attempts that consumers named, or an array of these and the deliveries that do not count.
"""

from __future__ import annotations

import struct
import zlib
from array import array
from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

DEFLATE_ABOVE: Final = 16_384
Try = tuple[int, Sequence[tuple[int, int]]]
"""A consumer's attempt: its end, and its offsets and stamps."""

_ROW = struct.Struct(">QQQQQI?I")
_Tries = dict[str, tuple[int, list[tuple[int, int]]]]
_encode_extras = msgspec.msgpack.Encoder().encode
_decode_extras = msgspec.msgpack.Decoder(_Tries | tuple[_Tries, dict[int, tuple[int, int]]]).decode


class WindowRow(NamedTuple):
    """A window's content from its base on; `uncounted` by offset (`ConsumeWindow`)."""

    as_of: int
    since: int
    generation: int
    base: int
    delivered_end: int
    status: bytearray
    attempts: array[int]
    deadlines: array[int]
    tries: dict[str, Try]
    uncounted: dict[int, tuple[int, int]]

    def encode(self) -> bytes:
        """Return the encoded row (see the module)."""
        data = b"".join((self.status, self.attempts.tobytes(), self.deadlines.tobytes()))
        deflated = len(data) > DEFLATE_ABOVE
        if deflated:
            data = zlib.compress(data, 1)
        head = _ROW.pack(*self[:5], len(self.attempts), deflated, len(data))
        if self.uncounted:
            return head + data + _encode_extras((self.tries, self.uncounted))
        return head + data + (_encode_extras(self.tries) if self.tries else b"")

    @classmethod
    def decode(cls, row: bytes) -> WindowRow:
        """Reverse `encode`."""
        as_of, since, generation, base, delivered_end, count, deflated, size = _ROW.unpack_from(row)
        data, extras = row[_ROW.size : _ROW.size + size], row[_ROW.size + size :]
        if deflated:
            data = zlib.decompress(data)
        attempts, deadlines = array("H"), array("q")
        attempts.frombytes(data[count : 3 * count])
        deadlines.frombytes(data[3 * count :])
        found = _decode_extras(extras) if extras else {}
        tries, uncounted = found if isinstance(found, tuple) else (found, {})
        status = bytearray(data[:count])
        return cls(as_of, since, generation, base, delivered_end, status, attempts, deadlines, dict(tries), uncounted)
