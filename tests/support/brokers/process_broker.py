"""A whole broker as its process has it (identity, control, registration), but in this one."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path

from entrepot.broker.broker import Broker
from entrepot.broker.namesrv.server import NameServer
from entrepot.broker.server.process import BrokerProcess, BrokerProcessSettings
from entrepot.broker.settings.store import BrokerSettings
from entrepot.domain.clock import Clock
from entrepot.domain.definitions.consumer_group import ConsumerGroup
from entrepot.domain.route import BrokerInfo, Registration
from entrepot.store_client.remote import Cluster, RemoteStore, Tails
from tests.support.brokers.broker_world import LAYOUT
from tests.support.brokers.served_broker import QUICK
from tests.support.waiting import until


class ProcessBroker:
    """`process` and its `broker`, reached at `address`."""

    def __init__(self, broker: Broker, process: BrokerProcess, address: str) -> None:
        self.broker, self.process, self.address = broker, process, address

    def end_seal(self) -> None:
        """As the time does, when nobody renews it."""
        self.process._control._unseal()


async def start_broker(
    directory: Path,
    name: str,
    clock: Clock,
    stack: AsyncExitStack,
    *,
    keeps: bool | None = None,
    name_servers: Sequence[str] = (),
) -> ProcessBroker:
    """It ends with the stack."""
    broker = await Broker.open(BrokerSettings(directory / name, name=name, layout=LAYOUT), clock)
    stack.push_async_callback(broker.close)
    bound = socket.create_server(("127.0.0.1", 0))
    address = f"127.0.0.1:{bound.getsockname()[1]}"
    settings = BrokerProcessSettings(
        name, address, name_servers=name_servers, keeps_key_values=keeps, heartbeat_seconds=0.05
    )
    process = BrokerProcess(broker, settings, bound, clock)
    await process.start()
    stack.push_async_callback(process.close)
    return ProcessBroker(broker, process, address)


async def store_over(brokers: Sequence[ProcessBroker], clock: Clock, stack: AsyncExitStack) -> RemoteStore:
    cluster = Cluster(QUICK, clock)
    store = RemoteStore(cluster, Tails(cluster, clock), ConsumerGroup("defaults"))
    stack.push_async_callback(store.close)
    for broker in brokers:
        cluster.add(broker.address)
    await until(lambda: len(cluster.ready) == len(brokers), "all are there")
    return store


async def start_name_server(stack: AsyncExitStack, *known: BrokerInfo, port: int = 0) -> tuple[NameServer, int]:
    """One that knows these brokers, and its port.  Close it, or let it end with the stack."""
    bound = socket.create_server(("127.0.0.1", port))
    server = NameServer(bound, lease_seconds=600.0)
    for info in known:
        server.table.register(Registration(info, 1), "another", asyncio.get_running_loop().time())
    await server.start()
    stack.push_async_callback(server.close)
    return server, bound.getsockname()[1]
