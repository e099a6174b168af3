"""HPACK (RFC 7541): compressed lists of header fields, decoded; answers are constant blocks and need no table.

Invariants: the dynamic table has at most TABLE_BYTES, a number at most four bytes behind its first.  A list costs no
more memory than its limit, and no more time than MAX_FIELDS, whatever the block repeats.
"""

from __future__ import annotations

from typing import Final

from entrepot.protocols.http2.huffman import HuffmanError
from entrepot.protocols.http2.huffman import decode as decode_huffman

Field = tuple[bytes, bytes]

TABLE_BYTES: Final = 4096
"""Largest dynamic table, the default of the protocol (RFC 9113, 6.5.2)."""
ENTRY_BYTES: Final = 32
"""Cost of an entry beside its name and value (RFC 7541, 4.1)."""
MAX_SHIFT: Final = 28
"""Most bits of a number in the bytes behind its first: no length of ours needs more."""

MAX_FIELDS: Final = 1024
"""Most fields of a block: a byte can stand for a large one, so a block of fields that are not kept takes time still."""

_STATIC_TEXT: Final = (
    ":authority|:method=GET|:method=POST|:path=/|:path=/index.html|:scheme=http|:scheme=https|:status=200|:status=204|"
    ":status=206|:status=304|:status=400|:status=404|:status=500|accept-charset|accept-encoding=gzip, deflate|"
    "accept-language|accept-ranges|accept|access-control-allow-origin|age|allow|authorization|cache-control|"
    "content-disposition|content-encoding|content-language|content-length|content-location|content-range|content-type|"
    "cookie|date|etag|expect|expires|from|host|if-match|if-modified-since|if-none-match|if-range|if-unmodified-since|"
    "last-modified|link|location|max-forwards|proxy-authenticate|proxy-authorization|range|referer|refresh|retry-after|"
    "server|set-cookie|strict-transport-security|transfer-encoding|user-agent|vary|via|www-authenticate"
)
STATIC: Final[tuple[Field, ...]] = tuple(
    (name.encode(), value.encode()) for name, _, value in (each.partition("=") for each in _STATIC_TEXT.split("|"))
)
"""The static table (appendix A); its first entry has the index 1."""


class HpackError(Exception):
    """The block cannot be decoded, so the tables of both sides differ from now on."""


class TooManyFieldsError(HpackError):
    """The block has more fields than are decoded."""


class HeaderListTooLargeError(Exception):
    """The block was decoded, and its list is larger than the limit."""


class HpackDecoder:
    """The decoder of one connection, with its dynamic table."""

    __slots__ = ("_entries", "_limit", "_max_list", "_size")

    def __init__(self, max_list_bytes: int) -> None:
        self._entries: list[Field] = []
        """The dynamic table, the newest entry last."""
        self._size, self._limit, self._max_list = 0, TABLE_BYTES, max_list_bytes

    @property
    def size(self) -> int:
        """Bytes of the dynamic table, as the protocol counts them."""
        return self._size

    def decode(self, data: bytes) -> list[Field]:
        """Return the fields of a block.  Raises HpackError, and HeaderListTooLargeError for a whole block."""
        found: list[Field] = []
        at, end, room = 0, len(data), self._max_list
        count = 0
        try:
            while at < end:
                first = data[at]
                if first & 0x80:
                    index, at = (first & 0x7F, at + 1) if first != 0xFF else _number(data, at, 0x7F)
                    field = self._entry(index)
                elif first & 0x40:
                    field, at = self._literal(data, at, 0x3F)
                    self._add(field)
                elif first & 0x20:
                    if count:
                        raise HpackError("the table changes its size behind the begin of a block")
                    size, at = _number(data, at, 0x1F)
                    self._resize(size)
                    continue
                else:
                    field, at = self._literal(data, at, 0x0F)
                count += 1
                if count > MAX_FIELDS:
                    raise TooManyFieldsError("a block has too many fields")
                room -= len(field[0]) + len(field[1]) + ENTRY_BYTES
                if room >= 0:
                    found.append(field)
        except IndexError:
            raise HpackError("the block is cut short") from None
        except HuffmanError as error:
            raise HpackError(str(error)) from None
        if room < 0:
            raise HeaderListTooLargeError
        return found

    def _literal(self, data: bytes, at: int, mask: int) -> tuple[Field, int]:
        index, at = _number(data, at, mask)
        if index:
            name = self._entry(index)[0]
        else:
            name, at = _text(data, at)
        value, at = _text(data, at)
        return (name, value), at

    def _entry(self, index: int) -> Field:
        if index <= len(STATIC):
            if not index:
                raise HpackError("there is no entry 0")
            return STATIC[index - 1]
        place = len(self._entries) - (index - len(STATIC))
        if place < 0:
            raise HpackError("there is no such entry")
        return self._entries[place]

    def _add(self, field: Field) -> None:
        self._entries.append(field)
        self._size += len(field[0]) + len(field[1]) + ENTRY_BYTES
        if self._size > self._limit:
            self._shrink()

    def _resize(self, size: int) -> None:
        if size > TABLE_BYTES:
            raise HpackError("the table would be too large")
        self._limit = size
        self._shrink()

    def _shrink(self) -> None:
        """Let the oldest entries go until the rest fits (4.4)."""
        count = 0
        while self._size > self._limit:
            name, value = self._entries[count]
            self._size -= len(name) + len(value) + ENTRY_BYTES
            count += 1
        del self._entries[:count]


def _number(data: bytes, at: int, mask: int) -> tuple[int, int]:
    """Return a number (5.1) and the place behind it."""
    value = data[at] & mask
    at += 1
    if value < mask:
        return value, at
    for shift in range(0, MAX_SHIFT, 7):
        byte = data[at]
        at += 1
        value += (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise HpackError("a number is too long")


def _text(data: bytes, at: int) -> tuple[bytes, int]:
    """Return a string (5.2) and the place behind it."""
    first = data[at]
    size, at = (first & 0x7F, at + 1) if first & 0x7F != 0x7F else _number(data, at, 0x7F)
    end = at + size
    if end > len(data):
        raise HpackError("the block is cut short")
    return (decode_huffman(data[at:end]) if first & 0x80 else data[at:end]), end


def literal(name: bytes, value: bytes) -> bytes:
    """Return a field that enters no table (6.2.2), without Huffman code."""
    return b"\x00" + _sized(name) + _sized(value)


def _sized(text: bytes) -> bytes:
    size = len(text)
    if size < 0x7F:
        return bytes((size,)) + text
    head, size = bytearray((0x7F,)), size - 0x7F
    while size >= 0x80:
        head.append(size & 0x7F | 0x80)
        size >>= 7
    head.append(size)
    return bytes(head) + text
