"""Requests under way over a link: calls that wait for their answer, streams, and the error of a lost one."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from entrepot.broker.remoting.trust import WireTrust
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.route import UNIX
from entrepot.protocols.wire.authentication import NONCE_BYTES, Role
from entrepot.protocols.wire.connection import ClientConnection
from entrepot.protocols.wire.frames import MAX_PAYLOAD_BYTES, VERSION, Hello
from entrepot.protocols.wire.operation import Operation

OnAnswer = Callable[[EntrepotError | None, bytes], None]
OnLate = Callable[[bytes], None]
"""Handler of an answer for which nobody waits any more."""


class ConnectionLostError(EntrepotError):
    """No connection, or one lost before the request left: the request was not done."""

    def __init__(self, message: str) -> None:
        super().__init__(Code.UNAVAILABLE, message)


@dataclass(frozen=True, slots=True)
class LinkSettings:
    """Settings of a connection. A peer silent for `silence_seconds`, pings included, is taken for gone. `role`: of
    the part that connects."""

    who: str = "client"
    cluster: str = ""
    trust: WireTrust = field(default_factory=WireTrust)
    role: Role = Role.GATEWAY
    connect_seconds: float = 3.0
    ping_seconds: float = 1.0
    silence_seconds: float = 5.0
    backoff_seconds: tuple[float, float] = (0.05, 2.0)

    def __post_init__(self) -> None:
        """Raise BAD_REQUEST for a secret that is the key of another role."""
        if self.trust.secret is not None:
            try:
                self.trust.secret.key(self.role)
            except ValueError as error:
                raise EntrepotError(Code.BAD_REQUEST, f"cluster.secret_file: {error}") from None

    def greet(self, address: str, shared: bytes) -> ClientConnection:
        """Return a new connection, which greets. `shared`: what both ends of TLS share. A private socket, of a path,
        asks for no secret."""
        secret = None if address.startswith(UNIX) else self.trust.secret
        role, nonce = ("", b"") if secret is None else (self.role, secrets.token_bytes(NONCE_BYTES))
        hello = Hello([VERSION], self.who, self.cluster, role, nonce, MAX_PAYLOAD_BYTES)
        return ClientConnection(hello, secret, shared, may_be_without=self.trust.is_network_trusted)


@dataclass(slots=True)
class PendingCall:
    operation: Operation
    on_answer: OnAnswer
    on_late: OnLate | None = None
    timer: asyncio.TimerHandle | None = None


class StreamOwner(Protocol):
    """The link of a stream."""

    def close_stream(self, stream: ClientStream) -> None: ...


@dataclass(slots=True, eq=False)
class ClientStream:
    """A stream from the server. `on_end` is called once with the reason, when it ends by itself."""

    link: StreamOwner
    id: int
    on_item: Callable[[bytes], None]
    on_end: Callable[[EntrepotError], None]
    consumed: int = field(default=0)

    def close(self) -> None:
        """Close the stream; nothing is called back after this."""
        self.link.close_stream(self)
