"""A client of RocketMQ's remoting protocol, as far as tests need it: what a cluster's operator asks and makes."""

from __future__ import annotations

import itertools
import json
import socket
import struct
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self

from tests.support.waiting import PATIENCE_SECONDS

PUT_TOPIC: Final = 17
"""UPDATE_AND_CREATE_TOPIC"""
RUNTIME_INFO: Final = 28
CLUSTER_INFO: Final = 106
PUT_GROUP: Final = 200
"""UPDATE_AND_CREATE_SUBSCRIPTIONGROUP"""
TOPIC_STATS: Final = 202
SUCCESS: Final = 0
_VERSION: Final = 513
"""RocketMQ 5.5.0, as its programs number versions."""
_LENGTHS: Final = struct.Struct(">II")
_SIZE_OF_HEADER: Final = 0xFFFFFF
"""The first byte of that word names the way in which the header is written: 0 for JSON."""


@dataclass(frozen=True)
class Answer:
    code: int
    remark: str
    fields: dict[str, str]
    body: bytes

    def content(self) -> Any:
        return read_json(self.body.decode())


class RemotingError(Exception):
    """An answer that is no success."""


class RemotingClient:
    """A connection to a name server or broker: one question after the other."""

    def __init__(self, port: int) -> None:
        self._numbers = itertools.count(1)
        self._socket = socket.create_connection(("127.0.0.1", port), PATIENCE_SECONDS)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()

    def ask(self, code: int, fields: dict[str, Any] | None = None, body: bytes = b"") -> Answer:
        """The answer to a question.  Raises RemotingError for one that is no success."""
        number = next(self._numbers)
        header = {"code": code, "language": "PYTHON", "version": _VERSION, "opaque": number, "flag": 0}
        header["extFields"] = {name: _text(value) for name, value in (fields or {}).items()}
        encoded = json.dumps(header).encode()
        self._socket.sendall(_LENGTHS.pack(4 + len(encoded) + len(body), len(encoded)) + encoded + body)
        while True:
            found, answer = self._read()
            if found == number:
                break
        if answer.code != SUCCESS:
            raise RemotingError(f"{code} is answered {answer.code}: {answer.remark}")
        return answer

    def _read(self) -> tuple[int, Answer]:
        """The next frame: its number, and what it says."""
        size, header_size = _LENGTHS.unpack(self._exactly(_LENGTHS.size))
        header_size &= _SIZE_OF_HEADER
        rest = self._exactly(size - 4)
        header = json.loads(rest[:header_size])
        answer = Answer(header["code"], header.get("remark") or "", header.get("extFields") or {}, rest[header_size:])
        return header["opaque"], answer

    def _exactly(self, size: int) -> bytes:
        found = b""
        while len(found) < size:
            some = self._socket.recv(size - len(found))
            if not some:
                raise ConnectionError("the connection ended within a frame")
            found += some
        return found


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def read_json(text: str) -> Any:
    """The value of RocketMQ's JSON, whose keys may be plain numbers, and objects: a map of these is a list of pairs."""
    value, _ = _value(text, _next(text, 0))
    return value


def _value(text: str, at: int) -> tuple[Any, int]:
    """The value that begins at a place, and the place behind it."""
    if text[at] not in "{[":
        return json.JSONDecoder().raw_decode(text, at)
    closing = "}" if text[at] == "{" else "]"
    parts: list[Any] = []
    at = _next(text, at + 1)
    while text[at] != closing:
        part, at = _value(text, at)
        parts.append(part)
        at = _next(text, at)
        if text[at] in ",:":
            at = _next(text, at + 1)
    if closing == "]":
        return parts, at + 1
    pairs = list(zip(parts[::2], parts[1::2], strict=True))
    if any(isinstance(key, dict) for key, _ in pairs):
        return pairs, at + 1
    return {str(key): value for key, value in pairs}, at + 1


def _next(text: str, at: int) -> int:
    """The place of the next character that is no blank."""
    while text[at].isspace():
        at += 1
    return at
