"""One body into a row: values that do not fit their columns are kept beside, as JSON text, and the others are read.

`payloads.py` reads many bodies at once, and gives those here that do not fit.
"""

from __future__ import annotations

import datetime
import decimal
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_type

from entrepot.domain.printable import printable
from entrepot.protocols.wire.json_rules import MAX_BYTES, WHITESPACE, fault_of
from entrepot.spark_ingest.source.payload_types import value_type

REASONS: Final = "_reason"
"""Name, in the text of what does not fit, of the reasons by path."""
CBOR_TYPES: Final = (bytes, bytearray, datetime.datetime, datetime.date, decimal.Decimal)
_SPACE: Final = "[ \t\r\n]*"
_names: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
Fits = Callable[[Any, pa.Field], bool]


class RowParser:
    """A parser of single bodies of one schema.  `load` decodes CBOR; None for JSON.  `fits`: whether Arrow takes a
    value as its field's type."""

    def __init__(self, fields: Sequence[pa.Field], load: Callable[[bytes], Any] | None, fits: Fits) -> None:
        self._fields, self._load, self._fits = tuple(fields), load, fits
        self._decoders: dict[pa.DataType, Any] = {}

    def row(self, body: bytes) -> tuple[list[Any], str | None]:
        """Return the values by column, and the text of those that do not fit.  Raises ValueError with the fault of a
        body that is not an object."""
        if self._load is None:
            body = body.strip(WHITESPACE.encode())
            fault = fault_of(body)
            if fault is not None:
                raise ValueError(fault)
            given: Any = _names(body)
        else:
            given = self._load(body)
            if not isinstance(given, dict):
                raise ValueError("Expected `object`")
        found = _Misfits(self._text_of)
        values = self._object(self._fields, given, (), found)
        return list(values.values()), found.text()

    def _object(
        self, fields: Sequence[pa.Field], given: Mapping[Any, Any], path: tuple[str, ...], found: _Misfits
    ) -> dict[str, Any]:
        values = {field.name: self._value(given.get(field.name), field, (*path, field.name), found) for field in fields}
        spellings = {folded(name): name for name in values}
        for name, item in given.items():
            if isinstance(name, str) and name not in values and (column := spellings.get(folded(name))) is not None:
                found.add((*path, name), item, f"differs from {column} only in case")
        return values

    def _value(self, item: Any, field: pa.Field, path: tuple[str, ...], found: _Misfits) -> Any:
        if item is None or (self._load is None and bytes(item) == b"null"):
            return None
        if pa.types.is_struct(field.type):
            inner = _object_in(item)
            if inner is not None:
                return self._object(list(field.type), inner, path, found)
        else:
            try:
                value = self._decoded(item, field)
            except MemoryError:
                raise
            except Exception:  # noqa: BLE001  # values are anybody's: whatever they raise, they do not fit
                value = None
            if value is not None and self._fits(value, field):
                return value
        found.add(path, item, f"does not fit {from_arrow_type(field.type).simpleString()}")
        return None

    def _decoded(self, item: Any, field: pa.Field) -> Any:
        kind = field.type
        if self._load is not None:
            return plain(msgspec.convert(item, value_type(field), builtin_types=CBOR_TYPES))
        if kind not in self._decoders:
            self._decoders[kind] = msgspec.json.Decoder(value_type(field, is_json=True)).decode
        return plain(self._decoders[kind](bytes(item)))

    def _text_of(self, item: Any) -> str:
        return bytes(item).decode() if self._load is None else "".join(_bounded(_pieces(item)))


class _Misfits:
    """The values of one body that do not fit, by path."""

    def __init__(self, text_of: Callable[[Any], str]) -> None:
        self._text_of = text_of
        self._texts: dict[str, str] = {}
        self._reasons: dict[str, str] = {}

    def add(self, path: tuple[str, ...], item: Any, reason: str) -> None:
        name = ".".join(map(_quoted, path))
        self._texts[name], self._reasons[name] = self._text_of(item), reason

    def text(self) -> str | None:
        """One JSON object; None if all fits."""
        if not self._texts:
            return None
        parts = [f"{_said(name)}: {text}" for name, text in self._texts.items()]
        return "{" + ", ".join([*parts, f"{_said(REASONS)}: {_said(self._reasons)}"]) + "}"


def spellings_pattern(fields: Sequence[pa.Field]) -> tuple[str, str]:
    """Return patterns of bodies that may have another spelling of a column's name: without an escape in it, and with
    one."""
    names = sorted(set(_names_of(fields)))
    others = [other for name in names if (other := _other_spellings(name))]
    plain_names = f'"(?:{"|".join(others)})"{_SPACE}:' if others else ""
    is_plain = all(name.isascii() and name.isprintable() and not set(name) & set('"\\/') for name in names)
    escape = r"\\u00[4-7]" if is_plain else r"\\"
    return plain_names, f'"[^"\\\\]*(?:\\\\[^u][^"\\\\]*|\\\\u[^"\\\\]*)*{escape}(?:[^"\\\\]|\\\\.)*"{_SPACE}:'


class Names:
    """The names of columns, for finding other spellings of them in decoded objects."""

    def __init__(self, fields: Sequence[pa.Field]) -> None:
        self._names = {field.name for field in fields}
        self._folded = {folded(name) for name in self._names}
        self._inner = [(field.name, Names(list(field.type))) for field in fields if pa.types.is_struct(field.type)]

    def are_other_in(self, value: Mapping[Any, Any]) -> bool:
        """True if an object, or one in it, has a name that differs from a column's only in case."""
        if not value.keys() <= self._names:
            unknown = (name for name in value if name not in self._names and isinstance(name, str))
            if any(folded(name) in self._folded for name in unknown):
                return True
        return any(
            inner.are_other_in(found) for name, inner in self._inner if isinstance(found := value.get(name), dict)
        )


def folded(name: str) -> bytes:
    """Return a name without the case of its ASCII letters.  Names that are equal so cannot be two columns."""
    return name.encode(errors="surrogatepass").lower()


def plain(value: Any) -> Any:
    """Return structs of msgspec as dictionaries, and maps as pairs."""
    if isinstance(value, msgspec.Struct):
        names = zip(value.__struct_encode_fields__, value.__struct_fields__, strict=True)
        return {name: plain(getattr(value, attribute)) for name, attribute in names}
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return [(name, plain(item)) for name, item in value.items()]
    return value


def _names_of(fields: Sequence[pa.Field]) -> Iterator[str]:
    for field in fields:
        yield field.name
        if pa.types.is_struct(field.type):
            yield from _names_of(list(field.type))


def _other_spellings(name: str) -> str:
    """A pattern of the spellings of a name that are not its own: they differ in one letter, then in any."""
    pattern = ""
    for at in reversed(range(len(name))):
        letter, rest = name[at], name[at + 1 :]
        ways = [re.escape(letter) + pattern] if pattern else []
        if letter.isascii() and letter.isalpha():
            ways.append(letter.swapcase() + (f"(?i:{re.escape(rest)})" if rest else ""))
        pattern = f"(?:{'|'.join(ways)})" if ways else ""
    return pattern


def _object_in(item: Any) -> dict[Any, Any] | None:
    if isinstance(item, msgspec.Raw):
        return _names(item) if bytes(item).startswith(b"{") else None
    return item if isinstance(item, dict) else None


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`" if name == REASONS or "." in name or "`" in name else name


def _said(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _bounded(pieces: Iterator[str]) -> Iterator[str]:
    """Pieces of a text: CBOR's values may hold themselves, or each other many times."""
    left = MAX_BYTES
    for piece in pieces:
        left -= len(piece)
        if left < 0:
            raise ValueError(f"a value that does not fit is longer than {MAX_BYTES} characters")
        yield piece


def _pieces(value: Any) -> Iterator[str]:
    """A value of CBOR as JSON: what JSON has no word for is a text."""
    if isinstance(value, dict):
        for at, (name, item) in enumerate(value.items()):
            yield f"{', ' if at else '{'}{_said(name if isinstance(name, str) else printable(str(name)))}: "
            yield from _pieces(item)
        yield "}" if value else "{}"
    elif isinstance(value, list):
        for at, item in enumerate(value):
            yield ", " if at else "["
            yield from _pieces(item)
        yield "]" if value else "[]"
    elif value is None or isinstance(value, str | bool | int) or (isinstance(value, float) and value - value == 0):
        yield _said(value)
    elif isinstance(value, bytes):
        yield _said(value.hex())
    else:
        yield _said(printable(str(value)))
