"""A broker in this process, served over the wire on a loopback port, and a client's view of it."""

from __future__ import annotations

import asyncio
import socket
from contextlib import AsyncExitStack
from typing import Any

from entrepot.broker.broker import Broker
from entrepot.broker.remoting.link import LinkSettings
from entrepot.broker.remoting.listener import RemotingListener
from entrepot.broker.remoting.service import Service
from entrepot.broker.server.definition_log import DefinitionLog
from entrepot.broker.server.store_service import StoreService
from entrepot.broker.settings.store import BrokerSettings
from entrepot.domain.clock import Clock
from entrepot.domain.definitions.consumer_group import ConsumerGroup
from entrepot.domain.route import BrokerInfo
from entrepot.store_client.remote import Cluster, RemoteStore, Tails
from tests.support.waiting import PATIENCE_SECONDS


class ServedBroker:
    """An embedded broker behind a listener.  `stop` and `serve` let it go away and come back at the same port."""

    def __init__(self, broker: Broker, number: int = 0, keeps_key_values: bool = True) -> None:
        self.broker = broker
        self.number, self.keeps_key_values = number, keeps_key_values
        self.is_draining = False
        self.zone = ""
        self.port = 0
        self.deletions = DefinitionLog(broker.key_values)
        self.service = StoreService(broker, self.deletions, self.info)
        self._listener: RemotingListener | None = None

    @classmethod
    async def open(cls, settings: BrokerSettings, clock: Clock, number: int = 0, keeps: bool = True) -> ServedBroker:
        served = cls(await Broker.open(settings, clock), number, keeps)
        await served.deletions.load()
        await served.serve()
        return served

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def info(self) -> BrokerInfo:
        return BrokerInfo(
            self.broker.core.settings.name,
            self.number,
            self.address,
            self.broker.core.store_id,
            1,
            self.zone,
            self.is_draining,
            self.keeps_key_values,
        )

    async def serve(self) -> None:
        bound = socket.create_server(("127.0.0.1", self.port))
        self.port = bound.getsockname()[1]
        service = Service()
        self.service.install(service)
        self._listener = RemotingListener(service, bound, self.broker.core.settings.name)
        await self._listener.start()

    async def stop(self) -> None:
        if self._listener is not None:
            await self._listener.close()
            while self._listener.channels:
                await asyncio.sleep(0.001)
            self._listener = None

    def cut(self) -> None:
        """End every connection abruptly, as a network does; new ones are taken."""
        for channel in tuple(self._listener.channels if self._listener is not None else ()):
            if channel._transport is not None:
                channel._transport.abort()

    def hang(self, is_hanging: bool = True) -> None:
        """Read nothing more from the connections that there are, so that nothing is answered; or go on."""
        for channel in self._listener.channels if self._listener is not None else ():
            assert channel._transport is not None
            if is_hanging:
                channel._transport.pause_reading()
            else:
                channel._transport.resume_reading()

    async def close(self) -> None:
        await self.stop()
        await self.broker.close()


QUICK = LinkSettings(who="test", backoff_seconds=(0.01, 0.05), ping_seconds=0.2, silence_seconds=30.0)
"""A broker that is to be away closes its sockets; one on a machine that is busy is only late."""


async def connect(
    *served: ServedBroker, clock: Clock, settings: LinkSettings = QUICK, zone: str = "", **others: Any
) -> RemoteStore:
    """A store over these brokers, once they are all there."""
    cluster = Cluster(settings, clock, zone=zone, **others)
    store = RemoteStore(cluster, Tails(cluster, clock), ConsumerGroup("defaults"))
    clients = [cluster.add(each.address) for each in served]
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not all(client.is_ready for client in clients):
            await asyncio.sleep(0.001)
    return store


async def remote_store(settings: BrokerSettings, clock: Clock, stack: AsyncExitStack) -> RemoteStore:
    """One broker and a store over it; both end with the stack."""
    served = await ServedBroker.open(settings, clock)
    stack.push_async_callback(served.close)
    store = await connect(served, clock=clock)
    stack.push_async_callback(store.close)
    return store
