"""The data types of the wire (MQTT 5.0 section 1.5).  A reader gets the buffer, the position and the end of the
enclosing field, and returns the value and the next position."""

from __future__ import annotations

from typing import Final

from entrepot.protocols.mqtt.errors import malformed

MAX_VARINT: Final = 268_435_455
"""Largest Variable Byte Integer: four bytes of seven bits (1.5.5)."""

MAX_FIELD_BYTES: Final = 65_535
"""Longest string or binary field: its length is two bytes (1.5.4, 1.5.6)."""


def read_byte(buf: bytes, pos: int, end: int) -> tuple[int, int]:
    if pos >= end:
        raise malformed("packet ends before its content does")
    return buf[pos], pos + 1


def read_u16(buf: bytes, pos: int, end: int) -> tuple[int, int]:
    if pos + 2 > end:
        raise malformed("packet ends before its content does")
    return (buf[pos] << 8) | buf[pos + 1], pos + 2


def read_u32(buf: bytes, pos: int, end: int) -> tuple[int, int]:
    if pos + 4 > end:
        raise malformed("packet ends before its content does")
    return int.from_bytes(buf[pos : pos + 4], "big"), pos + 4


def read_varint(buf: bytes, pos: int, end: int) -> tuple[int, int]:
    """Read a Variable Byte Integer in its shortest form (1.5.5, MQTT-1.5.5-1)."""
    value, next_pos = read_varint_if_whole(buf, pos, end)
    if next_pos < 0:
        raise malformed("packet ends inside a variable byte integer")
    return value, next_pos


def read_varint_if_whole(buf: bytes, pos: int, end: int) -> tuple[int, int]:
    """Read as `read_varint`, but the next position is -1 when the end comes before the integer's last byte."""
    value = shift = 0
    while pos < end:
        byte = buf[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if not byte and shift:
                raise malformed("variable byte integer is not in its shortest form")
            return value, pos
        shift += 7
        if shift > 21:
            raise malformed("variable byte integer is longer than four bytes")
    return 0, -1


def read_binary(buf: bytes, pos: int, end: int) -> tuple[bytes, int]:
    if pos + 2 > end:
        raise malformed("packet ends before its content does")
    start = pos + 2
    stop = start + ((buf[pos] << 8) | buf[pos + 1])
    if stop > end:
        raise malformed("field runs past the end of what holds it")
    return buf[start:stop], stop


def read_string(buf: bytes, pos: int, end: int) -> tuple[str, int]:
    """Read UTF-8 without NUL, surrogates or overlong forms; a leading BOM is kept (1.5.4)."""
    if pos + 2 > end:  # as `read_binary` and `decode_text`, without the two calls
        raise malformed("packet ends before its content does")
    start = pos + 2
    stop = start + ((buf[pos] << 8) | buf[pos + 1])
    if stop > end:
        raise malformed("field runs past the end of what holds it")
    try:
        text = buf[start:stop].decode()
    except UnicodeDecodeError:
        raise malformed("text is not UTF-8") from None
    if "\0" in text:
        raise malformed("text contains NUL")
    return text, stop


def read_string_pair(buf: bytes, pos: int, end: int) -> tuple[tuple[str, str], int]:
    name, pos = read_string(buf, pos, end)
    value, pos = read_string(buf, pos, end)
    return (name, value), pos


def decode_text(raw: bytes) -> str:
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        raise malformed("text is not UTF-8") from None
    if "\0" in text:
        raise malformed("text contains NUL")
    return text


def write_varint(value: int) -> bytes:
    if 0 <= value < 0x80:
        return bytes((value,))
    if 0x80 <= value < 0x4000:
        return bytes((value & 0x7F | 0x80, value >> 7))
    if not 0 <= value <= MAX_VARINT:
        raise ValueError(f"{value} does not fit a variable byte integer")
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def write_u16(value: int) -> bytes:
    return _write_int(value, 2)


def write_u32(value: int) -> bytes:
    return _write_int(value, 4)


def write_byte(value: int) -> bytes:
    return _write_int(value, 1)


def _write_int(value: int, size: int) -> bytes:
    try:
        return value.to_bytes(size, "big")
    except OverflowError:
        raise ValueError(f"{value} does not fit {size} bytes") from None


def write_binary(value: bytes) -> bytes:
    size = len(value)
    if size > MAX_FIELD_BYTES:
        raise ValueError(f"field of {size} bytes is longer than {MAX_FIELD_BYTES}")
    return size.to_bytes(2, "big") + value


def write_string(value: str) -> bytes:
    """Encode a string.  Raises ValueError for NUL and lone surrogates, which a strict peer would close for (1.5.4)."""
    if "\0" in value:
        raise ValueError("text contains NUL")
    return write_binary(value.encode())


def write_string_pair(value: tuple[str, str]) -> bytes:
    return write_string(value[0]) + write_string(value[1])
