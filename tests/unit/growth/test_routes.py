"""A change of topics costs a broker, its name servers and gateways the change, however many topics there are."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from types import SimpleNamespace

import pytest

from entrepot.broker.namesrv.route_table import RouteTable
from entrepot.broker.namesrv.server import NameServer
from entrepot.broker.remoting.link import LinkSettings
from entrepot.broker.server.registration import Registrar
from entrepot.domain.errors import EntrepotError
from entrepot.domain.route import BrokerInfo, Registration, Routes, TopicRoute
from entrepot.domain.topic import Topic
from entrepot.protocols.wire.values import Codec, encode
from tests.support.brokers.process_broker import start_name_server
from tests.support.waiting import until

INFO = BrokerInfo("b", 1, "127.0.0.1:1", "s", 1)


class CountedTopology:
    """Topics, and how often one was asked for."""

    def __init__(self, count: int) -> None:
        self.reads = 0
        self.found = {f"t{number}": Topic(f"t{number}", queues=4) for number in range(count)}
        self.watcher: Callable[[str], None] = lambda name: None

    def topics(self) -> list[Topic]:
        return list(self.found.values())

    def topic(self, name: str) -> Topic | None:
        self.reads += 1
        return self.found.get(name)

    def watch_topics(self, watcher: Callable[[str], None]) -> Callable[[], None]:
        self.watcher = watcher
        return lambda: None

    def put(self, topic: Topic) -> None:
        self.found[topic.name] = topic
        self.watcher(topic.name)


def registrar_of(topology: CountedTopology, infos: list[BrokerInfo], *name_servers: str) -> Registrar:
    def refused(error: EntrepotError) -> None:
        raise error

    return Registrar(
        name_servers,
        LinkSettings("b"),
        SimpleNamespace(topology=topology),  # type: ignore[arg-type]
        lambda: infos[-1],
        register_seconds=600,
        heartbeat_seconds=0.05,
        on_refused=refused,
    )


async def test_a_heartbeat_asks_for_topics_that_changed():
    topology, infos = CountedTopology(1000), [INFO]
    registrar = registrar_of(topology, infos)
    for _ in range(5):
        registrar._update()
    assert (registrar._version, topology.reads, len(registrar._shares.topics)) == (1, 1000, 1000)
    topology.put(Topic("new", queues=1))
    for _ in range(5):
        registrar._update()
    assert (registrar._version, topology.reads) == (2, 1001)
    topology.watcher("new")
    registrar._update()
    assert registrar._version == 2, "what changed back is no change"
    infos.append(BrokerInfo("b", 1, "127.0.0.1:2", "s", 1))
    registrar._update()
    assert (registrar._version, topology.reads) == (3, 1002)
    await registrar.close()


async def test_a_name_server_is_told_what_changed_and_everything_when_it_begins_anew(stack: AsyncExitStack):
    topology = CountedTopology(1000)
    server, port = await start_name_server(stack)
    registrar = registrar_of(topology, [INFO], f"127.0.0.1:{port}")
    registrar.start()
    stack.push_async_callback(registrar.close)

    def known(at: NameServer) -> dict[str, TopicRoute]:
        return {topic: share for each in at.table.brokers() for topic, share in each.shares.topics.items()}

    await until(lambda: len(known(server)) == 1000, "everything is registered")
    sizes = counted_requests(registrar)
    topology.put(Topic("new", queues=3))
    del topology.found["t7"]
    topology.watcher("t7")
    await until(lambda: known(server).get("new") == TopicRoute("new", 3, 3) and "t7" not in known(server), "it is told")
    assert 0 < sizes["register_change"] < 1000 and "register" not in sizes, "the change alone"
    server.table._entries.clear()
    await until(lambda: len(known(server)) == 1000, "a heartbeat finds that it knows nothing")
    assert sizes["register"] > 10_000
    await server.close()
    topology.put(Topic("meanwhile", queues=1))
    again, _ = await start_name_server(stack, port=port)
    await until(lambda: len(known(again)) == 1001, "another run of it knows everything")
    await registrar.close()


def counted_requests(registrar: Registrar) -> dict[str, int]:
    """Bytes of requests without waiting, by operation, from now on."""
    sizes: dict[str, int] = {}
    for link in registrar._links:

        def send(operation, payload, *rest, send=link.send):  # type: ignore[no-untyped-def]
            sizes[operation.name] = sizes.get(operation.name, 0) + len(payload)
            return send(operation, payload, *rest)

        link.send = send  # type: ignore[method-assign]
    return sizes


class Follower:
    """A stream's end: what it was sent."""

    def __init__(self) -> None:
        self.has_credit = True
        self.items: list[bytes] = []
        self.on_credit: Callable[[], None] = lambda: None
        self.on_close: Callable[[], None] = lambda: None

    def send(self, payload: bytes) -> None:
        self.items.append(payload)

    def routes(self) -> Routes:
        found: Routes = Codec(Routes).decode(self.items[-1])
        return found


@pytest.fixture
async def stack() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as stack:
        yield stack


@pytest.fixture
async def name_server() -> AsyncIterator[NameServer]:
    server = NameServer(socket.create_server(("127.0.0.1", 0)), lease_seconds=600.0)
    yield server
    await server.close()


async def test_a_gateway_is_told_what_changed_since_its_last_item(name_server: NameServer):
    topics = tuple(TopicRoute(f"t{number}", 4, 4) for number in range(10_000))
    name_server.table.register(Registration(INFO, 1, topics), "connection", 0.0)
    followers = [Follower() for _ in range(3)]
    for follower in followers:
        name_server._watch(follower)  # type: ignore[arg-type]
    former = Follower()
    name_server._watch(former, are_whole=True)  # type: ignore[arg-type]
    assert len(followers[0].items[0]) > 100_000
    followers[0].on_credit()
    assert len(followers[0].items) == 1, "it has all of it"
    followers[1].has_credit = False
    change = Registration(INFO, 2, (TopicRoute("new", 1, 1),), ("t7",), is_whole=False)
    assert name_server.table.register_change(change, 1, "connection", 0.0)
    name_server._tell_all()
    assert len(followers[0].items[1]) < 1000
    assert followers[0].items[1] is followers[2].items[1], "encoded once for all"
    told = followers[0].routes().brokers[0].registration
    assert (told.topics, told.gone, told.is_whole) == ((TopicRoute("new", 1, 1),), ("t7",), False)
    assert len(former.routes().brokers[0].registration.topics) == 10_000
    name_server.table.disconnected("connection")
    name_server._tell_all()
    followers[1].has_credit = True
    followers[1].on_credit()
    behind = followers[1].routes()
    assert (behind.since, behind.brokers[0].is_alive) == (1, False)
    assert behind.brokers[0].registration.topics == (TopicRoute("new", 1, 1),)
    followers[0].on_close()
    name_server.table.register(Registration(INFO, 3, topics), "connection", 0.0)
    name_server._tell_all()
    assert [len(each.items) for each in followers] == [3, 3, 4]
    assert followers[1].routes().brokers[0].registration.topics == (topics[7],), "a whole registration is compared"
    assert followers[1].routes().brokers[0].registration.gone == ("new",)


def test_a_broker_that_started_again_with_its_topics_is_a_small_change():
    table = RouteTable("server", 600.0)
    topics = tuple(TopicRoute(f"t{number}", 4, 4) for number in range(1000))
    table.register(Registration(INFO, 5, topics), "connection", 0.0)
    table.disconnected("connection")
    before = table.version
    table.register(Registration(BrokerInfo("b", 1, "127.0.0.1:1", "s", 2), 1, topics), "another", 1.0)
    told = table.routes(before).brokers[0]
    assert told.is_alive and (told.broker.epoch, told.registration.version) == (2, 1)
    assert len(encode(table.routes(before))) < 1000
