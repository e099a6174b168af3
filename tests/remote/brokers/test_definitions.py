"""Topics, groups and namespaces over several brokers: all of them, and all gateways, come to the same."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace

import pytest

from entrepot.domain.definitions.consumer_group import ConsumerGroup
from entrepot.domain.errors import Code
from entrepot.domain.topic import Cleanup, Permission, Topic
from entrepot.store_client.remote import RemoteStore
from tests.support.brokers.broker_world import BrokerWorld
from tests.support.stores.steps import append, bodies, codes, handles, pop, refusal_of
from tests.support.waiting import PATIENCE_SECONDS, until


@pytest.mark.parametrize("broker_count", [3])
async def test_topics_come_into_being_on_all_brokers(world: BrokerWorld, store: RemoteStore, broker_count: int):
    topic = await world.topic(queues=2, write_queues=1)
    assert store.topology.queues(topic).readable == (0, 1, 10000, 10001, 20000, 20001)
    assert store.topology.queues(topic).writable == (0, 10000, 20000)
    assert [b.queue_id for b in await store.messages.bounds("t")] == [0, 1, 10000, 10001, 20000, 20001]
    assert [b.queue_id for b in (await store.topology.topic_status("t")).queues] == [0, 1, 10000, 10001, 20000, 20001]


async def test_a_placement_counts_by_broker(world: BrokerWorld, store: RemoteStore, other: RemoteStore):
    placement = (("broker-0", 1), ("broker-1", 3))
    topic = await world.topic(placement=placement)
    for each in (store, other):
        assert each.topology.queues(topic).readable == (0, 10000, 10001, 10002)
        assert [b.queue_id for b in await each.messages.bounds("t")] == [0, 10000, 10001, 10002]
    assert await refusal_of(store.topology.put_topic(Topic("u", placement=(("nobody", 1),)))) == Code.BAD_REQUEST


async def test_what_changes_while_a_broker_is_away_reaches_it(world: BrokerWorld, store: RemoteStore):
    await world.topic("gone")
    await world.topic("changed")
    await store.topology.put_namespace("old")
    await store.topology.put_group(ConsumerGroup("gone"))
    await store.topology.put_group(ConsumerGroup("changed"))
    await world.agree()
    await world.stop(1)
    await store.topology.delete_topic("gone")
    await store.topology.delete_group("gone")
    await store.topology.delete_namespace("old")
    await store.topology.put_topic(Topic("changed", queues=3))
    await store.topology.put_group(ConsumerGroup("changed", max_attempts=3))
    await store.topology.put_namespace("new")
    await store.topology.put_topic(Topic("made"))
    await store.topology.put_group(ConsumerGroup("made"))
    await world.serve(1)
    await world.agree()
    there = world.brokers[1].broker
    assert [topic.name for topic in there.topology.topics()] == ["changed", "made"]
    assert [group.name for group in there.topology.groups()] == ["changed", "made"]
    assert there.topology.namespaces() == ["default", "new"]
    changed = there.topology.topic("changed")
    assert changed is not None
    assert changed.queues == 3


async def test_what_was_deleted_and_made_anew_while_a_broker_was_away(world: BrokerWorld, store: RemoteStore):
    await world.topic()
    await append(store, "t", "old", queue_id=10000)
    await append(store, "t", "old", queue_id=0)
    await world.stop(1)
    await store.topology.delete_topic("t")
    await store.topology.put_topic(Topic("t", queues=2))
    await world.serve(1)
    again = store.topology.topic("t")
    assert again is not None
    assert 10000 not in store.topology.queues(again).writable, "nothing goes into what is to be deleted"
    await until(lambda: 10000 in store.topology.queues(again).writable, "it was deleted, and made anew")
    await append(store, "t", "new", queue_id=10000)
    assert bodies(await store.messages.read("t", 10000, 0, 10)) == ["new"], "it is another topic"
    assert bodies(await pop(store, "t")) == ["new"]


async def test_what_is_made_anew_has_nothing_of_what_was_deleted(world: BrokerWorld, store: RemoteStore):
    """Also where a broker that was away is told of the new topic before it was told of the deletion."""
    await world.topic()
    await append(store, "t", "old", queue_id=10000)
    await world.stop(1)
    await store.topology.delete_topic("t")
    store.cluster._repairing._soon = lambda seconds: None  # type: ignore[method-assign]
    await world.serve(1)
    await store.topology.put_topic(Topic("t", queues=2))
    assert await store.messages.read("t", 10000, 0, 10) == []


async def test_a_deletion_that_is_overtaken_takes_the_messages_with_it(world: BrokerWorld, store: RemoteStore):
    await world.topic()
    await append(store, "t", "old", queue_id=10000)
    served = world.brokers[1]
    known = served.broker.topology.topic("t")
    assert known is not None
    served.deletions.deleted.note({"topic/t": known.revision + 1})  # as while that is written
    assert await served.service.definitions.put_topics([replace(known, revision=known.revision + 2)]) == [None]
    assert await served.broker.messages.read("t", 0, 0, 10) == []
    assert await served.service.definitions.put_topics([replace(known, revision=known.revision + 3, queues=3)]) == [
        None
    ]
    await append(store, "t", "new", queue_id=10000)
    assert bodies(await served.broker.messages.read("t", 0, 0, 10)) == ["new"]


async def test_what_was_deleted_does_not_come_back(world: BrokerWorld, store: RemoteStore):
    await world.topic()
    await store.topology.put_group(ConsumerGroup("g"))
    await world.stop(1)
    await store.topology.delete_topic("t")
    await store.topology.delete_group("g")
    fresh = world.brokers[0].broker
    await world.stop(0)
    await world.brokers[1].serve()
    await until(lambda: store.cluster.ready, "the one that was away is back alone")
    await world.serve(0)
    await world.agree()
    assert (fresh.topology.topics(), fresh.topology.groups(), store.topology.topics(), store.topology.groups()) == (
        [],
        [],
        [],
        [],
    )


@pytest.mark.parametrize("broker_count", [3])
async def test_changes_through_two_stores_at_once_come_to_one(
    world: BrokerWorld, store: RemoteStore, other: RemoteStore, broker_count: int
):
    await change_at_once(world, store, other)


async def change_at_once(world: BrokerWorld, store: RemoteStore, other: RemoteStore) -> None:
    """Change a topic and a group through both stores again and again; each time all come to agree."""
    await world.topic()
    for turn in range(15):
        first, second = Permission.READ if turn % 2 else Permission.WRITE, Permission.READ_WRITE
        await asyncio.gather(
            store.topology.put_topic(Topic("t", queues=2, permission=first)),
            other.topology.put_topic(Topic("t", queues=2, permission=second)),
            store.topology.put_group(ConsumerGroup("g", max_attempts=turn + 1)),
            other.topology.put_group(ConsumerGroup("g", max_attempts=turn + 20)),
        )
        await world.agree()


async def test_changes_of_one_revision_come_to_one(
    world: BrokerWorld, store: RemoteStore, other: RemoteStore, monkeypatch: pytest.MonkeyPatch
):
    """Two gateways draw the same number: a broker keeps what came first, and answers the other one as well."""
    monkeypatch.setattr(random, "randrange", lambda *_: 7)
    await change_at_once(world, store, other)


async def test_deleting_and_making_at_once_comes_to_one(world: BrokerWorld, store: RemoteStore, other: RemoteStore):
    for turn in range(10):
        await world.topic()
        await asyncio.gather(
            store.topology.delete_topic("t"),
            other.topology.put_topic(Topic("t", queues=3 + turn)),
            return_exceptions=True,
        )
        await world.agree()


async def test_a_later_definition_is_not_forgotten_for_an_earlier_one(
    world: BrokerWorld, store: RemoteStore, other: RemoteStore
):
    await world.topic()
    view = next(iter(store.cluster.clients.values())).view
    earlier = view.topics["t"]
    view.took_topic(replace(earlier, permission=Permission.READ, revision=earlier.revision + 5))
    view.took_topic(earlier)
    assert view.topics["t"].permission is Permission.READ
    view.dropped_topic("t", earlier.revision)
    assert "t" in view.topics


async def test_a_shrink_that_one_broker_refuses_happens_nowhere(
    world: BrokerWorld, store: RemoteStore, other: RemoteStore
):
    await world.topic(queues=3)
    await append(store, "t", "a", queue_id=10002)
    assert await refusal_of(store.topology.put_topic(Topic("t", queues=1))) == Code.PRECONDITION_FAILED
    await world.agree()
    for each in (world.brokers[0].broker, world.brokers[1].broker):
        kept = each.topology.topic("t")
        assert kept is not None
        assert kept.queues == 3
    assert bodies(await pop(other, "t")) == ["a"]


async def test_a_new_topic_that_one_broker_refuses_is_nowhere(world: BrokerWorld, store: RemoteStore):
    await store.topology.put_namespace("n")
    await world.agree()
    await world.brokers[1].broker.topology.delete_namespace("n")
    assert await refusal_of(store.topology.put_topic(Topic("n/t"))) in (Code.BAD_REQUEST, Code.ILLEGAL_TOPIC)
    assert not any(served.broker.topology.topics() for served in world.brokers)


async def test_a_system_topic_is_changed_where_it_is(world: BrokerWorld, store: RemoteStore, other: RemoteStore):
    """Dead letters are on the broker that made them alone; nobody makes such a topic by defining it."""
    await world.topic()
    await append(store, "t", "a", queue_id=10000)
    await store.consumption.reject("t", "g", handles(await pop(store, "t", "g")))
    await until(lambda: other.topology.topic("%DLQ%g"), "the dead-letter topic is known")
    letters = other.topology.topic("%DLQ%g")
    assert letters is not None
    await other.topology.put_topic(replace(letters, cleanup=Cleanup.DELETE, retention_seconds=60, revision=0))
    kept = [served.broker.topology.topic("%DLQ%g") for served in world.brokers]
    assert kept[0] is None and kept[1] is not None and kept[1].retention_seconds == 60
    assert await refusal_of(other.topology.put_topic(Topic("%DLQ%nobody"))) == Code.FORBIDDEN
    assert not any(served.broker.topology.topic("%DLQ%nobody") for served in world.brokers)


async def test_a_group_made_by_a_pop_does_not_overwrite_its_definition(
    world: BrokerWorld, store: RemoteStore, other: RemoteStore
):
    await world.topic()
    for turn in range(5):
        name = f"g{turn}"
        await store.topology.put_group(ConsumerGroup(name, fifo=True, max_attempts=3))
        await pop(other, "t", name)  # it may not know of the group yet
        await world.agree()
        assert [served.broker.topology.group(name) for served in world.brokers] == [
            ConsumerGroup(name, fifo=True, max_attempts=3)
        ] * 2


@pytest.mark.parametrize("is_one_away", [True, False])
async def test_a_group_that_was_deleted_can_be_used_anew(world: BrokerWorld, store: RemoteStore, is_one_away: bool):
    await world.topic()
    await append(store, "t", "a", "b", queue_id=0)
    await pop(store, "t")
    await store.topology.delete_group("g")
    if is_one_away:
        await world.stop(1)
    found = await pop(store, "t", count=1)
    assert bodies(found) == ["a"]
    assert codes(await store.consumption.acknowledge("t", "g", handles(found))) == [None]
    if is_one_away:
        await world.serve(1)
    await world.agree()
    assert store.topology.group("g") is not None
    assert bodies(await pop(store, "t")) == ["b"], "what was acknowledged is not forgotten"


async def test_a_change_while_repairs_are_under_way_is_made_good(world: BrokerWorld, store: RemoteStore):
    repairing = store.cluster._repairing
    await world.topic()
    await world.stop(1)
    await store.topology.put_topic(Topic("u"))
    await until(lambda: repairing._timer is None, "what that began is over")
    under_way = asyncio.get_running_loop().create_future()
    repairing._task = asyncio.ensure_future(asyncio.wait((under_way,)))  # type: ignore[arg-type, assignment]
    await world.brokers[1].serve()
    await until(lambda: len(store.cluster.ready) == 2, "it is back")
    first = repairing._timer
    await until(lambda: repairing._timer is not first, "it is looked at while repairs are under way")
    under_way.set_result(None)
    await until(lambda: world.brokers[1].broker.topology.topic("u"), "it is told", 3)


async def test_a_namespace_that_cannot_go_does_not_hold_up_the_rest(world: BrokerWorld, store: RemoteStore):
    await store.topology.put_namespace("n")
    await world.agree()
    await world.stop(1)
    await store.topology.delete_namespace("n")
    await store.topology.put_topic(Topic("t"))
    await world.brokers[1].broker.topology.put_topic(Topic("n/kept"))
    await world.brokers[1].serve()
    await until(lambda: world.brokers[1].broker.topology.topic("t"), "the topic is told", 5)


async def test_nothing_can_be_changed_without_a_broker(world: BrokerWorld, store: RemoteStore):
    await world.topic()
    for number in (0, 1):
        await world.stop(number)
    for call in (
        store.topology.put_topic(Topic("u")),
        store.topology.delete_topic("t"),
        store.topology.put_group(ConsumerGroup("g")),
        store.topology.put_namespace("n"),
        store.topology.group_status("g"),
        pop(store, "t"),
        store.messages.bounds("t"),
        store.key_values.get(["k"]),
    ):
        assert await asyncio.wait_for(refusal_of(call), PATIENCE_SECONDS) == Code.UNAVAILABLE
    assert store.topology.topic("t") is not None, "it is still known"
