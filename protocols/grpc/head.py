"""CallHead: a call by the head of its request."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from entrepot.protocols.grpc.messages import ENCODINGS, IDENTITY
from entrepot.protocols.grpc.status import Status
from entrepot.protocols.http2.request import RequestHead

MAX_TIMEOUT_DIGITS: Final = 8
_UNITS: Final = {b"H": 3600.0, b"M": 60.0, b"S": 1.0, b"m": 1e-3, b"u": 1e-6, b"n": 1e-9}


class NotGrpcError(Exception):
    """The request is not one of gRPC: `status` is HTTP's answer."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status, self.text = status, text


class CallRefusedError(Exception):
    """The call cannot be made: `status` is gRPC's."""

    def __init__(self, status: Status, text: str) -> None:
        super().__init__(text)
        self.status, self.text = status, text


class CallHead(NamedTuple):
    """`path` names the method; `timeout` is in seconds, or infinity; `encoding`: of compressed messages."""

    path: bytes
    timeout: float
    encoding: bytes


def call_head(head: RequestHead) -> CallHead:
    """Return the call.  Raises NotGrpcError, CallRefusedError."""
    fields = head.fields
    if head.method != b"POST":
        raise NotGrpcError(405, "this port speaks gRPC, whose requests are POST\n")
    if not fields.get(b"content-type", b"").startswith(b"application/grpc"):
        raise NotGrpcError(415, "this port speaks gRPC: the content type is application/grpc\n")
    encoding = fields.get(b"grpc-encoding", IDENTITY)
    if encoding not in ENCODINGS:
        names = ", ".join(each.decode() for each in ENCODINGS)
        raise CallRefusedError(Status.UNIMPLEMENTED, f"messages are compressed in a way other than: {names}")
    return CallHead(head.path, _timeout(fields.get(b"grpc-timeout")), encoding)


def _timeout(text: bytes | None) -> float:
    if text is None:
        return math.inf
    unit, digits = _UNITS.get(text[-1:]), text[:-1]
    if unit is None or not digits.isdigit() or len(digits) > MAX_TIMEOUT_DIGITS:
        raise CallRefusedError(Status.INVALID_ARGUMENT, "grpc-timeout is not up to 8 digits and a unit")
    return int(digits) * unit
