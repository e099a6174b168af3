"""Frames of a connection between our own processes.

Every frame (big-endian):

    offset  size
    0       4     length of the payload
    4       1     kind (`FrameKind`)
    5       1     0
    6       2     operation (of a request)
    8       4     id of the request it belongs to, chosen by the client, never 0; 0 without a request
    12      4     amount: of a request, milliseconds until its deadline, or the credit of its stream;
                  of CREDIT, further bytes; of REFUSAL, the code
    16            payload

A connection begins with HELLO from the client and WELCOME from the server (msgpack of `Hello` and `Welcome`).  The
version is the highest that both know.  Where the cluster has a secret, CHALLENGE and PROOF are between the two
(`authentication`).  Without a common version, or at a breach of the rules, GOODBYE gives the reason as text, and the
connection ends.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

import msgspec

from entrepot.domain.errors import Code, EntrepotError

VERSION: Final = 1
HEADER: Final = struct.Struct(">IBxHII")
HEADER_SIZE: Final = HEADER.size
MAX_PAYLOAD_BYTES: Final = 160 << 20
"""Limit of a frame: a read of 16 MiB that ends with the largest message (128 MiB), and room."""
USUAL_MAX_PAYLOAD_BYTES: Final = 48 << 20
"""Limit of a peer that does not tell its own: versions before large messages."""
MAX_GREETING_BYTES: Final = 4096
"""Limit of a frame before both ends have greeted."""


class FrameKind(IntEnum):
    HELLO = 1
    WELCOME = 2
    REQUEST = 3
    ANSWER = 4
    REFUSAL = 5
    CANCEL = 6  # by the client: no answer, or no further items, wanted
    ITEM = 7  # an item of a stream
    CREDIT = 8  # by the client: further bytes of a stream allowed
    PING = 9
    PONG = 10
    GOODBYE = 11
    CHALLENGE = 12  # by the server, between HELLO and WELCOME
    PROOF = 13  # by the client, its answer


class Hello(msgspec.Struct, array_like=True):
    """The client's name and its versions of the wire.  `cluster` keeps deployments on one network apart.  `role`,
    `nonce`: of a client that has the cluster's secret.  `max_payload_bytes`: limit of the frames that it takes."""

    versions: list[int]
    who: str
    cluster: str = ""
    role: str = ""
    nonce: bytes = b""
    max_payload_bytes: int = USUAL_MAX_PAYLOAD_BYTES


class Welcome(msgspec.Struct, array_like=True):
    """The chosen version, and the credit: bytes of requests that may be unanswered at a time.  `max_payload_bytes`:
    limit of the frames that the server takes."""

    version: int
    who: str
    window_bytes: int
    cluster: str = ""
    max_payload_bytes: int = USUAL_MAX_PAYLOAD_BYTES


@dataclass(slots=True)
class Frame:
    """One frame, as read."""

    kind: int
    operation: int
    id: int
    amount: int
    payload: bytes


class RemotingError(Exception):
    """The peer broke the rules of the wire, or shares no version with us: the connection must end."""


class PeerLeftError(RemotingError):
    """The peer said goodbye."""


def too_large(size: int, limit: int) -> EntrepotError:
    """Return the refusal of a payload beyond a frame, which would end the connection for all its users."""
    return EntrepotError(Code.MESSAGE_BODY_TOO_LARGE, f"{size} bytes for one frame, the limit is {limit}")


class FrameReader:
    """A reader that cuts received bytes into frames."""

    def __init__(self, max_payload_bytes: int) -> None:
        self.max_payload_bytes = max_payload_bytes
        self._rest = bytearray()
        self._wanted = HEADER_SIZE
        """Bytes of `_rest` that make the next frame, as far as its header is known."""

    def read(self, data: bytes) -> list[Frame]:
        """Return the frames completed by the data.  Raises RemotingError for one that is too large or of unknown
        kind."""
        if not self._rest:
            frames, at = self._cut(data)
            if at < len(data):
                self._rest += data[at:] if at else data
            return frames
        self._rest += data
        if len(self._rest) < self._wanted:
            return []  # part of a large frame
        with memoryview(self._rest) as view:
            frames, at = self._cut(view)
        del self._rest[:at]
        return frames

    def _cut(self, source: bytes | memoryview) -> tuple[list[Frame], int]:
        """Return the whole frames, and the start of the first incomplete one."""
        frames: list[Frame] = []
        at, end, self._wanted = 0, len(source), HEADER_SIZE
        while end - at >= HEADER_SIZE:
            length, kind, operation, id_, amount = HEADER.unpack_from(source, at)
            if length > self.max_payload_bytes:
                raise RemotingError(f"a frame of {length} bytes, the limit is {self.max_payload_bytes}")
            if not FrameKind.HELLO <= kind <= FrameKind.PROOF:
                raise RemotingError(f"a frame of unknown kind {kind}")
            body = at + HEADER_SIZE
            if body + length > end:
                self._wanted = HEADER_SIZE + length
                break
            at = body + length
            frames.append(Frame(kind, operation, id_, amount, bytes(source[body:at])))
        return frames, at


def frame_parts(kind: int, id_: int, payload: bytes, *, operation: int = 0, amount: int = 0) -> tuple[bytes, bytes]:
    """Return the bytes of a frame in two parts: a large payload is not copied."""
    return HEADER.pack(len(payload), kind, operation, id_, min(amount, 0xFFFFFFFF)), payload


def frame(kind: int, id_: int = 0, payload: bytes = b"", *, operation: int = 0, amount: int = 0) -> bytes:
    """Return the bytes of a frame."""
    return HEADER.pack(len(payload), kind, operation, id_, min(amount, 0xFFFFFFFF)) + payload
