"""Several brokers in this process, and stores of several gateways over all of them."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from entrepot.broker.broker import Broker
from entrepot.broker.settings.store import BrokerSettings
from entrepot.broker.store.log_reading import CommitLogLayout
from entrepot.domain.clock import Clock
from entrepot.domain.ports import Store
from entrepot.domain.topic import Topic
from entrepot.gateway.messaging.send import Sender
from entrepot.gateway.messaging.topology import Topology
from entrepot.gateway.settings import TopicsSettings
from entrepot.store_client.remote import RemoteStore
from tests.support.brokers.served_broker import ServedBroker, connect
from tests.support.waiting import until

LAYOUT = CommitLogLayout(segment_size_bytes=256 << 10, preallocate_bytes=64 << 10, reserve_bytes=16 << 10)


class BrokerWorld:
    """Brokers `broker-0`, `broker-1`, ...; the first of them keeps the key-values.  All ends with the stack."""

    def __init__(self, clock: Clock, stack: AsyncExitStack) -> None:
        self.clock = clock
        self._stack = stack
        self.brokers: list[ServedBroker] = []
        self.stores: list[RemoteStore] = []

    async def start(self, directory: Path, count: int, **settings: Any) -> None:
        for number in range(count):
            of_broker = BrokerSettings(directory / str(number), name=f"broker-{number}", layout=LAYOUT, **settings)
            served = await ServedBroker.open(of_broker, self.clock, number, keeps=number == 0)
            self._stack.push_async_callback(served.close)
            self.brokers.append(served)

    async def store(self, **settings: Any) -> RemoteStore:
        """A further gateway's."""
        store = await connect(*self.brokers, clock=self.clock, **settings)
        self._stack.push_async_callback(store.close)
        self.stores.append(store)
        return store

    async def topic(self, name: str = "t", queues: int = 2, **fields: Any) -> Topic:
        """A topic that all stores know, on all of its brokers."""
        topic = await self.stores[0].topology.put_topic(Topic(name, queues=queues, **fields))
        await self.agree()
        return topic

    async def stop(self, number: int) -> None:
        """A broker goes away, and all stores have noticed."""
        await self.brokers[number].stop()
        await until(lambda: not any(self._is_ready(store, number) for store in self.stores), "the broker is away")

    async def serve(self, number: int) -> None:
        """It comes back, and all stores have noticed."""
        await self.brokers[number].serve()
        await until(lambda: all(self._is_ready(store, number) for store in self.stores), "the broker is back")

    async def replace(self, number: int, directory: Path) -> None:
        """A broker comes back with an empty store, at the same address; wait for it by `until`."""
        old = self.brokers[number]
        await old.close()
        of_broker = BrokerSettings(directory, name=f"broker-{number}", layout=LAYOUT)
        new = ServedBroker(await Broker.open(of_broker, self.clock), number, old.keeps_key_values)
        self._stack.push_async_callback(new.close)
        new.port = old.port
        await new.deletions.load()
        await new.serve()
        self.brokers[number] = new

    def _is_ready(self, store: RemoteStore, number: int) -> bool:
        return any(client.number == number for client in store.cluster.ready)

    async def agree(self) -> None:
        """Wait until all brokers and stores have the same definitions."""
        await until(lambda: len(set(self._views())) == 1, lambda: "they do not agree:\n" + "\n".join(self._views()))

    def _views(self) -> list[str]:
        """What each of them has, without the queues, which differ by placement."""
        views = []
        everybody: list[Store] = [*(served.broker for served in self.brokers), *self.stores]
        for each in everybody:
            topics = [
                (t.name, t.permission, t.placement or t.queues) for t in each.topology.topics() if t.name[0] != "%"
            ]
            views.append(
                f"{topics} {[(g.name, g.max_attempts) for g in each.topology.groups()]} {each.topology.namespaces()}"
            )
        return views


def sender_over(store: RemoteStore, clock: Clock) -> Sender:
    """What every door of a gateway sends with."""
    return Sender(store, Topology(store, TopicsSettings()), clock)
