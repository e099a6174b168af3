"""Declaration of methods, and their codec, built from it at import.  A method is a class whose fields, in order, are
its arguments; their types are those below.  Adjacent bits share octets, as 4.2.5.2 requires.  The decorator names
reserved arguments: they are skipped on input and written as zeros."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from struct import Struct
from typing import Annotated, Any, ClassVar, Final, TypeAlias, TypeVar, dataclass_transform, get_type_hints

from entrepot.protocols.amqp.errors import AmqpError, FrameError
from entrepot.protocols.amqp.field_table import FieldTable, decode_table, encode_short_string, encode_table
from entrepot.protocols.amqp.reply_codes import ReplyCode

Bit: TypeAlias = Annotated[bool, "bit"]
Octet: TypeAlias = Annotated[int, "octet"]
Short: TypeAlias = Annotated[int, "short"]
Long: TypeAlias = Annotated[int, "long"]
LongLong: TypeAlias = Annotated[int, "longlong"]
ShortString: TypeAlias = Annotated[str, "shortstr"]
LongString: TypeAlias = Annotated[bytes, "longstr"]
Table: TypeAlias = Annotated[FieldTable, "table"]

_LAYOUTS: Final = {"octet": "B", "short": "H", "long": "I", "longlong": "Q"}

Reader: TypeAlias = Callable[[bytes, int, list[Any]], int]
"""A reader of arguments: it appends those at a position to the list, and returns their end."""

Writer: TypeAlias = Callable[[list[Any], int, list[bytes]], int]
"""A writer of arguments from an index on; it returns the index after them."""

_U32: Final = Struct(">I")
_IDS: Final = Struct(">HH")

MAX_LONG_STRING_BYTES: Final = 1 << 20
"""Limit on output; input is limited by its frame."""


class AmqpMethod:
    """Base of all methods.  `index` is class and method identifier in one number, `name` as in the specification."""

    __slots__ = ()

    class_id: ClassVar[int]
    method_id: ClassVar[int]
    index: ClassVar[int]
    name: ClassVar[str]
    is_clients: ClassVar[bool]
    """True if clients may send it."""


M = TypeVar("M", bound=AmqpMethod)


@dataclasses.dataclass(frozen=True, slots=True)
class _Codec:
    method: type[AmqpMethod]
    head: bytes
    fields: tuple[str, ...]
    readers: tuple[Reader, ...]
    writers: tuple[Writer, ...]


_CODECS: Final[dict[int, _Codec]] = {}

CLIENT, SERVER, BOTH = "client", "server", "both"


@dataclass_transform(field_specifiers=(dataclasses.field,))
def method(
    class_id: int, method_id: int, sender: str, before: tuple[str, ...] = (), after: tuple[str, ...] = ()
) -> Callable[[type[M]], type[M]]:
    """Return a decorator that makes a dataclass of the fields and declares it as this method.  `before` and `after`:
    types of reserved arguments."""

    def declare(fields: type[M]) -> type[M]:
        cls = dataclasses.dataclass(slots=True)(fields)
        cls.class_id, cls.method_id = class_id, method_id
        cls.name = re.sub(r"(?<!^)[A-Z]", r"-\g<0>", cls.__name__).lower().replace("-", ".", 1)
        cls.index = class_id << 16 | method_id
        cls.is_clients = sender != SERVER
        hints = get_type_hints(cls, include_extras=True)
        names = tuple(field.name for field in dataclasses.fields(cls))  # type: ignore[arg-type]
        types = [hints[name].__metadata__[0] for name in names]
        readers, writers = _plan([*((kind, True) for kind in before), *((kind, False) for kind in types),
                                  *((kind, True) for kind in after)])  # fmt: skip
        assert cls.index not in _CODECS, cls.name
        _CODECS[cls.index] = _Codec(cls, _IDS.pack(class_id, method_id), names, readers, writers)
        return cls

    return declare


def plain_method(
    class_id: int, method_id: int, sender: str, name: str, after: tuple[str, ...] = ()
) -> type[AmqpMethod]:
    """Return a class of this name, declared as a method without arguments."""
    return method(class_id, method_id, sender, after=after)(type(name, (AmqpMethod,), {}))


def methods() -> dict[int, type[AmqpMethod]]:
    """Return every declared method, by index."""
    return {index: codec.method for index, codec in _CODECS.items()}


def decode_method(payload: bytes) -> AmqpMethod:
    """Return the method of a method frame.  COMMAND_INVALID for an unknown one, FrameError for bad arguments."""
    if len(payload) < 4:
        raise FrameError("a method frame ends within the method's number")
    index = _U32.unpack_from(payload)[0]
    codec = _CODECS.get(index)
    if codec is None:
        raise AmqpError(ReplyCode.COMMAND_INVALID, "unimplemented method", index >> 16, index & 0xFFFF)
    values: list[Any] = []
    pos, size = 4, len(payload)
    try:
        for read in codec.readers:
            pos = read(payload, pos, values)
    except FrameError as error:
        raise FrameError(f"cannot decode {codec.method.name}: {error.text}", index >> 16, index & 0xFFFF) from None
    if pos != size:
        raise FrameError(f"cannot decode {codec.method.name}: octets after it", index >> 16, index & 0xFFFF)
    return codec.method(*values)


def encode_method(method: AmqpMethod) -> bytes:
    """Return the payload of a method frame.  Raises ValueError for arguments that do not fit."""
    codec = _CODECS[method.index]
    values = [getattr(method, name) for name in codec.fields]
    out = [codec.head]
    at = 0
    try:
        for write in codec.writers:
            at = write(values, at, out)
    except Exception as error:
        raise ValueError(f"{method.name} cannot be encoded: {error}") from error
    return b"".join(out)


def _plan(arguments: list[tuple[str, bool]]) -> tuple[tuple[Reader, ...], tuple[Writer, ...]]:
    """Return readers and writers of arguments: pairs of a type and True for a reserved one."""
    readers: list[Reader] = []
    writers: list[Writer] = []
    at = 0
    while at < len(arguments):
        kind, is_reserved = arguments[at]
        run = 1
        if kind == "bit":
            while run < 8 and at + run < len(arguments) and arguments[at + run][0] == "bit":
                run += 1
            reserved = [is_reserved for _, is_reserved in arguments[at : at + run]]
            assert len(set(reserved)) == 1, "reserved bits stand alone"
            read, write = _bits(run)
        elif kind in _LAYOUTS:
            read, write = _number(Struct(f">{_LAYOUTS[kind]}"))
        else:
            read, write = _VARIABLE[kind]
        readers.append(_over(read) if is_reserved else read)
        writers.append(_zero(kind) if is_reserved else write)
        at += run
    return tuple(readers), tuple(writers)


def _over(read: Reader) -> Reader:
    def read_over(data: bytes, pos: int, _values: list[Any]) -> int:
        return read(data, pos, [])

    return read_over


def _zero(kind: str) -> Writer:
    zeros = bytes({"bit": 1, "octet": 1, "short": 2, "long": 4, "longlong": 8, "shortstr": 1}.get(kind, 4))

    def write_zeros(_values: list[Any], at: int, out: list[bytes]) -> int:
        out.append(zeros)
        return at

    return write_zeros


def _bits(count: int) -> tuple[Reader, Writer]:
    def read(data: bytes, pos: int, values: list[Any]) -> int:
        if pos >= len(data):
            raise FrameError("it ends within its bits")
        octet = data[pos]
        values += [octet >> at & 1 == 1 for at in range(count)]
        return pos + 1

    def write(values: list[Any], at: int, out: list[bytes]) -> int:
        octet = 0
        for bit in range(count):
            octet |= bool(values[at + bit]) << bit
        out.append(bytes((octet,)))
        return at + count

    return read, write


def _number(layout: Struct) -> tuple[Reader, Writer]:
    def read(data: bytes, pos: int, values: list[Any]) -> int:
        end = pos + layout.size
        if end > len(data):
            raise FrameError("it ends within a number")
        values.append(layout.unpack_from(data, pos)[0])
        return end

    def write(values: list[Any], at: int, out: list[bytes]) -> int:
        out.append(layout.pack(values[at]))
        return at + 1

    return read, write


def _read_short_string(data: bytes, pos: int, values: list[Any]) -> int:
    if pos >= len(data) or pos + 1 + data[pos] > len(data):
        raise FrameError("it ends within a short string")
    end = pos + 1 + data[pos]
    try:
        values.append(data[pos + 1 : end].decode())
    except UnicodeDecodeError:
        raise FrameError("malformed UTF-8 in a short string") from None
    return end


def _write_short_string(values: list[Any], at: int, out: list[bytes]) -> int:
    out.append(encode_short_string(values[at]))
    return at + 1


def _read_long_string(data: bytes, pos: int, values: list[Any]) -> int:
    start = pos + 4
    if start > len(data) or (end := start + _U32.unpack_from(data, pos)[0]) > len(data):
        raise FrameError("it ends within a long string")
    values.append(data[start:end])
    return int(end)


def _write_long_string(values: list[Any], at: int, out: list[bytes]) -> int:
    value = values[at]
    if len(value) > MAX_LONG_STRING_BYTES:
        raise ValueError(f"a long string of {len(value)} bytes, the limit is {MAX_LONG_STRING_BYTES}")
    out += (_U32.pack(len(value)), value)
    return at + 1


def _read_table(data: bytes, pos: int, values: list[Any]) -> int:
    table, end = decode_table(data, pos, len(data))
    values.append(table)
    return end


def _write_table(values: list[Any], at: int, out: list[bytes]) -> int:
    out.append(encode_table(values[at]))
    return at + 1


_VARIABLE: Final[dict[str, tuple[Reader, Writer]]] = {
    "shortstr": (_read_short_string, _write_short_string),
    "longstr": (_read_long_string, _write_long_string),
    "table": (_read_table, _write_table),
}
