"""Bridge: one remote MQTT broker."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from random import Random

from entrepot.domain.clock import Clock
from entrepot.domain.ports import Store
from entrepot.gateway.bridge.connection import RemoteConnection
from entrepot.gateway.bridge.errors import RemoteError
from entrepot.gateway.bridge.inbound import Inbound
from entrepot.gateway.bridge.leased import LeasedBridge, first_of
from entrepot.gateway.bridge.origin import store_origin
from entrepot.gateway.bridge.outbound import Outbound, ensure_groups
from entrepot.gateway.bridge.status import BridgeCounters, BridgeStatus
from entrepot.gateway.member.identity import Identity
from entrepot.gateway.messaging.routes import Routes
from entrepot.gateway.messaging.send import Sender
from entrepot.gateway.retained.retained import RetainedMessages
from entrepot.gateway.settings import BridgeRemote


@dataclass(frozen=True, slots=True)
class BridgeParts:
    """Parts shared by the bridges of a gateway; `identity` owns their leases."""

    store: Store
    sender: Sender
    retained: RetainedMessages
    routes: Routes
    any_level_topics: set[str]
    clock: Clock
    random: Random
    identity: Identity


class Bridge(LeasedBridge):
    """One remote's bridge, which runs while this gateway has the lease."""

    def __init__(self, remote: BridgeRemote, parts: BridgeParts) -> None:
        place = ":".join(map(str, remote.address))
        waits, key_values = remote.max_backoff_seconds, parts.store.key_values
        super().__init__(remote.name, remote.name, place, waits, key_values, parts.clock, parts.random, parts.identity)
        self._remote = remote
        self._parts = parts
        self._origin = ""
        self._inbound: Inbound | None = None
        self.counters = BridgeCounters()

    def status(self) -> BridgeStatus:
        """The state here, or the last one told by the gateway that runs the bridge."""
        state, since_ms, last_error, record = self._told()
        owner, remote = "" if record is None else record.owner, self._remote
        return BridgeStatus(
            remote.name,
            remote.url,
            remote.version,
            state,
            since_ms,
            owner,
            self._lease.is_held,
            last_error,
            self.counters,
        )

    def _refusal(self) -> str:
        return "" if self._inbound is None else self._inbound.last_refusal

    async def _prepare(self) -> None:
        parts = self._parts
        self._origin = await store_origin(parts.store.key_values, f"{parts.random.getrandbits(64):016x}")
        await ensure_groups(parts.store, self._remote, self._begun_ms)

    async def _connected(self) -> None:
        """Run one connection; raise its end as `RemoteError`."""
        parts, remote = self._parts, self._remote
        inbound = Inbound(remote, parts.sender, parts.routes, parts.clock, self.counters, parts.retained.publish)
        connection = RemoteConnection(remote, inbound.take)
        inbound.connection = connection
        incidents = parts.sender.incidents
        outbound = Outbound(
            remote, parts.store, parts.clock, self.counters, parts.any_level_topics, self._origin, incidents
        )
        try:
            await connection.open()
            self._inbound = inbound
            # Messages of the kept session come before the SUBACK: they are stored meanwhile, else the SUBACK would wait
            # for room.
            carrying_out = self._subscribe_and_send(connection, inbound, outbound)
            await first_of(_ended(connection), inbound.run(connection), carrying_out)
        finally:
            self._inbound = None
            connection.close()

    async def _subscribe_and_send(self, connection: RemoteConnection, inbound: Inbound, outbound: Outbound) -> None:
        if inbound.filters:
            await connection.subscribe(inbound.filters)
        self.counters.connects += 1
        self._tell_connected()
        await outbound.run(connection)
        await asyncio.get_running_loop().create_future()  # nothing to send, but the connection goes on


async def _ended(connection: RemoteConnection) -> None:
    raise RemoteError(await connection.until_ended())
