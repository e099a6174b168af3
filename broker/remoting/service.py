"""Service: the operations that a process answers: calls (coroutines), streams, and direct ones that answer by
themselves."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from entrepot.protocols.wire.connection import Requested
from entrepot.protocols.wire.operation import Operation
from entrepot.protocols.wire.row import Row

Call = Callable[..., Awaitable[Any]]
OpenStream = Callable[..., object]
Direct = Callable[[Any, Requested], None]
"""Gets the channel (`listener.ServerChannel`) and the request."""


@dataclass(slots=True, eq=False)
class Service:
    """The operations of this process.

    `calls`: get the arguments, return the result (bytes are sent as they are). `streams`: get the stream, then the
    arguments. `direct`: get the channel and the request, and call `channel.answer` or `refuse` at any time.
    """

    calls: dict[Operation, Call] = field(default_factory=dict)
    streams: dict[Operation, OpenStream] = field(default_factory=dict)
    direct: dict[Operation, Direct] = field(default_factory=dict)
    on_closed: Callable[[Any], None] = lambda channel: None

    def serve(self, port: object, rows: Iterable[Row[..., Any]]) -> None:
        """Answer rows of a port by its methods."""
        for row in rows:
            self.calls[row] = row.served_by(getattr(port, row.method))

    def add(self, other: Service) -> None:
        """Add the operations of another service."""
        self.calls.update(other.calls)
        self.streams.update(other.streams)
        self.direct.update(other.direct)

    def withdraw(self, other: Service) -> None:
        """Withdraw the operations of another service."""
        for operation in (*other.calls, *other.streams, *other.direct):
            self.calls.pop(operation, None)
            self.streams.pop(operation, None)
            self.direct.pop(operation, None)
