"""Store: one store as a gateway holds it, a record of its ports."""

from __future__ import annotations

from typing import Protocol

from entrepot.domain.ports.condition import Condition
from entrepot.domain.ports.consumption import Consumption
from entrepot.domain.ports.finder import MessageFinder
from entrepot.domain.ports.key_values import KeyValues
from entrepot.domain.ports.messages import Messages
from entrepot.domain.ports.timers import Timers
from entrepot.domain.ports.topology import Topology
from entrepot.domain.ports.transactions import Transactions


class Store(Protocol):
    """All ports of a store.  Each port is an object of its own, passed alone where it is enough."""

    @property
    def messages(self) -> Messages: ...

    @property
    def consumption(self) -> Consumption: ...

    @property
    def topology(self) -> Topology: ...

    @property
    def key_values(self) -> KeyValues: ...

    @property
    def finder(self) -> MessageFinder: ...

    @property
    def timers(self) -> Timers: ...

    @property
    def transactions(self) -> Transactions: ...

    @property
    def condition(self) -> Condition: ...

    async def close(self) -> None:
        """Stop cleanly: everything accepted is durable, all progress is kept."""
