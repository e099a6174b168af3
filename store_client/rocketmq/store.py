"""RocketMqStore: a RocketMQ 5 cluster behind the ports, as one of its gRPC clients.  docs/rocketmq-cluster.md lists the
protocol's call for each call of the ports, and those it cannot carry.

ADR 39: a store is a record of its ports. Invariant: a call that the cluster cannot carry is refused as UNSUPPORTED.
"""

from __future__ import annotations

from collections.abc import Sequence

from entrepot.domain import ports
from entrepot.domain.clock import Clock
from entrepot.domain.definitions.consumer_group import ConsumerGroup
from entrepot.domain.errors import EntrepotError
from entrepot.domain.ports.facts import Facts
from entrepot.store_client.rocketmq.absent import NoKeyValues, NoMessageFinder
from entrepot.store_client.rocketmq.cluster import Cluster
from entrepot.store_client.rocketmq.pending import Pending
from entrepot.store_client.rocketmq.ports import (
    RocketMqCondition,
    RocketMqConsumption,
    RocketMqMessages,
    RocketMqTimers,
    RocketMqTransactions,
)
from entrepot.store_client.rocketmq.reading import Reading
from entrepot.store_client.rocketmq.receiving import Receiving
from entrepot.store_client.rocketmq.sending import Sending
from entrepot.store_client.rocketmq.settings import RocketMqSettings
from entrepot.store_client.rocketmq.settling import Settling
from entrepot.store_client.rocketmq.topology import RocketMqTopology


class RocketMqStore:
    """Implements `domain.ports.Store`, as far as the protocol goes: the rest raises UNSUPPORTED.  It must be made on a
    running event loop.  `facts` are the key-values, and are closed with it.  `group_defaults`: assumed definition of
    groups without a put, since the cluster's own cannot be read."""

    def __init__(
        self,
        settings: RocketMqSettings,
        clock: Clock,
        *,
        facts: Facts | None = None,
        group_defaults: ConsumerGroup | None = None,
    ) -> None:
        self._facts = facts
        self._cluster = Cluster(settings, clock, group_defaults or ConsumerGroup("defaults"))
        pending = Pending(self._cluster)
        self._sending = Sending(self._cluster, pending.note_sent)
        settling, reading = Settling(self._cluster), Reading(self._cluster)
        self._receiving = Receiving(self._cluster, settling)
        self.messages: ports.Messages = RocketMqMessages(self._sending, reading)
        self.consumption: ports.Consumption = RocketMqConsumption(self._receiving, settling, reading)
        self.topology: ports.Topology = RocketMqTopology(self._cluster, reading)
        self.key_values: ports.KeyValues = NoKeyValues() if facts is None else facts
        self.finder: ports.MessageFinder = NoMessageFinder()
        self.timers: ports.Timers = RocketMqTimers(pending)
        self.transactions: ports.Transactions = RocketMqTransactions(self._sending, pending)
        self.condition: ports.Condition = _Condition(facts, self._sending, self._receiving, pending)

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
        if self._facts is not None:
            await self._facts.close()


class _Condition(RocketMqCondition):
    """Health of the cluster's client, and of the keeper of its facts."""

    def __init__(self, facts: Facts | None, sending: Sending, receiving: Receiving, pending: Pending) -> None:
        super().__init__(None, sending, receiving, pending)
        self._facts = facts

    @property
    def failure(self) -> EntrepotError | None:
        return None if self._facts is None else self._facts.failure

    @property
    def damage(self) -> list[str]:
        return [] if self._facts is None else self._facts.damage
