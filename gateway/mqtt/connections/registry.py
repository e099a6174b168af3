"""ClientRegistry: the connections of one gateway by client id."""

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
        """Give the client id up: another connection has it now."""
        ...

    def when_gone(self, callback: Callable[[], None]) -> None:
        """Call back once the session is somebody else's to have."""
        ...


ConnectionT = TypeVar("ConnectionT", bound=Connection)


class ClientRegistry(Generic[ConnectionT]):
    """Invariant: one connection has a client id."""

    def __init__(self) -> None:
        self._by_name: dict[str, ConnectionT] = {}

    def of(self, client_id: str) -> ConnectionT | None:
        """The connection of a client, None where it is not here."""
        return self._by_name.get(client_name(client_id))

    def of_name(self, name: str) -> ConnectionT | None:
        """The same by the name that sessions have in their keys."""
        return self._by_name.get(name)

    async def claim(self, connection: ConnectionT) -> None:
        """Have the client id on this gateway; whoever has it here gives it up first (3.1.4-3).

        Raises FORBIDDEN where that is another user.
        """
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
        """Have the client id no more; may be called again."""
        name = client_name(connection.client.client_id)
        if self._by_name.get(name) is connection:
            del self._by_name[name]
