"""RemoteStore: the ports of a store, over the brokers of a cluster.

ADR 16: several brokers, one store.  Invariant: no message stays here, so if the gateway that holds this is killed, any
other can go on.
"""

from __future__ import annotations

from entrepot.domain.definitions.consumer_group import ConsumerGroup
from entrepot.store_client.remote.appending import Appending
from entrepot.store_client.remote.clock_comparing import ClockComparing
from entrepot.store_client.remote.cluster import Cluster
from entrepot.store_client.remote.condition import RemoteCondition
from entrepot.store_client.remote.consumption import RemoteConsumption
from entrepot.store_client.remote.finder import RemoteFinder
from entrepot.store_client.remote.key_values import RemoteKeyValues
from entrepot.store_client.remote.messages import RemoteMessages
from entrepot.store_client.remote.operating import ClusterOperations
from entrepot.store_client.remote.tables import RemoteTables
from entrepot.store_client.remote.tails import Tails
from entrepot.store_client.remote.timers import RemoteTimers
from entrepot.store_client.remote.topology import RemoteTopology
from entrepot.store_client.remote.transactions import RemoteTransactions


class RemoteStore:
    """Implements `domain.ports.Store`.  `group_defaults`: definition of groups created by a pop."""

    def __init__(self, cluster: Cluster, tails: Tails, group_defaults: ConsumerGroup) -> None:
        self.cluster = cluster
        self._appending = Appending(cluster)
        self.messages = RemoteMessages(cluster, self._appending, tails)
        self.topology = RemoteTopology(cluster)
        self.consumption = RemoteConsumption(cluster, self.topology, group_defaults)
        self.key_values = RemoteKeyValues(cluster)
        self.finder = RemoteFinder(cluster)
        self.timers = RemoteTimers(cluster)
        self.transactions = RemoteTransactions(cluster, self._appending)
        self.condition = RemoteCondition(cluster)
        self.tables = RemoteTables(cluster)
        self.operations: ClusterOperations | None = None
        """The operators' control of the brokers, where these are found by routes."""
        self.clocks: ClockComparing | None = None
        """Comparisons of this process's clock, if that can follow them."""

    async def close(self) -> None:
        if self.clocks is not None:
            await self.clocks.close()
        self.consumption.release_waiting()
        await self._appending.settle()
        self.key_values.close()
        if self.operations is not None:
            await self.operations.close()
        await self.cluster.close()
