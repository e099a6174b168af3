"""The channel between a broker and its uploader: the uploader asks, the broker answers, in turn.

Frames: u32 length, then msgpack. The first one is the broker's, with the settings. A question is (name, arguments); an
answer is (value, refusal).
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable
from typing import Any, Final

import msgspec

from entrepot.broker.settings.tier import Payload
from entrepot.broker.tiered.fence import Writer
from entrepot.broker.tiered.source import Begun, Progress, TopicState
from entrepot.domain.errors import Code, EntrepotError

MAX_FRAME_BYTES: Final = 64 << 20
"""Most bytes of one frame."""
LENGTH: Final = struct.Struct(">I")
STATES, RECORDS, HEAL, BEGINS, TOLD = "states", "records", "heal", "begins", "told"
encode = msgspec.msgpack.Encoder().encode
_decode_states: Final = msgspec.msgpack.Decoder(tuple[list[TopicState], str]).decode
_decode_records: Final = msgspec.msgpack.Decoder(tuple[bytes, str]).decode
_decode_healed: Final = msgspec.msgpack.Decoder(tuple[bool | None, str]).decode
_decode_nothing: Final = msgspec.msgpack.Decoder(tuple[None, str]).decode


class Setup(msgspec.Struct, frozen=True):
    """Settings of an uploader; `options` by the names of `StoreOptions`."""

    url: str
    options: dict[str, Any]
    number: int
    writer: Writer
    segment_bytes: int
    max_age_seconds: float
    requests_per_hour: int
    vacuum_grace_seconds: float
    payload: Payload
    iceberg: bool
    seed: int
    token: str = ""
    cluster: bool = True


def frame(value: Any) -> tuple[bytes, bytes]:
    """Return its length, and the frame: megabytes of records are not copied once more."""
    data = encode(value)
    return LENGTH.pack(len(data)), data


class BrokerChannel:
    """The uploader's end. Raises EOFError where the broker has ended. `failed`: number of its failed requests to the
    object store so far."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._rounds = 0
        self.failed: Callable[[], int] = lambda: 0

    def setup(self) -> Setup:
        return msgspec.msgpack.decode(self._receive(), type=Setup)

    def states(self) -> list[TopicState]:
        found: list[TopicState] = self._answer(_decode_states, STATES, self.failed(), self._rounds)
        self._rounds += 1
        return found

    def records(self, topic: str, queue_id: int, first: int, end: int, max_bytes: int) -> bytes:
        found: bytes = self._answer(_decode_records, RECORDS, topic, queue_id, first, end, max_bytes)
        return found

    def heal(self, commit_log_offset: int) -> bool | None:
        found: bool | None = self._answer(_decode_healed, HEAL, commit_log_offset)
        return found

    def begins(self, begun: Begun) -> None:
        self._answer(_decode_nothing, BEGINS, begun)

    def told(self, progress: Progress) -> None:
        self._answer(_decode_nothing, TOLD, progress)

    def _answer(self, decode: Any, name: str, *arguments: Any) -> Any:
        try:
            self._channel.sendall(b"".join(frame((name, arguments))))
            value, refusal = decode(self._receive())
        except ConnectionError:
            raise EOFError from None
        if refusal:
            raise EntrepotError(Code.UNAVAILABLE, refusal)
        return value

    def _receive(self) -> bytes:
        (length,) = LENGTH.unpack(self._exactly(LENGTH.size))
        return self._exactly(length)

    def _exactly(self, size: int) -> bytes:
        parts = bytearray()
        while len(parts) < size:
            part = self._channel.recv(min(size - len(parts), 1 << 20))
            if not part:
                raise EOFError
            parts += part
        return bytes(parts)
