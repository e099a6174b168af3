"""Requests under way over a link: calls that wait for their answer, streams, and the error of a lost one."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from entrepot.domain.errors import Code, EntrepotError
from entrepot.protocols.remoting.operations import Operation

OnAnswer = Callable[[EntrepotError | None, bytes], None]
OnLate = Callable[[bytes], None]
"""Handler of an answer for which nobody waits any more."""


class ConnectionLostError(EntrepotError):
    """No connection, or one lost before the request left: the request was not done."""

    def __init__(self, message: str) -> None:
        super().__init__(Code.UNAVAILABLE, message)


@dataclass(frozen=True, slots=True)
class LinkSettings:
    """Settings of a connection. A peer silent for `silence_seconds`, pings included, is taken for gone. `tls`: None is
    plain TCP."""

    who: str = "client"
    cluster: str = ""
    tls: ssl.SSLContext | None = None
    connect_seconds: float = 3.0
    ping_seconds: float = 1.0
    silence_seconds: float = 5.0
    backoff_seconds: tuple[float, float] = (0.05, 2.0)


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
