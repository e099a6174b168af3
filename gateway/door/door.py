"""Door: one protocol of a gateway, from its sockets to the store.

ADR 81: a door is a plug.  A gateway starts its doors in their order, and ends them in the order of their drain.
Invariant: at the end each phase is done for all doors before the next one, so nobody waits for a door that has said
goodbye.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from entrepot.domain.errors import Code, EntrepotError
from entrepot.gateway.door.shown import ConnectedClient, DoorFigures

if TYPE_CHECKING:
    from entrepot.gateway.messaging.group_consumer import GroupConsumer
    from entrepot.gateway.transport.certificates import ServerCertificates
    from entrepot.gateway.work.periodic_work import PeriodicWork

Counters = Mapping[str, tuple[str, Callable[[], int]]]
"""Description and getter of each counter, by its name in `/metrics`."""
Work = Callable[[], Awaitable[None]]
LEAST_STOP_SECONDS: Final = 0.1
"""Time that a listener has to stop, also where the drain is over, in seconds."""


class Door:
    """A door without a listener, clients and work: each door says what it has."""

    name = ""
    """Its settings section, and its word in metrics."""
    drain_order = 0
    """Doors with lower numbers end first.  Those that pop without being asked come before those that answer."""

    async def start(self) -> None:
        """Read what it needs.  Raises what the store raises."""

    async def open(self) -> None:
        """Take connections, once all doors have started."""

    async def end_waiting(self, until: float) -> None:
        """End what only waits: long polls, endless answers, pops of its own.  `until`: end of the drain, in seconds of
        the event loop."""

    async def stop_accepting(self, until: float) -> None:
        """Take no more connections."""

    def say_goodbye(self) -> None:
        """Tell its clients, once all that they sent is settled."""

    def last_work(self) -> Sequence[Work]:
        """Return what is still to be done with the store, in order; it is left out where time is over, or the store
        has failed."""
        return ()

    async def close(self, until: float) -> None:
        """Close what is open, whatever the state of the store."""

    @property
    def certificates(self) -> ServerCertificates | None:
        """Certificates to read again when their files change."""
        return None

    @property
    def background(self) -> Sequence[PeriodicWork]:
        """Its periodic work, whose failures are shown."""
        return ()

    def websockets(self) -> Mapping[bytes, type[asyncio.Protocol]]:
        """Return the protocols of the WebSocket paths that it has on the HTTP port."""
        return {}

    def counters(self) -> Counters:
        """Return its counters since the start of the process."""
        return {}

    @property
    def connections(self) -> int | None:
        """Number of its open connections; None where nobody connects."""
        return None

    @property
    def protocol(self) -> str:
        """Its word in lists of clients and on pages."""
        return self.name

    @property
    def figures(self) -> DoorFigures | None:
        """Its line in the overview; None for no line."""
        return None if self.connections is None else DoorFigures(self.connections)

    def clients(self) -> Iterable[ConnectedClient]:
        """Return its connected clients, in any order."""
        return ()

    async def disconnect(self, client: str, reason: str) -> bool:
        """Disconnect a client of this gateway; return False where it is not connected here.  Raises UNSUPPORTED where
        the door disconnects none."""
        raise EntrepotError(Code.UNSUPPORTED, f"the door {self.protocol!r} disconnects no clients")

    def consumers_of(self, group: str) -> Sequence[GroupConsumer]:
        """Return its connected consumers of a group, by the group's stored name."""
        return ()


def seconds_to_stop(until: float) -> float:
    """Return the time that a listener has to stop, in seconds.  `until`: end of the drain, as phases get it."""
    return max(until - asyncio.get_running_loop().time(), LEAST_STOP_SECONDS)
