"""Topics and groups: made, changed, forgotten, watched."""

from __future__ import annotations

from dataclasses import replace

import pytest

from entrepot.domain.definitions.consumer_group import ConsumerGroup
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.ports import Store
from entrepot.domain.topic import Permission, Topic
from tests.support.cases import cases
from tests.support.stores.steps import append, bodies, codes, handles, pop
from tests.support.waiting import until

VOID = Code.INVALID_RECEIPT_HANDLE


async def test_topics_are_put_and_listed(store: Store):
    b = await store.topology.put_topic(Topic("b", queues=2, permission=Permission.READ, retention_seconds=60))
    a = await store.topology.put_topic(Topic("a"))
    assert await store.topology.put_topic(a) == a
    assert store.topology.topics() == [a, b]
    assert (store.topology.topic("b"), store.topology.topic("no")) == (b, None)
    changed = await store.topology.put_topic(replace(b, queues=3, permission=Permission.READ_WRITE))
    assert store.topology.topic("b") == changed
    assert (await store.topology.topic_status("b")).topic == changed


async def test_statuses_of_many_are_those_of_each(store: Store):
    for name in ("a", "b", "c"):
        await store.topology.put_topic(Topic(name, queues=2))
        await store.topology.put_group(ConsumerGroup(f"g{name}"))
        await append(store, name, "x", "y")
    await pop(store, "a", group="ga")
    topics = await store.topology.topic_statuses(["c", "none", "a"])
    assert topics == [await store.topology.topic_status(name) for name in ("c", "a")]
    groups = await store.topology.group_statuses(["gb", "ga", "none"])
    assert groups == [await store.topology.group_status(name) for name in ("gb", "ga")]
    assert (await store.topology.topic_statuses([]), await store.topology.group_statuses(["none"])) == ([], [])


@cases(
    ("name", "code"),
    [("", Code.ILLEGAL_TOPIC), ("a b", Code.ILLEGAL_TOPIC), ("x" * 128, Code.ILLEGAL_TOPIC), ("%sys", Code.FORBIDDEN)],
)
async def test_topic_names_are_checked(store: Store, name: str, code: Code):
    with pytest.raises(EntrepotError) as refused:
        await store.topology.put_topic(Topic(name))
    assert refused.value.code == code
    assert store.topology.topics() == []


async def test_a_deleted_topic_is_gone(store: Store):
    await store.topology.put_topic(Topic("t"))
    await append(store, "t", "a")
    await pop(store, "t")
    await store.topology.delete_topic("t")
    assert store.topology.topic("t") is None
    assert (await store.topology.group_status("g")).progress == []
    for call in (
        store.topology.delete_topic("t"),
        store.messages.bounds("t"),
        store.topology.topic_status("t"),
        pop(store, "t"),
    ):
        with pytest.raises(EntrepotError) as refused:
            await call
        assert refused.value.code == Code.TOPIC_NOT_FOUND


async def test_a_recreated_topic_is_a_new_one(store: Store):
    await store.topology.put_topic(Topic("t", queues=1))
    await append(store, "t", "old")
    old = handles(await pop(store, "t"))
    await store.topology.delete_topic("t")
    await store.topology.put_topic(Topic("t", queues=1))
    assert await store.messages.read("t", 0, 0, 10) == []
    assert codes(await store.consumption.acknowledge("t", "g", old)) == [VOID]
    await append(store, "t", "new")
    found = await pop(store, "t")
    assert (bodies(found), found[0].attempt, found[0].message.queue_offset) == (["new"], 1, 0)
    assert codes(await store.consumption.acknowledge("t", "g", old)) == [VOID], (
        "same place, same attempt, another message"
    )
    assert codes(await store.consumption.acknowledge("t", "g", handles(found))) == [None]


async def test_a_recreated_group_is_a_new_one(store: Store):
    await store.topology.put_topic(Topic("t", queues=1))
    await append(store, "t", "a")
    old = handles(await pop(store, "t"))
    await store.topology.delete_group("g")
    found = await pop(store, "t")
    assert (bodies(found), found[0].attempt) == (["a"], 1), "it begins anew"
    assert codes(await store.consumption.acknowledge("t", "g", old)) == [VOID], (
        "same place, same attempt, another group"
    )
    assert codes(await store.consumption.acknowledge("t", "g", handles(found))) == [None]


async def test_groups_are_put_and_listed(store: Store):
    b = await store.topology.put_group(ConsumerGroup("b", max_attempts=2))
    a = await store.topology.put_group(ConsumerGroup("a", start="2024-05-01T00:00:00+02:00"))
    assert await store.topology.put_group(a) == a
    assert store.topology.groups() == [a, b]
    assert (store.topology.group("a"), store.topology.group("no")) == (a, None)
    changed = await store.topology.put_group(replace(b, invisible_seconds=5))
    assert store.topology.group("b") == changed
    assert (await store.topology.group_status("b")).group == changed


@cases("name", ["", "a b", "x" * 121])
async def test_group_names_are_checked(store: Store, name: str):
    with pytest.raises(EntrepotError) as refused:
        await store.topology.put_group(ConsumerGroup(name))
    assert refused.value.code == Code.ILLEGAL_CONSUMER_GROUP


async def test_a_number_sets_a_topic_apart_from_earlier_ones_of_its_name(store: Store):
    """It stays through changes of the definition, and nobody else can give it."""
    assert store.topology.made_at("t", 0) == 0
    topic = await store.topology.put_topic(Topic("t", queues=1))
    await until(lambda: store.topology.made_at("t", 0), "the store has told it")
    first = store.topology.made_at("t", 0)
    await store.topology.put_topic(replace(topic, queues=2, made_at=first + 7))
    await append(store, "t", "a")
    await until(lambda: store.topology.made_at("t", 1), "the store has told it")
    assert store.topology.made_at("t", 0) == store.topology.made_at("t", 1) == first
    await store.topology.delete_topic("t")
    assert store.topology.made_at("t", 0) == 0
    seen: list[str] = []
    store.topology.watch_topics(seen.append)
    await store.topology.put_topic(topic)
    await until(lambda: store.topology.made_at("t", 0), "the store has told it")
    assert store.topology.made_at("t", 0) not in (0, first)
    assert set(seen) == {"t"}


async def test_a_deleted_group_begins_anew_and_leaves_its_dead_letters(store: Store):
    await store.topology.put_topic(Topic("t", queues=1))
    await append(store, "t", "a", "b")
    found = await pop(store, "t")
    await store.consumption.reject("t", "g", handles(found)[:1])
    await store.topology.delete_group("g")
    assert store.topology.group("g") is None
    assert bodies(await store.messages.read("%DLQ%g", 0, 0, 10)) == ["a"]
    for call in (store.topology.delete_group("g"), store.topology.group_status("g")):
        with pytest.raises(EntrepotError) as refused:
            await call
        assert refused.value.code == Code.CONSUMER_GROUP_NOT_FOUND
    assert codes(await store.consumption.acknowledge("t", "g", handles(found)[1:])) == [VOID]
    again = await pop(store, "t")
    assert bodies(again) == ["a", "b"]
    assert {d.attempt for d in again} == {1}


async def test_topics_are_watched(store: Store):
    seen: list[str] = []
    other: list[str] = []
    stop = store.topology.watch_topics(seen.append)
    store.topology.watch_topics(other.append)
    topic = await store.topology.put_topic(Topic("t", queues=1))
    assert seen[-1:] == ["t"]
    await store.topology.put_topic(replace(topic, queues=2))
    assert seen == ["t", "t"]
    await append(store, "t", "a")
    await store.consumption.reject("t", "g", handles(await pop(store, "t")))
    assert "%DLQ%g" in seen
    stop()
    count = len(seen)
    await store.topology.delete_topic("t")
    assert len(seen) == count
    assert other[-1] == "t"


async def test_a_watcher_sees_the_change_in_the_view(store: Store):
    seen: list[Topic | None] = []
    store.topology.watch_topics(lambda name: seen.append(store.topology.topic(name)))
    topic = await store.topology.put_topic(Topic("t", queues=1))
    await store.topology.delete_topic("t")
    assert seen == [topic, None]
