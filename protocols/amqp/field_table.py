"""Field tables and arrays (4.2.5.5), with RabbitMQ's types (its errata to AMQP 0-9-1).

Decoded values are Python's, and are encoded with these types: bool `t`, int `I` where it fits and `l` else, as
RabbitMQ's Java client does, float `d`, Decimal `D`, str `S`, bytes `x`, `Timestamp` `T`, dict `F`, list `A`, None `V`.
A table of these types, without duplicate keys, is encoded to the bytes it was decoded from.  Other integers (`b B s u i
L`) and `f` keep their value and lose their width; a long string that is not UTF-8 becomes `bytes`.  Values that must
stay byte for byte are never decoded (`content.ContentHeader`), or are encoded beside their old table (`changed_table`).

Bad bytes raise FrameError and nothing else, and each byte is read once.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from struct import Struct
from typing import Any, Final, TypeAlias

from entrepot.protocols.amqp.errors import FrameError

MAX_DEPTH: Final = 32
"""Deepest nesting of tables and arrays."""

MAX_TABLE_BYTES: Final = 1 << 20
"""Limit of one table, beside that of its frame."""

FieldValue: TypeAlias = Any
"""bool, int, float, Decimal, str, bytes, Timestamp, None, or a dict or list of these."""

FieldTable: TypeAlias = dict[str, FieldValue]

MAX_SHORT_STRING_BYTES: Final = 255

_U32: Final = Struct(">I")
_read_u32: Final = _U32.unpack_from
_DECIMAL: Final = Struct(">Bi")
_INT32_END: Final = 1 << 31
_INT64_END: Final = 1 << 63


class Timestamp(int):
    """Seconds since 1970 (`T`); an int that is encoded as a timestamp again."""

    __slots__ = ()


class Long(int):
    """A signed number of 64 bits (`l`), of whatever size: what RabbitMQ counts, clients take for a long."""

    __slots__ = ()


def decode_table(data: bytes, pos: int, end: int, depth: int = 0) -> tuple[FieldTable, int]:
    """Return the table at `pos`, which begins with its length and ends at `end` at the latest, and its end."""
    pos, stop = _bounds(data, pos, end, depth)
    table: FieldTable = {}
    while pos < stop:
        key_end = pos + 1 + data[pos]
        if key_end >= stop:
            raise FrameError("a field table ends within a field")
        try:
            key = data[pos + 1 : key_end].decode()
        except UnicodeDecodeError:
            raise FrameError("the name of a field is not UTF-8") from None
        table[key], pos = _decode_value(data, key_end, stop, depth)
    return table, stop


def decode_array(data: bytes, pos: int, end: int, depth: int = 0) -> tuple[list[FieldValue], int]:
    """Return the array at `pos`, which begins with its length, and its end."""
    pos, stop = _bounds(data, pos, end, depth)
    values: list[FieldValue] = []
    while pos < stop:
        value, pos = _decode_value(data, pos, stop, depth)
        values.append(value)
    return values, stop


def check_table(data: bytes, pos: int, end: int, depth: int = 0) -> int:
    """Return the end of the table, raising FrameError as `decode_table` would; builds nothing."""
    pos, stop = _bounds(data, pos, end, depth)
    is_ascii = data[pos:stop].isascii()  # usual, and then every name is UTF-8
    while pos < stop:
        key_end = pos + 1 + data[pos]
        if key_end >= stop:
            raise FrameError("a field table ends within a field")
        if not is_ascii:
            try:
                data[pos + 1 : key_end].decode()
            except UnicodeDecodeError:
                raise FrameError("the name of a field is not UTF-8") from None
        if data[key_end] == 0x53 and key_end + 5 <= stop:  # S, the usual value
            pos = key_end + 5 + _read_u32(data, key_end + 1)[0]
            if pos > stop:
                raise FrameError("a field is longer than what holds it")
        else:
            pos = _check_value(data, key_end, stop, depth)
    return stop


def encode_table(table: FieldTable) -> bytes:
    """Return the table with its length.  Raises ValueError for values that no table can hold."""
    encoded = _encode_table(table, 0)
    if len(encoded) - 4 > MAX_TABLE_BYTES:
        raise ValueError(f"a field table of {len(encoded)} bytes, the limit is {MAX_TABLE_BYTES}")
    return encoded


def changed_table(table: FieldTable, old: FieldTable, data: bytes, pos: int, end: int) -> bytes:
    """Return a table with its length, where it is a change of the table `old` at `pos`: values that are the same
    objects keep their bytes, and so their types.  Raises ValueError for values that no table can hold."""
    kept = _fields_of(data, pos, end)
    content = b"".join(
        [
            kept[key] if key in kept and old.get(key) is value else encode_short_string(key) + _encode_value(value, 0)
            for key, value in table.items()
        ]
    )
    if len(content) > MAX_TABLE_BYTES:
        raise ValueError(f"a field table of {len(content)} bytes, the limit is {MAX_TABLE_BYTES}")
    return _U32.pack(len(content)) + content


def _fields_of(data: bytes, pos: int, end: int) -> dict[str, bytes]:
    """Return the bytes of each field, name and value, by its name; of a name that comes twice those of the last."""
    pos, stop = _bounds(data, pos, end, 0)
    fields: dict[str, bytes] = {}
    while pos < stop:
        key_end = pos + 1 + data[pos]
        value_end = _check_value(data, key_end, stop, 0)
        fields[data[pos + 1 : key_end].decode()] = data[pos:value_end]
        pos = value_end
    return fields


def encode_short_string(text: str) -> bytes:
    """Return a short string with its length.  Raises ValueError above 255 bytes."""
    raw = text.encode()
    if len(raw) > MAX_SHORT_STRING_BYTES:
        raise ValueError(f"a short string of {len(raw)} bytes, the limit is {MAX_SHORT_STRING_BYTES}")
    return bytes((len(raw),)) + raw


def _bounds(data: bytes, pos: int, end: int, depth: int) -> tuple[int, int]:
    """Return start and end of the content of a table, array or long string."""
    if depth > MAX_DEPTH:
        raise FrameError(f"field tables more than {MAX_DEPTH} deep")
    start = pos + 4
    if start > end:
        raise FrameError("a field ends within its length")
    size: int = _U32.unpack_from(data, pos)[0]
    if size > end - start or size > MAX_TABLE_BYTES:
        raise FrameError("a field is longer than what holds it")
    return start, start + size


def _decode_value(data: bytes, pos: int, end: int, depth: int) -> tuple[FieldValue, int]:
    """Return the value whose type octet is at `pos`, which is before `end`, and its end."""
    kind = data[pos]
    fixed = _FIXED.get(kind)
    if fixed is not None:
        stop = pos + 1 + fixed.size
        if stop > end:
            raise FrameError("a field ends within its value")
        if kind == 0x44:
            return _decimal(*_DECIMAL.unpack_from(data, pos + 1)), stop
        value = fixed.unpack_from(data, pos + 1)[0]
        return (Timestamp(value) if kind == 0x54 else value), stop
    if kind == 0x53 or kind == 0x78:  # S, x
        start, stop = _bounds(data, pos + 1, end, 0)
        raw = data[start:stop]
        if kind == 0x53:
            try:
                return raw.decode(), stop
            except UnicodeDecodeError:
                pass
        return raw, stop
    if kind == 0x46:
        return decode_table(data, pos + 1, end, depth + 1)
    if kind == 0x41:
        return decode_array(data, pos + 1, end, depth + 1)
    if kind == 0x56:
        return None, pos + 1
    raise FrameError(f"a field of the unknown type 0x{kind:02x}")


def _check_value(data: bytes, pos: int, end: int, depth: int) -> int:
    kind = data[pos]
    fixed = _FIXED.get(kind)
    if fixed is not None:
        stop = pos + 1 + fixed.size
        if stop > end:
            raise FrameError("a field ends within its value")
        return stop
    if kind == 0x53 or kind == 0x78:
        return _bounds(data, pos + 1, end, 0)[1]
    if kind == 0x46:
        return check_table(data, pos + 1, end, depth + 1)
    if kind == 0x41:
        pos, stop = _bounds(data, pos + 1, end, depth + 1)
        while pos < stop:
            pos = _check_value(data, pos, stop, depth + 1)
        return stop
    if kind == 0x56:
        return pos + 1
    raise FrameError(f"a field of the unknown type 0x{kind:02x}")


_FIXED: Final[dict[int, Struct]] = {
    ord(kind): Struct(f">{layout}")
    for kind, layout in {
        "t": "?",
        "b": "b",
        "B": "B",
        "s": "h",
        "u": "H",
        "I": "i",
        "i": "I",
        "l": "q",
        "L": "q",
        "f": "f",
        "d": "d",
        "D": "Bi",
        "T": "Q",
    }.items()
}
"""Types of fixed length.  `L` is signed, as in RabbitMQ and its clients."""


def _decimal(scale: int, digits: int) -> Decimal:
    """Return a decimal from its digits, so that no context rounds it."""
    return Decimal((int(digits < 0), tuple(map(int, str(abs(digits)))), -scale))


def _encode_table(table: FieldTable, depth: int) -> bytes:
    if depth > MAX_DEPTH:
        raise ValueError(f"field tables more than {MAX_DEPTH} deep")
    content = b"".join([encode_short_string(key) + _encode_value(value, depth) for key, value in table.items()])
    return _U32.pack(len(content)) + content


def _encode_value(value: FieldValue, depth: int) -> bytes:
    encoder = _ENCODERS.get(type(value))
    if encoder is not None:
        return encoder(value)
    if isinstance(value, dict):
        return b"F" + _encode_table(value, depth + 1)
    if isinstance(value, list | tuple):
        if depth >= MAX_DEPTH:
            raise ValueError(f"field arrays more than {MAX_DEPTH} deep")
        content = b"".join([_encode_value(each, depth + 1) for each in value])
        return b"A" + _U32.pack(len(content)) + content
    for kind in (str, bytes, Timestamp, Long, int, float):  # subclasses of these, such as enumerations
        if isinstance(value, kind):
            return _ENCODERS[kind](value)
    raise ValueError(f"a field of the type {type(value).__name__}")


def _encode_int(value: int) -> bytes:
    if -_INT32_END <= value < _INT32_END:  # no `range`: that looks for an enumeration's number by counting
        return b"I" + value.to_bytes(4, "big", signed=True)
    if -_INT64_END <= value < _INT64_END:
        return b"l" + value.to_bytes(8, "big", signed=True)
    raise ValueError(f"{value} does not fit 64 bits")


def _encode_long(value: Long) -> bytes:
    if not -_INT64_END <= value < _INT64_END:
        raise ValueError(f"{value} does not fit 64 bits")
    return b"l" + value.to_bytes(8, "big", signed=True)


def _encode_timestamp(value: Timestamp) -> bytes:
    if not 0 <= value < 1 << 64:
        raise ValueError(f"{value} is not a timestamp")
    return b"T" + value.to_bytes(8, "big")


def _encode_decimal(value: Decimal) -> bytes:
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        raise ValueError(f"{value} is not a decimal of AMQP")
    unscaled = int("".join(map(str, digits)) or "0") * 10 ** min(max(exponent, 0), 10)
    if sign:
        unscaled = -unscaled
    scale = max(-exponent, 0)
    if not -_INT32_END <= unscaled < _INT32_END or exponent > 10 or scale > 255:
        raise ValueError(f"{value} is beyond the decimals of AMQP")
    return b"D" + _DECIMAL.pack(scale, unscaled)


def _encode_double(value: float) -> bytes:
    return b"d" + _DOUBLE.pack(value)


def _encode_text(value: str) -> bytes:
    raw = value.encode()
    return b"S" + _U32.pack(len(raw)) + raw


def _encode_bytes(value: bytes) -> bytes:
    return b"x" + _U32.pack(len(value)) + value


_DOUBLE: Final = Struct(">d")

_ENCODERS: Final[dict[type[Any], Callable[[Any], bytes]]] = {
    bool: lambda value: b"t\x01" if value else b"t\x00",
    int: _encode_int,
    Long: _encode_long,
    Timestamp: _encode_timestamp,
    float: _encode_double,
    Decimal: _encode_decimal,
    str: _encode_text,
    bytes: _encode_bytes,
    bytearray: _encode_bytes,
    type(None): lambda _: b"V",
}
