"""RocketMqStore: a RocketMQ 5 cluster behind the ports, as one of its gRPC clients.  docs/rocketmq-cluster.md lists the
protocol's call for each call of the ports, and those it cannot carry.

ADR 39: a store is a record of its ports.
"""

from __future__ import annotations

from collections.abc import Sequence

from entrepot.domain import ports
from entrepot.domain.clock import Clock
from entrepot.domain.definitions.consumer_group import ConsumerGroup
from tests.support.rocketmq.sdk.absent import NoKeyValues, NoMessageFinder
from tests.support.rocketmq.sdk.cluster import Cluster
from tests.support.rocketmq.sdk.pending import Pending
from tests.support.rocketmq.sdk.ports import (
    RocketMqCondition,
    RocketMqConsumption,
    RocketMqMessages,
    RocketMqTimers,
    RocketMqTransactions,
)
from tests.support.rocketmq.sdk.reading import Reading
from tests.support.rocketmq.sdk.receiving import Receiving
from tests.support.rocketmq.sdk.sending import Sending
from tests.support.rocketmq.sdk.settings import RocketMqSettings
from tests.support.rocketmq.sdk.settling import Settling
from tests.support.rocketmq.sdk.topology import RocketMqTopology


class RocketMqStore:
    """Implements `domain.ports.Store`, as far as the protocol goes: the rest raises UNSUPPORTED.  It must be made on a
    running event loop.  `side` serves the key-values, and is closed with it.  `group_defaults`: assumed definition of
    groups without a put, since the cluster's own cannot be read."""

    def __init__(
        self,
        settings: RocketMqSettings,
        clock: Clock,
        *,
        side: ports.Store | None = None,
        group_defaults: ConsumerGroup | None = None,
    ) -> None:
        self._side = side
        self._cluster = Cluster(settings, clock, group_defaults or ConsumerGroup("defaults"))
        pending = Pending(self._cluster)
        self._sending = Sending(self._cluster, pending.note_sent)
        settling, reading = Settling(self._cluster), Reading(self._cluster)
        self._receiving = Receiving(self._cluster, settling)
        self.messages: ports.Messages = RocketMqMessages(self._sending, reading)
        self.consumption: ports.Consumption = RocketMqConsumption(self._receiving, settling, reading)
        self.topology: ports.Topology = RocketMqTopology(self._cluster, reading)
        self.key_values: ports.KeyValues = NoKeyValues() if side is None else side.key_values
        self.finder: ports.MessageFinder = NoMessageFinder()
        self.timers: ports.Timers = RocketMqTimers(pending)
        self.transactions: ports.Transactions = RocketMqTransactions(self._sending, pending)
        self.condition: ports.Condition = RocketMqCondition(side, self._sending, self._receiving, pending)

    async def find_topics(self, names: Sequence[str]) -> None:
        """Ask the cluster for topics, which are then known here.  Raises TOPIC_NOT_FOUND, UNAVAILABLE."""
        for name in names:
            await self._cluster.routes.of(name)

    async def close(self) -> None:
        """Answer pops empty, give back messages on shelves, wait for open sends, and close the sessions."""
        self._receiving.release_waiting()
        await self._receiving.close()
        await self._sending.close()
        await self._cluster.close()
        if self._side is not None:
            await self._side.close()
