"""What gateways know of brokers from name servers that do not all know the same."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from entrepot.broker.remoting.link import LinkSettings
from entrepot.domain.route import BrokerInfo, BrokerRoute, Registration, Routes, TopicRoute
from entrepot.protocols.remoting.values import encode
from entrepot.store_client.remote import Cluster, RemoteStore
from entrepot.store_client.remote.directory import Directory
from tests.support.broker_world import BrokerWorld
from tests.support.served_broker import QUICK
from tests.support.waiting import until


def route(epoch: int, *, is_alive: bool = True, has_left: bool = False) -> BrokerRoute:
    return BrokerRoute(Registration(BrokerInfo("broker-1", 1, "a:1", "s", epoch), 1), is_alive, has_left)


def tell(directory: Directory, name_server: str, server_id: str, *routes: BrokerRoute) -> list[tuple[int, bool]]:
    """What is known then: epochs, and whether somebody sees them."""
    link: Any = SimpleNamespace(address=name_server)
    directory._item(link, encode(Routes(server_id, 1, routes)))
    return [(each.broker.epoch, each.is_alive) for each in directory.routes()]


async def test_a_broker_that_left_does_not_come_back_through_a_name_server_that_missed_it():
    directory = Directory(["n1:1", "n2:1"], LinkSettings(), lambda routes: None)
    assert tell(directory, "n1:1", "A", route(10)) == [(10, True)]
    assert tell(directory, "n2:1", "B", route(10)) == [(10, True)]
    tell(directory, "n2:1", "B", route(10, is_alive=False))
    assert tell(directory, "n1:1", "A", route(10, is_alive=False, has_left=True)) == []
    assert tell(directory, "n1:1", "begun anew") == []
    assert tell(directory, "n2:1", "B", route(10, is_alive=False)) == []
    assert tell(directory, "n2:1", "B", route(11)) == [(11, True)], "another process of it has come"


@asynccontextmanager
async def cluster_of(world: BrokerWorld) -> AsyncIterator[Cluster]:
    cluster = Cluster(QUICK, world.clock)
    try:
        yield cluster
    finally:
        await cluster.close()


async def test_that_a_broker_drains_is_known_from_its_registration(world: BrokerWorld, store: RemoteStore):
    await world.topic()
    info = replace(world.brokers[1].info(), is_draining=True)
    await world.stop(1)
    async with cluster_of(world) as cluster:
        cluster.add(world.brokers[0].address)
        cluster.take_routes([BrokerRoute(Registration(info, 3, (TopicRoute("t", 2, 2),)), is_alive=False)])
        await until(lambda: "t" in cluster.topics, "the other has told")
        queues = cluster.queues(cluster.topics["t"])
        assert (queues.readable, queues.writable) == ((0, 1, 10000, 10001), (0, 1))


async def test_one_broker_by_two_addresses_is_one(world: BrokerWorld, store: RemoteStore):
    await world.topic()
    served = world.brokers[1]
    known = replace(served.info(), address=f"localhost:{served.port}")
    async with cluster_of(world) as cluster:
        cluster.add(world.brokers[0].address)
        cluster.take_routes([BrokerRoute(Registration(known, 1))])
        await until(lambda: len(cluster.ready) == 2, "both are there")
        cluster.add(served.address)
        await until(lambda: len(cluster.clients) == 2, "it is found to be the same")
        assert [client.link.address for client in cluster.ready] == [world.brokers[0].address, known.address]
        assert cluster.queues(cluster.topics["t"]).readable == (0, 1, 10000, 10001)
