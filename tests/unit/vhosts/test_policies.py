"""Policies over one store, at several gateways: what they change, and what they leave as it was declared."""

from __future__ import annotations

import pytest

from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.exchanges.binding import Binding
from entrepot.domain.exchanges.exchange import Exchange, ExchangeType
from entrepot.domain.key_value import KeyValueChange
from entrepot.domain.queues.declaration import declared_queue
from entrepot.domain.queues.policy import ApplyTo, Policy
from entrepot.gateway.amqp.virtual_hosts import records
from entrepot.gateway.amqp.virtual_hosts.definitions import Definitions
from entrepot.gateway.amqp.virtual_hosts.vhost import Queue, Vhost
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


async def declare(definitions: Definitions, vhost: Vhost, name: str, **arguments: object) -> Queue:
    wanted = declared_queue(name, "/", durable=True, arguments=arguments)
    queue, _ = await definitions.declare_queue(vhost, wanted, gateway="g", connection="", now_ms=1)
    return queue


async def test_queues_change_in_place_at_every_gateway(store: MemoryStore) -> None:
    here, vhost = await opened(store)
    _, elsewhere = await opened(store)
    told: list[str] = []
    here.on_queue_known.append(lambda of, queue: told.append(queue.name))
    held = await declare(here, vhost, "q", **{"x-max-length": 5})
    other = await declare(here, vhost, "other")
    told.clear()
    await here.put_policy(vhost, Policy("p", "^q", {"max-length": 9, "message-ttl": 100}))
    assert told == ["q"]  # only what changed
    for queue in (held, elsewhere.queues["q"]):
        arguments = queue.declaration.arguments
        assert (arguments.max_length, arguments.message_ttl_ms) == (5, 100)  # of two numbers the lower
        assert queue.declared.arguments.message_ttl_ms is None and queue.policy is not None
    assert held is vhost.queues["q"] and other.policy is None
    assert vhost.timed == elsewhere.timed == {"q"} and set(vhost.limited) == {held.topic}
    new = await declare(here, vhost, "q2")
    assert new.declaration.arguments.max_length == 9 and new.topic in vhost.limited
    assert await here.delete_policy(vhost, "p", is_operators=False)
    assert not await here.delete_policy(vhost, "p", is_operators=False)
    assert held.declaration == held.declared and new.declaration.arguments.max_length is None
    assert vhost.timed == elsewhere.timed == set() and set(elsewhere.limited) == {held.topic}


async def test_they_are_there_after_a_restart(store: MemoryStore) -> None:
    here, vhost = await opened(store)
    await here.put_policy(vhost, Policy("p", "q", {"expires": 60}, 3, ApplyTo.QUEUES))
    await here.put_policy(vhost, Policy("p", "q", {"expires": 30}, is_operators=True))
    await declare(here, vhost, "q")
    _, again = await opened(store)
    assert again.queues["q"].declaration.arguments.expires_ms == 30
    assert again.policies() == vhost.policies() and again.policies()[0].priority == 3
    assert [each.name for each in again.policies(of_operators=True)] == ["p"]


async def test_alternates_of_exchanges_that_are_there_and_of_new_ones(store: MemoryStore) -> None:
    here, vhost = await opened(store)
    await declare(here, vhost, "lost")
    await here.declare_exchange(vhost, Exchange("ae", ExchangeType.FANOUT), "g")
    await here.bind(vhost, Binding("ae", "lost"))
    await here.declare_exchange(vhost, Exchange("x-old", ExchangeType.DIRECT), "g")
    assert vhost.routing.route("x-old", ("k",)) == ()
    await here.put_policy(vhost, Policy("p", "^x-", {"alternate-exchange": "ae"}))
    await here.declare_exchange(vhost, Exchange("x-new", ExchangeType.DIRECT), "g")
    _, again = await opened(store)
    for of in (vhost, again):
        assert of.routing.route("x-old", ("k",)) == of.routing.route("x-new", ("k",)) == ("lost",)
        policy = of.policy_of_exchange("x-new")
        assert policy is not None and policy.name == "p"
    await here.delete_policy(vhost, "p", is_operators=False)
    for of in (vhost, again):
        assert of.routing.route("x-old", ("k",)) == of.routing.route("x-new", ("k",)) == ()


async def test_one_that_is_not_understood_changes_nothing(store: MemoryStore) -> None:
    here, vhost = await opened(store)
    queue = await declare(here, vhost, "q")
    for n, (pattern, definition, apply_to) in enumerate(
        (("(", b"{}", "all"), ("a(?!b)", b"{}", "all"), (".", b"[", "all"), (".", b"{}", "moons"))
    ):
        record = records.PolicyRecord(f"p{n}", pattern, definition, 0, apply_to)
        key = records.policy_key("default", f"p{n}", is_operators=False)
        await store.key_values.write([KeyValueChange(key, records.encode_record(record))])
    assert vhost.policies() == [] and queue.declaration == queue.declared
    _, again = await opened(store)
    assert again.policies() == [] and set(again.queues) == {"q"}
    assert await here.delete_policy(vhost, "p1", is_operators=False)  # what is set aside can be taken away
    assert not await here.delete_policy(vhost, "p1", is_operators=False)
    await here.put_policy(vhost, Policy("p", "q", {"max-length": 1}))
    assert queue.declaration.arguments.max_length == 1


async def test_clearing_leaves_nothing_behind(store: MemoryStore) -> None:
    here, vhost = await opened(store)
    queue = await declare(here, vhost, "q")
    await here.declare_exchange(vhost, Exchange("e"), "g")
    await here.bind(vhost, Binding("e", "q", "k"))
    await here.put_policy(vhost, Policy("p", "q", {"max-length": 1}))
    await here.clear(vhost)
    assert await store.key_values.scan(records.PREFIX) == []
    assert store.topology.topic(queue.topic) is None and store.topology.group(queue.group) is None
    _, again = await opened(store)
    for of in (vhost, again):
        assert not of.queues and of.routing.exchange("e") is None and of.policies() == []


async def test_streams_keep_what_policies_say(store: MemoryStore) -> None:
    here, vhost = await opened(store)
    await here.put_policy(vhost, Policy("p", "^s", {"max-age": "1m"}))
    queue = await declare(here, vhost, "s", **{"x-queue-type": "stream"})
    topic = store.topology.topic(queue.topic)
    assert topic is not None and topic.retention_seconds == 60
    await here.put_policy(vhost, Policy("p", "^s", {"max-length-bytes": 1000}))
    topic = store.topology.topic(queue.topic)
    assert topic is not None and topic.retention_bytes == 1000
    assert topic.retention_seconds is not None and topic.retention_seconds > 60


def test_what_can_be_no_policy_is_refused() -> None:
    for definition in ({"max-length": "x"}, {"unknown": 1}):
        with pytest.raises(EntrepotError) as refused:
            Policy("p", "q", definition)
        assert refused.value.code is Code.BAD_REQUEST
