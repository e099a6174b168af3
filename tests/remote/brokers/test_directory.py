"""What gateways know of brokers from name servers that do not all know the same."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from entrepot.broker.remoting.link import LinkSettings
from entrepot.domain.route import BrokerInfo, BrokerRoute, Registration, Routes, TopicRoute
from entrepot.domain.topic_shares import ReportedBroker, TopicShares
from entrepot.protocols.wire import operations as wire
from entrepot.protocols.wire.values import encode
from entrepot.store_client.remote import Cluster, RemoteStore
from entrepot.store_client.remote.directory import Directory
from tests.support.brokers.broker_world import BrokerWorld
from tests.support.brokers.process_broker import start_name_server
from tests.support.brokers.served_broker import QUICK
from tests.support.waiting import until


def route(epoch: int, *, is_alive: bool = True, has_left: bool = False) -> BrokerRoute:
    return BrokerRoute(Registration(BrokerInfo("broker-1", 1, "a:1", "s", epoch), 1), is_alive, has_left)


def tell(directory: Directory, name_server: str, server_id: str, *routes: BrokerRoute) -> list[tuple[int, bool]]:
    """What is known then: epochs, and whether somebody sees them."""
    link: Any = SimpleNamespace(address=name_server)
    directory._item(link, encode(Routes(server_id, 1, routes)))
    return [(each.broker.epoch, each.is_alive) for each in directory.routes()]


async def test_a_broker_that_left_does_not_come_back_through_a_name_server_that_missed_it():
    directory = Directory(["n1:1", "n2:1"], LinkSettings(), lambda brokers, topics: None)
    assert tell(directory, "n1:1", "A", route(10)) == [(10, True)]
    assert tell(directory, "n2:1", "B", route(10)) == [(10, True)]
    tell(directory, "n2:1", "B", route(10, is_alive=False))
    assert tell(directory, "n1:1", "A", route(10, is_alive=False, has_left=True)) == []
    assert tell(directory, "n1:1", "begun anew") == []
    assert tell(directory, "n2:1", "B", route(10, is_alive=False)) == []
    assert tell(directory, "n2:1", "B", route(11)) == [(11, True)], "another process of it has come"


async def test_changes_are_put_to_what_each_name_server_told():
    """And the topics that may differ are named, as long as nothing but topics has changed."""
    told: list[tuple[dict[str, int], set[str] | None]] = []

    def on_routes(brokers: Sequence[ReportedBroker], topics: Collection[str] | None) -> None:
        shares = {share.name: share.queues for each in brokers for share in each.shares.topics.values()}
        told.append((shares, None if topics is None else set(topics)))

    directory = Directory(["n1:1", "n2:1"], LinkSettings(), on_routes)
    info = route(10).broker

    def item(name_server: str, at: int, since: int | None, registration: Registration, *, alive: bool = True) -> None:
        link: Any = SimpleNamespace(address=name_server)
        directory._item(link, encode(Routes(name_server, at, (BrokerRoute(registration, alive),), since)))

    whole = Registration(info, 1, (TopicRoute("a", 1, 1), TopicRoute("b", 1, 1)))
    item("n1:1", 1, None, whole)
    item("n2:1", 5, None, whole)
    assert told == [({"a": 1, "b": 1}, None)], "the second says nothing new"
    change = Registration(info, 2, (TopicRoute("a", 2, 2),), ("b",), is_whole=False)
    item("n2:1", 6, 5, change)
    item("n1:1", 2, 1, change)
    assert told[1:] == [({"a": 2}, {"a", "b"})]
    item("n1:1", 3, 2, Registration(info, 4, (TopicRoute("c", 1, 1),), is_whole=False))
    assert told[2:] == [({"a": 2, "c": 1}, {"c"})]
    for name_server, at in (("n1:1", 3), ("n2:1", 6)):
        item(name_server, at + 1, at, Registration(info, 4, (), is_whole=False), alive=False)
    assert told[-1] == ({"a": 2, "c": 1}, None), "it is away, as the best word says"


async def test_a_name_server_that_begins_anew_changes_nothing_that_another_knows():
    """Its first word may be of the broker's former process; the other's word goes on to hold."""
    told: list[set[str] | None] = []
    directory = Directory(
        ["n1:1", "n2:1"],
        LinkSettings(),
        lambda brokers, topics: told.append(None if topics is None else set(topics)),
    )

    def item(name_server: str, server_id: str, epoch: int, *topics: str, since: int | None = None) -> None:
        link: Any = SimpleNamespace(address=name_server)
        shares = tuple(TopicRoute(name, 1, 1) for name in topics)
        found = BrokerRoute(Registration(route(epoch).broker, 1, shares))
        directory._item(link, encode(Routes(server_id, 1, (found,), since)))

    item("n1:1", "A", 2, "new")
    item("n2:1", "B", 2, "new")
    item("n1:1", "A2", 1, "old")
    [known] = directory.routes()
    assert (known.broker.epoch, set(known.shares.topics)) == (2, {"new"})
    item("n2:1", "B2", 3, "newer")
    assert told == [None, None], "any topic may differ"


async def test_a_gap_in_the_changes_asks_for_everything(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("entrepot.store_client.remote.directory.AGAIN_SECONDS", 0.05)
    async with AsyncExitStack() as stack:
        server, port = await start_name_server(stack)
        directory = Directory([f"127.0.0.1:{port}"], QUICK, lambda brokers, topics: None)
        directory.start()
        stack.push_async_callback(directory.close)
        info = route(10).broker

        def known() -> list[dict[str, TopicRoute]]:
            return [each.shares.topics for each in directory.routes()]

        def change(version: int, *names: str) -> None:
            shares = tuple(TopicRoute(name, 1, 1) for name in names)
            registration = Registration(info, version, shares, is_whole=False)
            assert server.table.register_change(registration, version - 1, "connection", 0.0)
            server._changed()

        server.table.register(Registration(info, 1, (TopicRoute("a", 1, 1),)), "connection", 0.0)
        server._changed()
        await until(lambda: [set(each) for each in known()] == [{"a"}], "it is told")
        followed = directory._told[f"127.0.0.1:{port}"]
        followed.version = 77
        followed.brokers.clear()
        change(2, "b")
        await until(lambda: [set(each) for each in known()] == [{"a", "b"}], "all of it is told anew")
        change(3, "c")
        await until(lambda: [set(each) for each in known()] == [{"a", "b", "c"}], "and followed further")


async def test_a_name_server_of_an_earlier_version_tells_everything():
    async with AsyncExitStack() as stack:
        server, port = await start_name_server(stack, route(10).broker)
        del server.service.streams[wire.WATCH_ROUTE_CHANGES]
        directory = Directory([f"127.0.0.1:{port}"], QUICK, lambda brokers, topics: None)
        directory.start()
        stack.push_async_callback(directory.close)
        await until(lambda: [each.broker.name for each in directory.routes()] == ["broker-1"], "it is told")


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
        cluster.take_routes([ReportedBroker(info, 3, TopicShares([TopicRoute("t", 2, 2)]), is_alive=False)])
        await until(lambda: "t" in cluster.topics, "the other has told")
        queues = cluster.queues(cluster.topics["t"])
        assert (queues.readable, queues.writable) == ((0, 1, 10000, 10001), (0, 1))


async def test_one_broker_by_two_addresses_is_one(world: BrokerWorld, store: RemoteStore):
    await world.topic()
    served = world.brokers[1]
    known = replace(served.info(), address=f"localhost:{served.port}")
    async with cluster_of(world) as cluster:
        cluster.add(world.brokers[0].address)
        cluster.take_routes([ReportedBroker(known, 1, TopicShares())])
        await until(lambda: len(cluster.ready) == 2, "both are there")
        cluster.add(served.address)
        await until(lambda: len(cluster.clients) == 2, "it is found to be the same")
        assert [client.link.address for client in cluster.ready] == [world.brokers[0].address, known.address]
        assert cluster.queues(cluster.topics["t"]).readable == (0, 1, 10000, 10001)


async def test_the_last_word_from_a_former_address_changes_nothing(world: BrokerWorld):
    """It may be read in the moment in which a name server has told of the next one."""
    served = world.brokers[1]
    info = served.info()
    async with cluster_of(world) as cluster:
        cluster.take_routes([ReportedBroker(info, 1, TopicShares())])
        await until(lambda: len(cluster.ready) == 1, "it is there")
        [former] = cluster.clients.values()
        moved = replace(info, address=f"localhost:{served.port}", epoch=info.epoch + 1)
        cluster.take_routes([ReportedBroker(moved, 2, TopicShares())])
        former._told(encode(wire.Definitions(info, [], [], [], [], None, {})))
        assert list(cluster.clients) == [moved.address]
        await until(lambda: len(cluster.ready) == 1, "it is there by its next address")
