"""ClientRegistry: one gateway's connections by client id."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from entrepot.domain.errors import Code, EntrepotError
from entrepot.gateway.mqtt.connections.client import MqttClient
from entrepot.gateway.mqtt.sessions.record import client_name


class Connection(Protocol):
    """A connection that has a client id."""

    client: MqttClient

    def take_over(self) -> None:
        """Yield the client id to another connection."""

    def when_gone(self, callback: Callable[[], None]) -> None:
        """Call back once the session is released to the next owner."""


ConnectionT = TypeVar("ConnectionT", bound=Connection)


class ClientRegistry(Generic[ConnectionT]):
    """Connections by client id.  Invariant: at most one connection has a client id."""

    def __init__(self) -> None:
        self._by_name: dict[str, ConnectionT] = {}

    def of(self, client_id: str) -> ConnectionT | None:
        """The connection of a client id on this gateway, or None."""
        return self._by_name.get(client_name(client_id))

    def of_name(self, name: str) -> ConnectionT | None:
        """The connection of a session name, or None."""
        return self._by_name.get(name)

    async def claim(self, connection: ConnectionT) -> None:
        """Take the client id on this gateway; its current connection yields it first (3.1.4-3).  Raises FORBIDDEN where
        that belongs to another user."""
        name = client_name(connection.client.client_id)
        while (older := self._by_name.get(name)) is not None and older is not connection:
            if older.client.user != connection.client.user:
                raise EntrepotError(Code.FORBIDDEN, "the session of this client id is another user's")
            gone = asyncio.Event()
            older.when_gone(gone.set)
            older.take_over()
            await gone.wait()
        self._by_name[name] = connection

    def leave(self, connection: ConnectionT) -> None:
        """Give the client id back; may be called again."""
        name = client_name(connection.client.client_id)
        if self._by_name.get(name) is connection:
            del self._by_name[name]
