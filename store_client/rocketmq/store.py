"""RocketMqStore: a RocketMQ 5 cluster behind the ports, as one of its clients.  docs/rocketmq-cluster.md lists the
requests for each call of the ports, and those it cannot carry.

ADR 39: a store is a record of its ports; ADR 84: it speaks RocketMQ's remoting protocol.  Invariant: a call that the
cluster cannot carry is refused as UNSUPPORTED.
"""

from __future__ import annotations

from entrepot.domain import ports
from entrepot.domain.clock import Clock
from entrepot.domain.definitions.consumer_group import ConsumerGroup
from entrepot.domain.message import Message
from entrepot.domain.ports.facts import Facts
from entrepot.store_client.rocketmq.absent import NoKeyValues
from entrepot.store_client.rocketmq.catalog import Catalog
from entrepot.store_client.rocketmq.cluster import Cluster
from entrepot.store_client.rocketmq.dead_letters import DeadLetters
from entrepot.store_client.rocketmq.finding import RocketMqFinder
from entrepot.store_client.rocketmq.kept_definitions import KeptDefinitions
from entrepot.store_client.rocketmq.ports import RocketMqCondition, RocketMqConsumption, RocketMqMessages
from entrepot.store_client.rocketmq.positions import Positions
from entrepot.store_client.rocketmq.reading import Reading
from entrepot.store_client.rocketmq.receiving import Receiving
from entrepot.store_client.rocketmq.runs import RocketMqRuns
from entrepot.store_client.rocketmq.sending import Sending, Sent
from entrepot.store_client.rocketmq.settings import RocketMqSettings
from entrepot.store_client.rocketmq.settling import Settling
from entrepot.store_client.rocketmq.timers import RocketMqTimers
from entrepot.store_client.rocketmq.topology import RocketMqTopology
from entrepot.store_client.rocketmq.transactions import RocketMqTransactions


class RocketMqStore:
    """Implements `domain.ports.Store`, as far as the cluster goes: the rest raises UNSUPPORTED.  It must be made on a
    running event loop.  `facts` are the key-values, and are closed with it.  `group_defaults`: what a cluster does not
    keep of a group, where nobody has put it here."""

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
        kept = KeptDefinitions(facts)
        self._catalog = Catalog(self._cluster, kept)
        self._sending = Sending(self._cluster, self._note_sent)
        settling, reading = Settling(self._cluster), Reading(self._cluster, self._sending)
        positions = Positions(self._cluster, reading)
        topology = RocketMqTopology(self._cluster, reading, positions, self._catalog, kept)
        self.runs = RocketMqRuns(self._cluster, reading, positions, topology)
        self._receiving = Receiving(self._cluster, settling, positions, reading)
        self._timers = RocketMqTimers(self._cluster)
        self._transactions = RocketMqTransactions(self._cluster, self._sending)
        self.messages: ports.Messages = RocketMqMessages(self._sending, reading)
        self.consumption: ports.Consumption = RocketMqConsumption(
            self._receiving, settling, topology, DeadLetters(self._cluster, reading)
        )
        self.topology: ports.Topology = topology
        self.key_values: ports.KeyValues = NoKeyValues() if facts is None else facts
        self.finder: ports.MessageFinder = RocketMqFinder(self._cluster, reading, positions)
        self.timers: ports.Timers = self._timers
        self.transactions: ports.Transactions = self._transactions
        self.condition: ports.Condition = RocketMqCondition(
            facts, self._sending, self._receiving, self._timers, self._transactions
        )

    @property
    def operations(self) -> None:
        """Implements `domain.ports.Clustered`: operators look at a cluster's brokers by its own tools."""
        return None

    def _note_sent(self, message: Message, sent: Sent) -> None:
        self._timers.note_sent(message, sent)
        self._transactions.note_sent(message, sent)

    async def start(self) -> None:
        """Look for topics and groups.  Raises UNAVAILABLE if no name server or broker answers."""
        await self._catalog.start()

    async def close(self) -> None:
        """Answer pops empty, give back messages on shelves, wait for open sends, and end the connections."""
        self._receiving.release_waiting()
        await self._receiving.close()
        await self._sending.close()
        await self._cluster.close()
        if self._facts is not None:
            await self._facts.close()
