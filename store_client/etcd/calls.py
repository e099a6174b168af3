"""Calls of etcd's services, and the gRPC channel to one member.  gRPC repeats nothing here: it cannot know whether a
broken call was carried out."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Generic, Protocol, Self, TypeVar

import grpc
import grpc.aio

from entrepot.protocols.etcd import rpc_pb2 as pb

KEEPALIVE_MS: Final = 10_000
"""Interval of pings; etcd refuses those below 5 s."""
KEEPALIVE_ANSWER_MS: Final = 3_000
FIRST_RECONNECT_MS: Final = 100
LAST_RECONNECT_MS: Final = 1_000
CONNECT_MS: Final = 2_000
"""Time for an attempt to connect, which gRPC calls the shortest backoff: within that of a call, which is then certainly
not done."""
_OPTIONS: Final = (
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", -1),
    ("grpc.keepalive_time_ms", KEEPALIVE_MS),
    ("grpc.keepalive_timeout_ms", KEEPALIVE_ANSWER_MS),
    ("grpc.initial_reconnect_backoff_ms", FIRST_RECONNECT_MS),
    ("grpc.min_reconnect_backoff_ms", CONNECT_MS),
    ("grpc.max_reconnect_backoff_ms", LAST_RECONNECT_MS),
    ("grpc.enable_retries", 0),
    ("grpc.use_local_subchannel_pool", 1),
)
LEADER: Final = ("hasleader", "true")
"""Metadata of each call: a member without a leader refuses at once, and ends its watches."""

Metadata = tuple[tuple[str, str], ...]


class Wire(Protocol):
    """A message of the protocol."""

    def SerializeToString(self) -> bytes: ...

    @classmethod
    def FromString(cls, s: bytes) -> Self: ...


Q = TypeVar("Q", bound=Wire)
A = TypeVar("A", bound=Wire)


@dataclass(frozen=True, slots=True)
class Call(Generic[Q, A]):
    """A call of a service: the types of its question and answer."""

    name: str
    question: type[Q]
    answer: type[A]


RANGE: Final = Call("etcdserverpb.KV/Range", pb.RangeRequest, pb.RangeResponse)
TRANSACTION: Final = Call("etcdserverpb.KV/Txn", pb.TxnRequest, pb.TxnResponse)
AUTHENTICATE: Final = Call("etcdserverpb.Auth/Authenticate", pb.AuthenticateRequest, pb.AuthenticateResponse)
STATUS: Final = Call("etcdserverpb.Maintenance/Status", pb.StatusRequest, pb.StatusResponse)

WatchStream = Any
"""grpc.aio's call of a stream both ways; its stubs leave the type open."""


class Broken(Exception):
    """A call that failed: gRPC's status and the text with it."""

    def __init__(self, status: grpc.StatusCode, text: str) -> None:
        super().__init__(text)
        self.status, self.text = status, text


class Member:
    """One member, by its address, and the channel to it."""

    def __init__(self, address: str, credentials: grpc.ChannelCredentials | None) -> None:
        self.address = address
        if credentials is None:
            self._channel = grpc.aio.insecure_channel(address, options=_OPTIONS)
        else:
            self._channel = grpc.aio.secure_channel(address, credentials, options=_OPTIONS)

    async def ask(self, call: Call[Q, A], question: Q, seconds: float, token: str) -> A:
        """Return the answer of a call.  Raises Broken."""
        method = self._channel.unary_unary(f"/{call.name}", call.question.SerializeToString, call.answer.FromString)
        try:
            answer: A = await method(question, timeout=seconds, metadata=_metadata(token))
            return answer
        except grpc.RpcError as error:
            raise broken(error) from None
        except asyncio.CancelledError:
            if _is_cancelled():
                raise
            raise Broken(grpc.StatusCode.CANCELLED, "the channel was closed") from None

    def watch(self, token: str) -> WatchStream:
        """Open a stream of watches; it raises gRPC's own errors."""
        method = self._channel.stream_stream(
            "/etcdserverpb.Watch/Watch", pb.WatchRequest.SerializeToString, pb.WatchResponse.FromString
        )
        return method(None, metadata=_metadata(token))  # None: requests are written one by one

    async def close(self) -> None:
        with suppress(grpc.RpcError):
            await self._channel.close(None)


def broken(error: grpc.RpcError) -> Broken:
    """Return gRPC's error as status and text."""
    if isinstance(error, grpc.aio.AioRpcError):
        return Broken(error.code(), error.details() or error.code().name)
    return Broken(grpc.StatusCode.UNKNOWN, str(error))


def _metadata(token: str) -> Metadata:
    return (LEADER, ("token", token)) if token else (LEADER,)


def _is_cancelled() -> bool:
    """True if this task is to end; gRPC raises the same for a call that another one cancels."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0
