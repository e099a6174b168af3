"""ContentHeader: the properties of a message (4.2.6.1), kept as the publisher's bytes.

`data` is flags and property list, without class and body size, which belong to the frame.  It goes from publisher to
consumer untouched; single properties are decoded on access.  A header from a client was checked once
(`received_header`): its lengths, types and header names are valid, so later access does not raise.

Texts are not checked: any bytes up to 255 pass.  Decoded texts have replacement characters for bytes that are not
UTF-8.
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct
from typing import Any, Final, TypeAlias, TypedDict, Unpack

from entrepot.protocols.amqp.errors import FrameError
from entrepot.protocols.amqp.field_table import (
    FieldTable,
    changed_table,
    check_table,
    decode_table,
    encode_short_string,
    encode_table,
)

BASIC: Final = 60
"""The class with contents."""

TRANSIENT, PERSISTENT = 1, 2
"""Values of `delivery_mode`."""

HEADER_CACHE_ENTRIES: Final = 4096
"""Size of the cache of checked headers, shared by all connections; a full cache is cleared."""

HEADER_CACHE_MAX_BYTES: Final = 128
"""Longest cached header.  Those with a correlation id, message id or timestamp do not recur, and are not cached."""

REPEATED_HEADER_MAX_BYTES: Final = 512
"""Longest header that counts as recurring: longer ones hold something of the one message."""

_U16: Final = Struct(">H")
_U64: Final = Struct(">Q")

_TEXT, _TABLE, _OCTET, _TIMESTAMP = range(4)

_PROPERTIES: Final[tuple[tuple[str, int], ...]] = (
    ("content_type", _TEXT),
    ("content_encoding", _TEXT),
    ("headers", _TABLE),
    ("delivery_mode", _OCTET),
    ("priority", _OCTET),
    ("correlation_id", _TEXT),
    ("reply_to", _TEXT),
    ("expiration", _TEXT),
    ("message_id", _TEXT),
    ("timestamp", _TIMESTAMP),
    ("type", _TEXT),
    ("user_id", _TEXT),
    ("app_id", _TEXT),
    ("cluster_id", _TEXT),
)
"""Properties in the order of their flags, from the highest bit down."""

_FLAGS: Final = {name: 0x8000 >> at for at, (name, _) in enumerate(_PROPERTIES)}
_NO_PROPERTY: Final = 0x0003
"""Flag bits without a property: they announce another word of flags, which basic never has."""


class PropertyValues(TypedDict, total=False):
    """Properties by name; None removes one."""

    content_type: str | None
    content_encoding: str | None
    headers: FieldTable | None
    delivery_mode: int | None
    priority: int | None
    correlation_id: str | None
    reply_to: str | None
    expiration: str | None
    message_id: str | None
    timestamp: int | None
    type: str | None
    user_id: str | None
    app_id: str | None
    cluster_id: str | None


class _Property:
    """A property of a header, read at each access; its name is that of the attribute."""

    __slots__ = ("_flag",)

    def __set_name__(self, owner: type[ContentHeader], name: str) -> None:
        self._flag = _FLAGS[name]


class _Text(_Property):
    __slots__ = ()

    def __get__(self, header: ContentHeader, owner: type[ContentHeader]) -> str | None:
        place = header._place(self._flag)
        return None if place is None else header.data[place[0] + 1 : place[1]].decode("utf-8", "replace")


class _Octet(_Property):
    __slots__ = ()

    def __get__(self, header: ContentHeader, owner: type[ContentHeader]) -> int | None:
        place = header._place(self._flag)
        return None if place is None else header.data[place[0]]


class ContentHeader:
    """The properties of a message (see the module).  Equal by bytes.  Many messages may share one: treat it as
    immutable."""

    __slots__ = ("_headers", "_starts", "data")

    def __init__(self, data: bytes = b"\0\0") -> None:
        self.data = data
        self._starts: list[int] | None = None
        self._headers: FieldTable | None = None

    @classmethod
    def of(cls, **values: Unpack[PropertyValues]) -> ContentHeader:
        """Return a header with these properties.  Raises ValueError for a value that does not fit."""
        return _EMPTY.replaced(**values)

    def replaced(self, **values: Unpack[PropertyValues]) -> ContentHeader:
        """Return the header with these properties replaced, or removed for None; the other bytes are unchanged.

        Headers that are taken over from this header's own keep their bytes, and so their types.
        """
        flags = 0
        out = [b""]
        given: Mapping[str, Any] = values
        for name, kind in _PROPERTIES:
            flag = _FLAGS[name]
            if name in given:
                if given[name] is not None:
                    flags |= flag
                    out.append(self._headers_changed(given[name]) if kind == _TABLE else _encode(kind, given[name]))
            elif (place := self._place(flag)) is not None:
                flags |= flag
                out.append(self.data[place[0] : place[1]])
        out[0] = _U16.pack(flags)
        return ContentHeader(b"".join(out))

    def _headers_changed(self, table: FieldTable) -> bytes:
        place = self._place(_FLAGS["headers"])
        own = self.headers
        return encode_table(table) if place is None or own is None else changed_table(table, own, self.data, *place)

    def values(self) -> PropertyValues:
        """Return every present property, by name."""
        self.check()
        there = _plan_of(self.data)[1]
        return {name: getattr(self, name) for name, flag in _FLAGS.items() if flag in there}  # type: ignore[return-value]

    def check(self) -> None:
        """Raise FrameError for an invalid header."""
        if self._starts is None:
            self._starts = _walk(self.data)

    def _place(self, flag: int) -> tuple[int, int] | None:
        starts = self._starts
        if starts is None:
            starts = self._starts = _walk(self.data)
        at = _plan_of(self.data)[1].get(flag)
        return None if at is None else (starts[at], starts[at + 1])

    @property
    def is_plain(self) -> bool:
        """True without properties that a server reads before routing: headers, reply-to, expiration, user-id."""
        return not (self.data[0] & 0x23 or self.data[1] & 0x10)

    @property
    def has_expiration(self) -> bool:
        """The same as `expiration is not None`, but faster."""
        return self.data[0] & 0x01 != 0

    @property
    def is_told_elsewhere(self) -> bool:
        """True with a property that other protocols know: content type, headers, priority, correlation id, reply-to,
        expiration."""
        return self.data[0] & 0xAF != 0

    @property
    def may_come_again(self) -> bool:
        """False if it belongs to one message or connection, or is too long for the cache.  That is with a correlation
        id, reply-to, expiration, message id, timestamp or user id."""
        data = self.data
        return not (data[0] & 0x07 or data[1] & 0xD0) and len(data) <= REPEATED_HEADER_MAX_BYTES

    def may_have_header(self, name: bytes) -> bool:
        """False if the table of headers lacks that name; the table is not decoded."""
        return self.data[0] & 0x20 != 0 and name in self.data

    content_type = _Text()
    content_encoding = _Text()
    delivery_mode = _Octet()
    """`TRANSIENT` or `PERSISTENT`, or None."""
    priority = _Octet()
    correlation_id = _Text()
    reply_to = _Text()
    expiration = _Text()
    """Milliseconds as text, unchecked."""
    message_id = _Text()
    type = _Text()
    user_id = _Text()
    app_id = _Text()
    cluster_id = _Text()

    @property
    def headers(self) -> FieldTable | None:
        """The table of the application's headers, or None.  Decoded once."""
        if self._headers is None:
            place = self._place(0x2000)
            if place is not None:
                self._headers = decode_table(self.data, *place)[0]
        return self._headers

    @property
    def timestamp(self) -> int | None:
        """Seconds since 1970."""
        place = self._place(0x0040)
        return None if place is None else int(_U64.unpack_from(self.data, place[0])[0])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ContentHeader) and self.data == other.data

    def __hash__(self) -> int:
        return hash(self.data)

    def __repr__(self) -> str:
        return f"ContentHeader({self.data!r})"


_EMPTY: Final = ContentHeader()

_checked: Final[dict[bytes, ContentHeader]] = {}


def received_header(data: bytes) -> ContentHeader:
    """Return the checked header of these bytes.  Raises FrameError for invalid ones."""
    header = _checked.get(data)
    if header is None:
        header = ContentHeader(data)
        header.check()
        if len(data) <= HEADER_CACHE_MAX_BYTES and not (data[0] & 0x04 or data[1] & 0xC0):
            if len(_checked) >= HEADER_CACHE_ENTRIES:
                _checked.clear()
            _checked[data] = header
    return header


def _walk(data: bytes) -> list[int]:
    """Return the starts of the present properties, in order, and the end of the last one."""
    end = len(data)
    if end < 2:
        raise FrameError("a content header ends within its flags", BASIC)
    flags = data[0] << 8 | data[1]
    starts = []
    pos = 2
    try:
        for kind in (_plans.get(flags) or _plan(flags))[0]:
            starts.append(pos)
            if kind == _TEXT:
                pos += data[pos] + 1
            elif kind == _TABLE:
                pos = check_table(data, pos, end)
            else:
                pos += 8 if kind == _TIMESTAMP else 1
    except IndexError:
        pos = end + 1
    except FrameError as error:
        raise FrameError(f"malformed headers: {error.text}", BASIC) from None
    if pos != end:
        what = "ends within a property" if pos > end else "has octets after its properties"
        raise FrameError(f"a content header {what}", BASIC)
    starts.append(pos)
    return starts


_Plan: TypeAlias = tuple[tuple[int, ...], dict[int, int]]
"""Types of the present properties, in order, and the place of each among them by its flag."""

_plans: Final[dict[int, _Plan]] = {}


def _plan(flags: int) -> _Plan:
    """Return the plan of flags; cached for each of the 16384 combinations in use."""
    if flags & _NO_PROPERTY:
        raise FrameError("flags that basic has not", BASIC)
    there = [(_FLAGS[name], kind) for name, kind in _PROPERTIES if flags & _FLAGS[name]]
    plan = tuple(kind for _, kind in there), {flag: at for at, (flag, _) in enumerate(there)}
    _plans[flags] = plan
    return plan


def _plan_of(data: bytes) -> _Plan:
    flags = data[0] << 8 | data[1]
    return _plans.get(flags) or _plan(flags)


def _encode(kind: int, value: Any) -> bytes:
    if kind == _TEXT:
        return encode_short_string(value)
    size = 1 if kind == _OCTET else 8
    try:
        return int(value).to_bytes(size, "big")
    except OverflowError:
        raise ValueError(f"{value} does not fit {size} octets") from None
