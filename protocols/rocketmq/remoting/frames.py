"""Frames of RocketMQ's remoting protocol (`RemotingCommand`): a header of names and values, and a body of bytes.

    length (4)      bytes that follow, big-endian
    header word (4) way of the header (1 byte: 0 JSON, 1 binary), its length (3 bytes)
    header, body

An answer has the number (`opaque`) of its request, and nothing else ties them.  Both ends ask: a request from the other
side may have a number of ours.  A request that is one-way gets no answer.  Headers are written as JSON: the binary form
holds codes of 16 bits, and pop has greater ones.  Both forms are read, since a server answers in its own.

ADR 84: a cluster by its own wire.  Invariant: a frame that is not read whole is held, and nothing else is.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from entrepot.domain.errors import Code as Outcome
from entrepot.domain.errors import EntrepotError

MAX_FRAME_BYTES: Final = 16 << 20
"""Longest frame, as RocketMQ's programs take it (`frameMaxLength`)."""
MAX_HEADER_BYTES: Final = 1 << 20
"""Longest header that is read."""
MAX_FIELDS: Final = 1024
"""Most fields of a header that is read."""
VERSION: Final = 513
"""RocketMQ 5.5.0, as its programs number versions (`MQVersion`)."""
LANGUAGE: Final = "PYTHON"
SUCCESS: Final = 0

_JSON, _BINARY = 0, 1
_IS_ANSWER, _IS_ONE_WAY = 1, 2
_START: Final = struct.Struct(">II")
_LENGTH_BITS: Final = 24
_LENGTH_MASK: Final = (1 << _LENGTH_BITS) - 1
_LENGTH_SIZE: Final = 4
_BINARY_HEAD: Final = struct.Struct(">hBhiiI")
"""Code, language, version, number, flag, and the length of the remark."""
_LANGUAGES: Final = (
    *("JAVA", "CPP", "DOTNET", "PYTHON", "DELPHI", "ERLANG", "RUBY", "OTHER"),
    *("HTTP", "GO", "PHP", "OMS", "RUST", "NODE_JS"),
)
_INT32: Final = range(-(1 << 31), 1 << 31)


class FrameError(EntrepotError):
    """Bytes that cannot be frames: the connection cannot be read further."""

    def __init__(self, message: str) -> None:
        super().__init__(Outcome.UNAVAILABLE, f"not RocketMQ's remoting protocol: {message}")


@dataclass(slots=True)
class Frame:
    """A request or an answer.  `code`: of the request, or of the outcome (0: success).  `number`: RocketMQ's opaque.
    `fields`: the header's own names and values (`extFields`).  `remark`: the reason of a refusal, in words."""

    code: int
    number: int = 0
    fields: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    is_answer: bool = False
    is_one_way: bool = False
    remark: str = ""
    version: int = VERSION
    language: str = LANGUAGE


def encode(frame: Frame) -> bytes:
    """Return the bytes of a frame.  Raises FrameError for one that is too long."""
    header: dict[str, Any] = {
        "code": frame.code,
        "language": frame.language,
        "version": frame.version,
        "opaque": frame.number,
        "flag": frame.is_answer * _IS_ANSWER + frame.is_one_way * _IS_ONE_WAY,
        "serializeTypeCurrentRPC": "JSON",
        "extFields": frame.fields,
    }
    if frame.remark:
        header["remark"] = frame.remark
    try:
        encoded = orjson.dumps(header)
    except TypeError as error:  # a text that is not valid Unicode
        raise EntrepotError(Outcome.BAD_REQUEST, f"a field of a request cannot be sent: {error}") from error
    size = _LENGTH_SIZE + len(encoded) + len(frame.body)
    if _LENGTH_SIZE + size > MAX_FRAME_BYTES:
        raise FrameError(f"a frame has at most {MAX_FRAME_BYTES} bytes, this one {_LENGTH_SIZE + size}")
    return b"".join((_START.pack(size, _JSON << _LENGTH_BITS | len(encoded)), encoded, frame.body))


class FrameReader:
    """Frames out of received bytes, in whatever pieces these come.  It holds at most one unfinished frame."""

    def __init__(self, max_bytes: int = MAX_FRAME_BYTES) -> None:
        self._max_bytes = max_bytes
        self._held = bytearray()

    @property
    def held(self) -> int:
        """Bytes of the unfinished frame."""
        return len(self._held)

    def receive(self, data: bytes) -> list[Frame]:
        """Return the frames that these bytes end.  Raises FrameError; nothing can be read after that."""
        held = self._held
        held += data
        found: list[Frame] = []
        at = 0
        while len(held) - at >= _START.size:
            size, word = _START.unpack_from(held, at)
            end = at + _LENGTH_SIZE + size
            if end - at > self._max_bytes:
                raise FrameError(f"a frame of {end - at} bytes")
            header_size = word & _LENGTH_MASK
            if header_size > min(size - _LENGTH_SIZE, MAX_HEADER_BYTES):
                raise FrameError(f"a header of {header_size} bytes in a frame of {size}")
            if len(held) < end:
                break
            head = at + _START.size
            header = bytes(held[head : head + header_size])
            found.append(_decoded(word >> _LENGTH_BITS, header, bytes(held[head + header_size : end])))
            at = end
        del held[:at]
        return found


def _decoded(way: int, header: bytes, body: bytes) -> Frame:
    try:
        if way == _JSON:
            return _of_json(header, body)
        if way == _BINARY:
            return _of_binary(header, body)
    except (ValueError, KeyError, TypeError, struct.error, IndexError) as error:
        raise FrameError(f"a header that cannot be read: {error}") from error
    raise FrameError(f"a header written in way {way}")


def _of_json(header: bytes, body: bytes) -> Frame:
    told = orjson.loads(header)
    if not isinstance(told, dict):
        raise ValueError("no object")
    fields = told.get("extFields") or {}
    if not isinstance(fields, dict) or len(fields) > MAX_FIELDS:
        raise ValueError("fields that are none, or too many")
    flag = _whole(told.get("flag", 0))
    return Frame(
        _whole(told["code"]),
        _whole(told["opaque"]),
        {
            name: value if isinstance(value, str) else _text(value)
            for name, value in fields.items()
            if value is not None
        },
        body,
        bool(flag & _IS_ANSWER),
        bool(flag & _IS_ONE_WAY),
        str(told.get("remark") or ""),
        _whole(told.get("version", 0)),
        str(told.get("language") or ""),
    )


def _whole(value: object) -> int:
    if not isinstance(value, int) or value not in _INT32:
        raise ValueError(f"{str(value)[:40]!r} is not a number of 32 bits")
    return int(value)


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _of_binary(header: bytes, body: bytes) -> Frame:
    """Read the binary form (`RocketMQSerializable`)."""
    code, language, version, number, flag, size = _BINARY_HEAD.unpack_from(header)
    at = _BINARY_HEAD.size
    remark = _sized(header, at, size)
    at += size
    (size,) = struct.unpack_from(">I", header, at)
    at += 4
    if at + size != len(header):
        raise ValueError("fields that end elsewhere")
    fields: dict[str, str] = {}
    while at < len(header):
        (length,) = struct.unpack_from(">H", header, at)
        name = _sized(header, at + 2, length)
        at += 2 + length
        (length,) = struct.unpack_from(">I", header, at)
        fields[name] = _sized(header, at + 4, length)
        at += 4 + length
        if len(fields) > MAX_FIELDS:
            raise ValueError("too many fields")
    spoken = _LANGUAGES[language] if language < len(_LANGUAGES) else "OTHER"
    return Frame(code, number, fields, body, bool(flag & _IS_ANSWER), bool(flag & _IS_ONE_WAY), remark, version, spoken)


def _sized(header: bytes, at: int, size: int) -> str:
    if at + size > len(header):
        raise ValueError("a text that is cut off")
    return header[at : at + size].decode()
