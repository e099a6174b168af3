"""The calls of the service, and one gRPC channel to make them on.  gRPC reconnects by itself, but cannot know if a
broken call was carried out.  Every transport refusal that leaves this open says "unknown outcome"."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Generic, Protocol, Self, TypeVar

import grpc
import grpc.aio

from entrepot.domain.errors import Code, EntrepotError, raise_if
from entrepot.protocols.rocketmq import v2_pb2 as v2
from entrepot.protocols.rocketmq.errors import refusal_of
from entrepot.protocols.rocketmq.names import Address

SERVICE: Final = "apache.rocketmq.v2.MessagingService"
MAX_FRAME_BYTES: Final = 130 << 20
KEEPALIVE_MS: Final = 30_000
FIRST_RECONNECT_MS: Final = 200
LAST_RECONNECT_MS: Final = 5_000
CONNECT_MS: Final = 3_000
"""Time for an attempt to connect, which gRPC calls the shortest backoff: a far or busy place needs some of it."""
_OPTIONS: Final = (
    ("grpc.max_send_message_length", MAX_FRAME_BYTES),
    ("grpc.max_receive_message_length", MAX_FRAME_BYTES),
    ("grpc.keepalive_time_ms", KEEPALIVE_MS),
    ("grpc.initial_reconnect_backoff_ms", FIRST_RECONNECT_MS),
    ("grpc.min_reconnect_backoff_ms", CONNECT_MS),
    ("grpc.max_reconnect_backoff_ms", LAST_RECONNECT_MS),
    ("grpc.use_local_subchannel_pool", 1),
)

Metadata = tuple[tuple[str, str], ...]


class Wire(Protocol):
    """A message of the protocol."""

    def SerializeToString(self) -> bytes: ...

    @classmethod
    def FromString(cls, s: bytes) -> Self: ...


class Answer(Wire, Protocol):
    """An answer with a status of the call."""

    @property
    def status(self) -> v2.Status: ...


Q = TypeVar("Q", bound=Wire)
A = TypeVar("A", bound=Answer)


@dataclass(frozen=True, slots=True)
class Call(Generic[Q, A]):
    """A call of the service: the types of its question and answer (in two calls a stream of answers)."""

    name: str
    question: type[Q]
    answer: type[A]


QUERY_ROUTE: Final = Call("QueryRoute", v2.QueryRouteRequest, v2.QueryRouteResponse)
HEARTBEAT: Final = Call("Heartbeat", v2.HeartbeatRequest, v2.HeartbeatResponse)
SEND: Final = Call("SendMessage", v2.SendMessageRequest, v2.SendMessageResponse)
RECEIVE: Final = Call("ReceiveMessage", v2.ReceiveMessageRequest, v2.ReceiveMessageResponse)
ACK: Final = Call("AckMessage", v2.AckMessageRequest, v2.AckMessageResponse)
FORWARD_TO_DLQ: Final = Call(
    "ForwardMessageToDeadLetterQueue",
    v2.ForwardMessageToDeadLetterQueueRequest,
    v2.ForwardMessageToDeadLetterQueueResponse,
)
PULL: Final = Call("PullMessage", v2.PullMessageRequest, v2.PullMessageResponse)
UPDATE_OFFSET: Final = Call("UpdateOffset", v2.UpdateOffsetRequest, v2.UpdateOffsetResponse)
GET_OFFSET: Final = Call("GetOffset", v2.GetOffsetRequest, v2.GetOffsetResponse)
QUERY_OFFSET: Final = Call("QueryOffset", v2.QueryOffsetRequest, v2.QueryOffsetResponse)
END_TRANSACTION: Final = Call("EndTransaction", v2.EndTransactionRequest, v2.EndTransactionResponse)
TERMINATION: Final = Call(
    "NotifyClientTermination", v2.NotifyClientTerminationRequest, v2.NotifyClientTerminationResponse
)
CHANGE_INVISIBLE: Final = Call(
    "ChangeInvisibleDuration", v2.ChangeInvisibleDurationRequest, v2.ChangeInvisibleDurationResponse
)
RECALL: Final = Call("RecallMessage", v2.RecallMessageRequest, v2.RecallMessageResponse)

TelemetryStream = Any
"""grpc.aio's call of a stream both ways; its stubs leave the type open."""


class Connection:
    """One channel.  `target` is one broker or proxy, whichever of its addresses answers."""

    def __init__(self, addresses: Sequence[Address], credentials: grpc.ChannelCredentials | None) -> None:
        self.target = _target(addresses)
        if credentials is None:
            self._channel = grpc.aio.insecure_channel(self.target, options=_OPTIONS)
        else:
            self._channel = grpc.aio.secure_channel(self.target, credentials, options=_OPTIONS)

    async def call(self, call: Call[Q, A], question: Q, seconds: float, metadata: Metadata) -> A:
        """Return the answer of a call with a single one.  Raises its refusal, or the transport's failure."""
        method = self._channel.unary_unary(
            f"/{SERVICE}/{call.name}", call.question.SerializeToString, call.answer.FromString
        )
        try:
            answer: A = await method(question, timeout=seconds, metadata=metadata)
        except grpc.RpcError as error:
            raise _transport_refusal(error, call.name, self.target, seconds) from error
        raise_if(refusal_of(answer.status))
        return answer

    async def stream(self, call: Call[Q, A], question: Q, seconds: float, metadata: Metadata) -> AsyncIterator[A]:
        """Yield the answers of a streaming call; the caller reads their statuses.  Raises as `call`."""
        method = self._channel.unary_stream(
            f"/{SERVICE}/{call.name}", call.question.SerializeToString, call.answer.FromString
        )
        try:
            async for answer in method(question, timeout=seconds, metadata=metadata):
                yield answer
        except grpc.RpcError as error:
            raise _transport_refusal(error, call.name, self.target, seconds) from error

    def telemetry(self, metadata: Metadata) -> TelemetryStream:
        """Open the stream of commands both ways; it raises gRPC's own errors."""
        method = self._channel.stream_stream(
            f"/{SERVICE}/Telemetry", v2.TelemetryCommand.SerializeToString, v2.TelemetryCommand.FromString
        )
        return method(None, metadata=metadata)  # None: commands are written one by one

    async def close(self) -> None:
        """Close the channel; calls on it end."""
        with suppress(grpc.RpcError):
            await self._channel.close(None)


def _target(addresses: Sequence[Address]) -> str:
    """Return gRPC's target of addresses: all numeric ones, or the first name (gRPC takes one)."""
    host, port = addresses[0]
    if ":" in host:
        return "ipv6:" + ",".join(f"[{host}]:{port}" for host, port in addresses)
    if host.replace(".", "").isdecimal():
        return "ipv4:" + ",".join(f"{host}:{port}" for host, port in addresses)
    return f"dns:{host}:{port}"


_OF_STATUS: Final = {
    grpc.StatusCode.UNIMPLEMENTED: Code.UNSUPPORTED,
    grpc.StatusCode.UNAUTHENTICATED: Code.UNAUTHORIZED,
    grpc.StatusCode.PERMISSION_DENIED: Code.FORBIDDEN,
    grpc.StatusCode.RESOURCE_EXHAUSTED: Code.TOO_MANY_REQUESTS,
    grpc.StatusCode.INVALID_ARGUMENT: Code.BAD_REQUEST,
}
"""Transport refusals from before the service saw the call.  All others leave the outcome unknown."""


def _transport_refusal(error: grpc.RpcError, name: str, target: str, seconds: float) -> EntrepotError:
    status = error.code() if isinstance(error, grpc.aio.AioRpcError) else grpc.StatusCode.UNKNOWN
    details = (error.details() if isinstance(error, grpc.aio.AioRpcError) else None) or status.name
    if status is grpc.StatusCode.DEADLINE_EXCEEDED:
        return EntrepotError(Code.REQUEST_TIMEOUT, f"{name}: no answer of {target} in {seconds:g} s: unknown outcome")
    code = _OF_STATUS.get(status)
    if code is not None:
        return EntrepotError(code, f"{name}: {target} refuses: {details[:300]}")
    return EntrepotError(Code.UNAVAILABLE, f"{name}: {target} does not answer, unknown outcome: {details[:300]}")
