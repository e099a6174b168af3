"""Namespaces: made, deleted, and the walls between them."""

from __future__ import annotations

from entrepot.domain.definitions.consumer_group import ConsumerGroup
from entrepot.domain.errors import Code
from entrepot.domain.ports import Store
from entrepot.domain.topic import Topic
from tests.support.cases import cases
from tests.support.stores.steps import append, bodies, handles, pop, refusal_of


async def test_namespaces_are_made_and_listed(store: Store):
    assert store.topology.namespaces() == ["default"]
    for name in ("zoo", "alpha", "zoo", "default"):
        await store.topology.put_namespace(name)
    assert store.topology.namespaces()[0] == "default"
    assert sorted(store.topology.namespaces()) == ["alpha", "default", "zoo"]


@cases("name", ["", "a b", "a/b", "%x", "n" * 65])
async def test_names_of_namespaces_are_checked(store: Store, name: str):
    assert await refusal_of(store.topology.put_namespace(name)) == Code.BAD_REQUEST
    assert store.topology.namespaces() == ["default"]


async def test_topics_and_groups_need_their_namespace(store: Store):
    assert await refusal_of(store.topology.put_topic(Topic("ns/t"))) == Code.BAD_REQUEST
    assert await refusal_of(store.topology.put_group(ConsumerGroup("ns/g"))) == Code.BAD_REQUEST
    await store.topology.put_namespace("ns")
    topic = await store.topology.put_topic(Topic("ns/t"))
    group = await store.topology.put_group(ConsumerGroup("ns/g"))
    assert (store.topology.topics(), store.topology.groups()) == ([topic], [group])


async def test_names_within_a_namespace_are_checked(store: Store):
    await store.topology.put_namespace("ns")
    for name, code in (("ns/", Code.ILLEGAL_TOPIC), ("ns/a b", Code.ILLEGAL_TOPIC), ("ns/%sys", Code.FORBIDDEN)):
        assert await refusal_of(store.topology.put_topic(Topic(name))) == code
    assert await refusal_of(store.topology.put_topic(Topic("ns/a/b"))) == Code.ILLEGAL_TOPIC
    assert await refusal_of(store.topology.put_group(ConsumerGroup("ns/a b"))) == Code.ILLEGAL_CONSUMER_GROUP
    await store.topology.put_topic(Topic("ns/" + "x" * 127))
    await store.topology.put_group(ConsumerGroup("ns/" + "x" * 120))


async def test_the_default_namespace_is_not_spelt_out(store: Store):
    assert await refusal_of(store.topology.put_topic(Topic("default/t"))) == Code.ILLEGAL_TOPIC
    assert await refusal_of(store.topology.put_group(ConsumerGroup("default/g"))) == Code.ILLEGAL_CONSUMER_GROUP


async def test_equal_names_of_two_namespaces_are_two_topics(store: Store):
    await store.topology.put_namespace("ns")
    for name in ("t", "ns/t"):
        await store.topology.put_topic(Topic(name, queues=1))
        await append(store, name, f"of {name}")
    assert bodies(await pop(store, "t", "g")) == ["of t"]
    found = await pop(store, "ns/t", "ns/g")
    assert (bodies(found), found[0].message.topic) == (["of ns/t"], "ns/t")
    assert [group.name for group in store.topology.groups()] == ["g", "ns/g"]


async def test_a_group_does_not_read_over_the_wall(store: Store):
    await store.topology.put_namespace("ns")
    await store.topology.put_topic(Topic("t", queues=1))
    await store.topology.put_topic(Topic("ns/t", queues=1))
    await store.topology.put_group(ConsumerGroup("g"))
    await store.topology.put_group(ConsumerGroup("ns/g"))
    assert await refusal_of(pop(store, "ns/t", "g")) == Code.FORBIDDEN
    assert await refusal_of(pop(store, "t", "ns/g")) == Code.FORBIDDEN


async def test_dead_letters_stay_in_the_namespace(store: Store):
    await store.topology.put_namespace("ns")
    await store.topology.put_topic(Topic("ns/t", queues=1))
    await append(store, "ns/t", "a")
    await store.consumption.reject("ns/t", "ns/g", handles(await pop(store, "ns/t", "ns/g")))
    assert bodies(await pop(store, "ns/%DLQ%g", "ns/reader")) == ["a"]


async def test_only_an_empty_namespace_can_be_deleted(store: Store):
    await store.topology.put_namespace("ns")
    await store.topology.put_topic(Topic("ns/t"))
    assert await refusal_of(store.topology.delete_namespace("ns")) == Code.PRECONDITION_FAILED
    await store.topology.put_group(ConsumerGroup("ns/g"))
    await store.topology.delete_topic("ns/t")
    assert await refusal_of(store.topology.delete_namespace("ns")) == Code.PRECONDITION_FAILED
    await store.topology.delete_group("ns/g")
    await store.topology.delete_namespace("ns")
    assert store.topology.namespaces() == ["default"]
    assert await refusal_of(store.topology.put_topic(Topic("ns/t"))) == Code.BAD_REQUEST


async def test_what_is_no_namespace_or_the_default_one_cannot_be_deleted(store: Store):
    assert await refusal_of(store.topology.delete_namespace("default")) == Code.PRECONDITION_FAILED
    assert await refusal_of(store.topology.delete_namespace("no")) == Code.BAD_REQUEST
