"""Definitions over one store, at several gateways: declared once, seen by all, gone with what hangs on them."""

from __future__ import annotations

import asyncio

import pytest

from entrepot.domain.exchanges.binding import Binding, DestinationKind
from entrepot.domain.exchanges.exchange import Exchange, ExchangeType
from entrepot.domain.names import queue_feed
from entrepot.domain.queues.declaration import QueueDeclaration, declared_queue
from entrepot.gateway.amqp.virtual_hosts.definitions import Definitions
from entrepot.gateway.amqp.virtual_hosts.vhost import Queue, Vhost
from entrepot.protocols.amqp.field_table import Timestamp
from tests.support.clock import ManualClock
from tests.support.stores.model_store import MemoryStore


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore(ManualClock())


async def opened(store: MemoryStore) -> tuple[Definitions, Vhost]:
    definitions = Definitions(store)
    await definitions.start()
    vhost = definitions.vhost("/")
    assert vhost is not None
    return definitions, vhost


def queue(name: str, **arguments: object) -> QueueDeclaration:
    return declared_queue(name, "/", durable=True, arguments=arguments)


async def declare(definitions: Definitions, vhost: Vhost, wanted: QueueDeclaration) -> tuple[Queue, bool]:
    return await definitions.declare_queue(vhost, wanted, gateway="g", connection="g/1", now_ms=1)


async def test_what_is_declared_is_known_at_once_everywhere_and_after_a_restart(store: MemoryStore) -> None:
    here, vhost = await opened(store)
    there, elsewhere = await opened(store)
    arguments = {"x-message-ttl": 60_000, "x-custom": {"when": Timestamp(7), "more": [1, "two", b"\xff"]}}
    await here.declare_exchange(vhost, Exchange("e", ExchangeType.TOPIC), "g")
    made, is_new = await declare(here, vhost, queue("q", **arguments))
    await here.bind(vhost, Binding("e", "q", "a.*"))
    assert is_new and vhost.routing.route("e", ("a.b",)) == ("q",)
    again, _ = await opened(store)
    for seen in (elsewhere, again.vhost("/")):
        assert seen is not None
        assert seen.routing.route("e", ("a.b",)) == ("q",)
        declaration = seen.queues["q"].declaration
        assert declaration == made.declaration
        assert declaration.arguments.given == arguments
        assert isinstance(declaration.arguments.given["x-custom"]["when"], Timestamp)  # type: ignore[index]
    assert store.topology.topic(queue_feed("default", "q")) is not None
    found, is_new = await declare(there, elsewhere, queue("q", **arguments))
    assert not is_new and found is elsewhere.queues["q"]


async def test_two_that_declare_at_once_agree(store: MemoryStore) -> None:
    gateways = [await opened(store) for _ in range(4)]
    outcomes = await asyncio.gather(*(declare(each, vhost, queue("q")) for each, vhost in gateways))
    assert sorted(is_new for _, is_new in outcomes) == [False, False, False, True]
    kinds = list(ExchangeType)[:4]
    exchanges = await asyncio.gather(
        *(
            each.declare_exchange(vhost, Exchange("e", kind), "g")
            for (each, vhost), kind in zip(gateways, kinds, strict=True)
        )
    )
    assert len({each.type for each in exchanges}) == 1


async def test_a_queue_goes_with_its_bindings_and_what_hangs_on_them(store: MemoryStore) -> None:
    here, vhost = await opened(store)
    _, elsewhere = await opened(store)
    gone: list[str] = []
    here.on_queue_gone.append(lambda vhost, queue: gone.append(queue.name))
    await here.declare_exchange(vhost, Exchange("outer", auto_delete=True), "g")
    await here.declare_exchange(vhost, Exchange("inner", auto_delete=True), "g")
    found, _ = await declare(here, vhost, queue("q"))
    await here.bind(vhost, Binding("inner", "q", "k"))
    await here.bind(vhost, Binding("outer", "inner", "k", destination_kind=DestinationKind.EXCHANGE))
    await here.delete_queue(vhost, found)
    for each in (vhost, elsewhere):
        assert each.routing.exchange("inner") is None and each.routing.exchange("outer") is None
        assert not each.queues and each.routing.binding_count == 0
    assert gone == ["q"]
    assert store.topology.topic(found.topic) is None and store.topology.group(found.group) is None
    left = [each.key for each in await store.key_values.scan("amqp/")]
    assert left == ["amqp/default/deleted/inner", "amqp/default/deleted/outer"]


async def test_names_outside_of_the_alphabet(store: MemoryStore) -> None:
    here, vhost = await opened(store)
    for name in ("a.b", "%q", "ü" * 100, "#*{}|= ", "x" * 255):
        found, _ = await declare(here, vhost, queue(name))
        assert vhost.routing.route("", (name,)) == (name,)
        assert store.topology.topic(found.topic) is not None
    _, seen = await opened(store)
    assert seen.queues.keys() == vhost.queues.keys()


async def test_each_virtual_host_is_a_namespace(store: MemoryStore) -> None:
    await store.topology.put_namespace("tenant")
    here, vhost = await opened(store)
    other = here.vhost("tenant")
    assert other is not None and here.vhost("nobody") is None
    await declare(here, other, queue("q"))
    assert "q" in other.queues and "q" not in vhost.queues
    assert store.topology.topic(queue_feed("tenant", "q")) is not None


async def test_a_deleted_exchange_is_remembered_until_it_is_declared_again(store: MemoryStore) -> None:
    here, vhost = await opened(store)
    there, elsewhere = await opened(store)
    await here.declare_exchange(vhost, Exchange("e", ExchangeType.TOPIC), "g")
    await here.declare_exchange(vhost, Exchange("f", ExchangeType.TOPIC, auto_delete=True), "g")
    await declare(here, vhost, queue("q"))
    await here.bind(vhost, Binding("f", "q", "a"))
    await here.delete_exchange(vhost, "e")
    await here.delete_queue(vhost, vhost.queues["q"])
    again, _ = await opened(store)
    for seen in (vhost, elsewhere, again.vhost("/")):
        assert seen is not None and [*seen.deleted] == ["e", "f"]
    await there.declare_exchange(elsewhere, Exchange("e", ExchangeType.FANOUT), "g")
    assert [*vhost.deleted] == [*elsewhere.deleted] == ["f"]
    await here.delete_exchange(vhost, "nothing")
    assert [*vhost.deleted] == ["f"], "there was no exchange, and no Topic"


async def test_the_oldest_deletions_are_forgotten(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("entrepot.gateway.amqp.virtual_hosts.definitions.MAX_DELETED", 20)
    here, vhost = await opened(store)
    for number in range(25):
        await here.declare_exchange(vhost, Exchange(f"e{number}", ExchangeType.TOPIC), "g")
        await here.delete_exchange(vhost, f"e{number}")
    assert [*vhost.deleted] == [f"e{number}" for number in range(6, 25)]


async def test_in_another_virtual_host_nothing_is_remembered(store: MemoryStore) -> None:
    await store.topology.put_namespace("plant")
    here, _ = await opened(store)
    vhost = here.vhost("plant")
    assert vhost is not None
    await here.declare_exchange(vhost, Exchange("e", ExchangeType.TOPIC), "g")
    await here.delete_exchange(vhost, "e")
    assert not vhost.deleted and not vhost.keys()
