"""RocketMqBridge: one RocketMQ cluster, while this gateway has the bridge's lease."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

from entrepot.domain.clock import Clock
from entrepot.domain.errors import EntrepotError
from entrepot.domain.ports import Store
from entrepot.gateway.bridge.errors import RemoteError
from entrepot.gateway.bridge.leased import LeasedBridge, first_of
from entrepot.gateway.bridge.origin import mark_of, store_origin
from entrepot.gateway.bridge.rocketmq.carried import bridge_word
from entrepot.gateway.bridge.rocketmq.inbound import Inbound
from entrepot.gateway.bridge.rocketmq.outbound import Outbound
from entrepot.gateway.bridge.rocketmq.positions import Positions
from entrepot.gateway.bridge.rocketmq.status import RocketMqBridgeStatus, RocketMqCounters
from entrepot.gateway.member.identity import Identity
from entrepot.gateway.messaging.send import Sender

if TYPE_CHECKING:
    from entrepot.gateway.settings.rocketmq_bridge import RocketMqRemote


@dataclass(frozen=True, slots=True)
class RocketMqBridgeParts:
    """Parts shared by the bridges of a gateway; `identity` owns their leases."""

    store: Store
    sender: Sender
    clock: Clock
    random: Random
    identity: Identity


class RocketMqBridge(LeasedBridge):
    """One cluster's bridge, which runs while this gateway has the lease."""

    def __init__(self, remote: RocketMqRemote, parts: RocketMqBridgeParts) -> None:
        place, waits, key_values = ",".join(remote.name_servers), remote.max_backoff_seconds, parts.store.key_values
        word = bridge_word(remote.name)
        super().__init__(remote.name, word, place, waits, key_values, parts.clock, parts.random, parts.identity)
        self._remote, self._parts = remote, parts
        self._mark, self._first_ms = ("", ""), 0
        self._inbound: Inbound | None = None
        self.counters = RocketMqCounters()

    def status(self) -> RocketMqBridgeStatus:
        """The state here, or the last one told by the gateway that runs the bridge."""
        state, since_ms, last_error, record = self._told()
        return RocketMqBridgeStatus(
            self._remote.name,
            self._remote.name_servers,
            state,
            since_ms,
            "" if record is None else record.owner,
            self._lease.is_held,
            last_error,
            self.counters,
            [] if self._inbound is None else self._inbound.topics(),
        )

    def _refusal(self) -> str:
        return "" if self._inbound is None else self._inbound.last_refusal

    async def _prepare(self) -> None:
        parts = self._parts
        origin = await store_origin(parts.store.key_values, f"{parts.random.getrandbits(64):016x}")
        self._mark = mark_of(origin, bridge_word(self._remote.name))
        self._first_ms = await self._positions().begun_ms(self._begun_ms)

    def _positions(self) -> Positions:
        return Positions(self._parts.store.key_values, self._remote.name)

    async def _connected(self) -> None:
        """Run one connection; raise its end as `RemoteError`."""
        parts, remote = self._parts, self._remote
        cluster = await self._open()
        try:
            inbound = Inbound(
                remote,
                cluster,
                parts.store,
                parts.sender,
                self._positions(),
                self.counters,
                self._mark,
                self._first_ms,
            )
            outbound = Outbound(
                remote,
                cluster,
                parts.store,
                parts.clock,
                self.counters,
                self._mark,
                self._first_ms,
                parts.sender.incidents,
            )
            self._inbound = inbound
            self.counters.connects += 1
            self._tell_connected()
            await first_of(inbound.run(), outbound.run())
        finally:
            self._inbound = None
            await cluster.close()

    async def _open(self) -> Store:
        """Connect to the cluster.  Raises RemoteError."""
        from entrepot.store_client.rocketmq import open_rocketmq  # loaded where a bridge is configured

        remote = self._remote
        try:
            return await open_rocketmq(
                clock=self._parts.clock,
                confirms_less_safe=remote.confirms_less_safe,
                **remote.place(remote.secret()),
            )
        except EntrepotError as refusal:
            raise RemoteError(refusal.message) from None
