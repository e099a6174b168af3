"""RouteTable: a name server's knowledge, all in memory and all reported by brokers.

A broker is alive while its lease runs: heartbeats renew it, and a closed connection ends it at once. A broker that is
not alive stays in the table, marked, so that gateways know whose queues are away. One that announced its leave is
marked so. Whoever follows the routes is told what changed since the version that it has.

Pure: time is an argument, in seconds of any steady clock.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace

from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.route import BrokerInfo, Registration, Routes
from entrepot.domain.topic_shares import ReportedBroker, TopicShares


@dataclass(slots=True)
class _Entry:
    known: ReportedBroker
    changed_at: int
    """Version of the table with the last change of this broker."""
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
        self._check(broker)
        entry = self._entries.get(broker.name)
        is_older = entry is not None and entry.known.age > (broker.epoch, registration.version)
        if entry is not None and is_older and (entry.known.is_alive or broker.replica):
            return  # an older report that came later, or of a former master
        shares = TopicShares() if entry is None else entry.known.shares
        changed = shares.replace(self.version + 1, registration.topics)
        self._put(ReportedBroker(broker, registration.version, shares), changed, connection, now)

    def register_change(self, registration: Registration, since: int, connection: Hashable, now: float) -> bool:
        """Register what changed since a version. False where another one is known: the broker is to register all.
        Raises PRECONDITION_FAILED as `register`."""
        broker = registration.broker
        self._check(broker)
        entry = self._entries.get(broker.name)
        if entry is None or entry.known.age != (broker.epoch, since) or not entry.known.is_alive:
            return False
        shares = entry.known.shares
        changed = shares.change(self.version + 1, registration.topics, registration.gone)
        self._put(ReportedBroker(broker, registration.version, shares), changed, connection, now)
        return True

    def _check(self, broker: BrokerInfo) -> None:
        """Raise PRECONDITION_FAILED for another broker's name or number."""
        for entry in self._entries.values():
            other = entry.known.broker
            if other.store_id == broker.store_id or entry.known.has_left:
                continue
            if other.name == broker.name and entry.known.is_alive:
                raise EntrepotError(
                    Code.PRECONDITION_FAILED, f"broker {broker.name!r} is at {other.address} already, with other data"
                )
            if other.number == broker.number and other.name != broker.name:
                raise EntrepotError(
                    Code.PRECONDITION_FAILED,
                    f"broker {other.name!r} has number {broker.number} already: give {broker.name!r} one of its own "
                    "(broker.number)",
                )

    def _put(self, known: ReportedBroker, changed: list[str], connection: Hashable, now: float) -> None:
        entry = self._entries.get(known.broker.name)
        lease_ends = now + self._lease_seconds
        if entry is None:
            self.version += 1
            self._entries[known.broker.name] = _Entry(known, self.version, lease_ends, connection)
            return
        entry.lease_ends, entry.connection = lease_ends, connection
        if changed or not known.says_as(entry.known):
            self._change(entry, known)

    def _change(self, entry: _Entry, known: ReportedBroker) -> None:
        self.version += 1
        entry.known, entry.changed_at = known, self.version

    def heartbeat(self, name: str, epoch: int, version: int, connection: Hashable, now: float) -> bool:
        """Renew a lease. False where the broker is known otherwise: it is to register again."""
        entry = self._entries.get(name)
        if entry is None or entry.known.age != (epoch, version) or not entry.known.is_alive:
            return False
        entry.lease_ends, entry.connection = now + self._lease_seconds, connection
        return True

    def unregister(self, name: str, epoch: int) -> None:
        """Remove a broker that leaves for good."""
        entry = self._entries.get(name)
        if entry is not None and entry.known.broker.epoch <= epoch:
            self._change(entry, replace(entry.known, is_alive=False, has_left=True))

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
        if entry.known.is_alive:
            self._change(entry, replace(entry.known, is_alive=False))

    def brokers(self) -> list[ReportedBroker]:
        """Return every broker, by name."""
        return [self._entries[name].known for name in sorted(self._entries)]

    def routes(self, since: int | None = None) -> Routes:
        """Return what changed since a version of the table; all routes without one."""
        if since is None:
            return Routes(self._server_id, self.version, tuple(known.route() for known in self.brokers()))
        changed = [self._entries[name] for name in sorted(self._entries) if self._entries[name].changed_at > since]
        brokers = tuple(entry.known.route(since) for entry in changed)
        return Routes(self._server_id, self.version, brokers, since)
