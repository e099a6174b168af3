"""RouteTable: a name server's knowledge, all in memory and all reported by brokers.

A broker is alive while its lease runs: heartbeats renew it, and a closed connection ends it at once. A broker that is
not alive stays in the table, marked, so that gateways know whose queues are away. One that announced its leave is
marked so.

Pure: time is an argument, in seconds of any steady clock.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.route import BrokerRoute, Registration, Routes


@dataclass(slots=True)
class _Entry:
    route: BrokerRoute
    lease_ends: float
    connection: Hashable


class RouteTable:
    """The routes. `server_id` tells this run of the server from others; versions begin anew with it."""

    def __init__(self, server_id: str, lease_seconds: float) -> None:
        self._server_id = server_id
        self._lease_seconds = lease_seconds
        self._entries: dict[str, _Entry] = {}
        self.version = 0

    def register(self, registration: Registration, connection: Hashable, now: float) -> None:
        """Register everything that a broker has. Raises PRECONDITION_FAILED for another broker's name or number."""
        broker = registration.broker
        for entry in self._entries.values():
            other = entry.route.broker
            if other.store_id == broker.store_id or entry.route.has_left:
                continue
            if other.name == broker.name and entry.route.is_alive:
                raise EntrepotError(
                    Code.PRECONDITION_FAILED, f"broker {broker.name!r} is at {other.address} already, with other data"
                )
            if other.number == broker.number and other.name != broker.name:
                raise EntrepotError(
                    Code.PRECONDITION_FAILED,
                    f"broker {other.name!r} has number {broker.number} already: give {broker.name!r} one of its own "
                    "(broker.number)",
                )
        known = self._entries.get(broker.name)
        is_older = known is not None and _age(known.route.registration) > _age(registration)
        if known is not None and is_older and (known.route.is_alive or broker.replica):
            return  # an older report that came later, or of a former master
        route = BrokerRoute(registration)
        if known is None or known.route != route:
            self.version += 1
        self._entries[broker.name] = _Entry(route, now + self._lease_seconds, connection)

    def heartbeat(self, name: str, epoch: int, version: int, connection: Hashable, now: float) -> bool:
        """Renew a lease. False where the broker is known otherwise: it is to register again."""
        entry = self._entries.get(name)
        if entry is None or _age(entry.route.registration) != (epoch, version) or not entry.route.is_alive:
            return False
        entry.lease_ends, entry.connection = now + self._lease_seconds, connection
        return True

    def unregister(self, name: str, epoch: int) -> None:
        """Remove a broker that leaves for good."""
        entry = self._entries.get(name)
        if entry is not None and entry.route.broker.epoch <= epoch:
            entry.route = BrokerRoute(entry.route.registration, is_alive=False, has_left=True)
            self.version += 1

    def disconnected(self, connection: Hashable) -> None:
        """Mark the brokers registered by a closed connection as away."""
        for entry in self._entries.values():
            if entry.connection == connection:
                self._mark_away(entry)

    def scan(self, now: float) -> None:
        """End the expired leases."""
        for entry in self._entries.values():
            if entry.lease_ends <= now:
                self._mark_away(entry)

    def _mark_away(self, entry: _Entry) -> None:
        if entry.route.is_alive:
            entry.route = BrokerRoute(entry.route.registration, is_alive=False)
            self.version += 1

    def routes(self) -> Routes:
        """Return all routes."""
        return Routes(self._server_id, self.version, tuple(self._entries[name].route for name in sorted(self._entries)))


def _age(registration: Registration) -> tuple[int, int]:
    return registration.broker.epoch, registration.version
