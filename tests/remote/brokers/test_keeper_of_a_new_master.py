"""A gateway that asks a new master before it has read who keeps the key-values learns of it when it has."""

from __future__ import annotations

import socket
from contextlib import AsyncExitStack
from pathlib import Path

from entrepot.broker.broker import Broker
from entrepot.broker.server.process import BrokerProcess, BrokerProcessSettings, make_listener
from entrepot.broker.settings.store import BrokerSettings
from entrepot.gateway.clock import SystemClock
from entrepot.store_client.remote import Cluster
from tests.support.brokers.broker_world import LAYOUT
from tests.support.brokers.served_broker import QUICK
from tests.support.waiting import until


async def test_it_learns_who_keeps_the_key_values(tmp_path: Path) -> None:
    """The listener of a replica is there before its master is."""
    clock = SystemClock()
    async with AsyncExitStack() as stack:
        broker = await Broker.open(BrokerSettings(tmp_path / "data", name="broker-0", layout=LAYOUT), clock)
        stack.push_async_callback(broker.close)
        bound = socket.create_server(("127.0.0.1", 0))
        address = f"127.0.0.1:{bound.getsockname()[1]}"
        settings = BrokerProcessSettings("broker-0", address, keeps_key_values=True)
        listener = make_listener(settings, bound, broker.core.settings)
        await listener.start()
        stack.push_async_callback(listener.close)
        process = BrokerProcess(broker, settings, listener, clock)
        cluster = Cluster(QUICK, clock)
        stack.push_async_callback(cluster.close)
        client = cluster.add(address)
        await until(lambda: client.is_ready, "it has told what it has")
        assert client.info is not None and client.info.keeps_key_values is None
        await process.start()
        stack.push_async_callback(process.close)
        await until(lambda: client.info is not None and client.info.keeps_key_values, lambda: f"{client.info}", 5)
