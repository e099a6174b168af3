"""Definitions over several brokers: whatever each has, and in whatever order they are told, they come to agree."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from entrepot.broker.server.definition_log import DefinitionLog
from entrepot.broker.server.placement import Placement
from entrepot.broker.server.served_definitions import ServedDefinitions
from entrepot.domain.definitions.consumer_group import ConsumerGroup
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.route import BrokerInfo
from entrepot.domain.topic import Topic
from entrepot.protocols.wire import operations as wire
from entrepot.protocols.wire import store_rows as rows
from entrepot.protocols.wire.row import Ask
from entrepot.store_client.remote.definitions import (
    BrokerView,
    Repairs,
    deletion,
    localized,
    plan_repairs,
    prevailing_group,
    prevailing_namespaces,
    prevailing_topic,
)
from tests.support.clock import ManualClock
from tests.support.stores.model_store import MemoryStore

NAMES = ("a", "b")
BROKERS = ("one", "two", "three")
REFUSALS = (Code.TOPIC_NOT_FOUND, Code.CONSUMER_GROUP_NOT_FOUND, Code.BAD_REQUEST)


class OneBroker:
    """A broker as its service accepts definitions."""

    def __init__(self, name: str) -> None:
        self.info = BrokerInfo(name, 0, "", "", 1)
        self.store = MemoryStore(ManualClock())
        self.log = DefinitionLog(self.store.key_values)
        placement = Placement(self.store, lambda: name)
        self.definitions = ServedDefinitions(self.store.topology, self.log, placement, lambda: None)

    def view(self) -> BrokerView:
        """What it would tell."""
        namespaces = {name: self.log.namespaces.get(name, 0) for name in self.store.topology.namespaces()}
        topics, groups = list(self.store.topology.topics()), list(self.store.topology.groups())
        view = BrokerView()
        view.apply(
            wire.Definitions(self.info, topics, [], groups, [], namespaces, dict(self.log.deleted)), is_first=True
        )
        return view

    async def ask(self, asked: Ask[object]) -> None:
        try:
            await getattr(self.definitions, asked.row.method)(*asked.arguments)
        except EntrepotError as error:
            if error.code not in REFUSALS:
                raise

    async def repair(self, plan: Repairs) -> None:
        for deleting, gone in (
            (rows.DELETE_TOPIC, plan.gone_topics),
            (rows.DELETE_GROUP, plan.gone_groups),
            (rows.DELETE_NAMESPACE, plan.gone_namespaces),
        ):
            for name, revision in gone:
                await self.ask(deleting.ask(name, revision))
        for name, revision in plan.namespaces:
            await self.ask(rows.PUT_NAMESPACE.ask(name, revision))
        assert all(outcome is None for outcome in await self.definitions.put_topics(plan.topics))
        for group in plan.groups:
            await self.ask(rows.PUT_GROUP.ask(group))


def a_topic(name: str, revision: int) -> Topic:
    """Of one revision there is one definition."""
    placement = tuple((broker, 1 + revision % 9) for broker in BROKERS[: revision % 3])
    return Topic(name, 1 + revision % 12, max_backlog=revision, placement=placement, revision=revision)


CHANGES = st.tuples(
    st.sampled_from(["topic", "group", "namespace"]),
    st.sampled_from(NAMES),
    st.booleans(),  # put, or deleted
    st.sets(st.integers(0, 2), min_size=1),  # by which brokers that was heard
)


async def change(broker: OneBroker, kind: str, name: str, is_put: bool, revision: int) -> None:
    if kind == "topic":
        put = localized(a_topic(name, revision), broker.info.name)
        await broker.ask(rows.PUT_TOPICS.ask([put]) if is_put else rows.DELETE_TOPIC.ask(name, revision))
    elif kind == "group":
        group = ConsumerGroup(name, max_attempts=revision, revision=revision)
        await broker.ask(rows.PUT_GROUP.ask(group) if is_put else rows.DELETE_GROUP.ask(name, revision))
    else:
        await broker.ask((rows.PUT_NAMESPACE if is_put else rows.DELETE_NAMESPACE).ask(name, revision))


@given(
    st.lists(CHANGES, max_size=12).flatmap(
        lambda changes: st.tuples(st.just(changes), st.permutations(range(1, len(changes) + 1)))
    ),
    st.lists(st.permutations(range(3)).flatmap(lambda order: st.integers(1, 3).map(lambda n: order[:n])), max_size=4),
)
def test_brokers_come_to_agree(told: tuple[list, list[int]], rounds: list[list[int]]):
    """Changes reach some brokers, out of order; repairs reach some brokers, others are away; then all are there."""
    asyncio.run(come_to_agree(*told, rounds))


async def come_to_agree(changes: list, revisions: list[int], rounds: list[list[int]]) -> None:
    brokers = [OneBroker(name) for name in BROKERS]
    latest: dict[tuple[str, str], tuple[int, bool]] = {}
    for (kind, name, is_put, heard), revision in zip(changes, revisions, strict=True):
        latest[kind, name] = max(latest.get((kind, name), (0, False)), (revision, is_put))
        for at in heard:
            await change(brokers[at], kind, name, is_put, revision)
    for there in [*rounds, [0, 1, 2], [2, 1, 0]]:
        views = [brokers[at].view() for at in there]  # all are told by what was seen at first
        for at, view in zip(there, views, strict=True):
            await brokers[at].repair(plan_repairs(view, views))
    views = [broker.view() for broker in brokers]
    for view in views:
        assert plan_repairs(view, views) == Repairs()
    for (kind, name), (revision, is_put) in latest.items():
        for view in views:
            check(view, kind, name, revision if is_put else None)


def check(view: BrokerView, kind: str, name: str, revision: int | None) -> None:
    """A broker has the latest definition, or knows that it is gone."""
    if kind == "topic":
        found = view.topics.get(name)
        assert found == (None if revision is None else localized(a_topic(name, revision), view.name))
        assert revision is None or (found is not None and found.revision == revision)
    elif kind == "group":
        group = view.groups.get(name)
        assert (None if group is None else group.revision) == revision
    else:
        assert view.namespaces.get(name) == revision


def view_of(name: str, *topics: Topic, deleted: dict[str, int] | None = None) -> BrokerView:
    view = BrokerView(name, {topic.name: topic for topic in topics})
    view.deleted.note(deleted or {})
    return view


def test_a_topic_that_is_there_anew_survives_its_deletion():
    anew, old = a_topic("t", 9), a_topic("t", 3)
    views = [view_of("one", anew), view_of("two", old), view_of("three", deleted={"topic/t": 5})]
    assert prevailing_topic("t", views) is not None
    assert plan_repairs(views[1], views).topics == [localized(anew, "two")]
    assert plan_repairs(views[2], views).topics == [localized(anew, "three")]


async def test_a_deletion_that_comes_late_is_kept_where_the_topic_is_there_anew():
    broker = OneBroker("one")
    await broker.ask(rows.PUT_TOPICS.ask([a_topic("t", 9)]))
    await broker.ask(rows.DELETE_TOPIC.ask("t", 5))
    views = [broker.view(), view_of("two", localized(a_topic("t", 9), "two"), deleted={"topic/t": 5})]
    assert views[0].topics["t"].revision == 9
    assert not plan_repairs(views[0], views)


def test_a_deletion_is_stronger_than_its_own_revision():
    views = [view_of("one", a_topic("t", 5)), view_of("two", deleted={"topic/t": 5})]
    assert prevailing_topic("t", views) is None
    assert plan_repairs(views[0], views).gone_topics == [("t", 5)]


def test_system_topics_are_each_brokers_own():
    views = [view_of("one", Topic("%RETRY%g", revision=4)), view_of("two")]
    assert not plan_repairs(views[1], views)


def test_the_definition_of_a_placed_topic_is_that_of_who_has_most_of_it():
    topic = Topic("t", 10, write_queues=10, placement=(("one", 9), ("two", 10)), revision=1)
    views = [view_of(name, localized(topic, name)) for name in ("one", "two", "three")]
    assert [view.topics["t"].queues for view in views] == [9, 10, 1]
    for seen in (views, views[::-1]):
        found = prevailing_topic("t", seen)
        assert found is not None
        assert (found.queues, found.write_queues) == (10, 10)


def test_what_is_told_changes_the_view_and_what_is_told_first_is_all():
    info = BrokerInfo("one", 1, "", "", 1)
    view = view_of("old", a_topic("gone", 1), deleted={"topic/x": 1})
    first = wire.Definitions(info, [a_topic("a", 1), a_topic("b", 1)], namespaces={"n": 1}, deleted={"group/g": 2})
    topics, groups = view.apply(first, is_first=True)
    assert (topics, groups) == (["a", "b", "gone"], ["g"])
    then = wire.Definitions(info, [a_topic("c", 2)], ["a"], [ConsumerGroup("g", revision=3)], deleted={"topic/a": 9})
    assert view.apply(then, is_first=False) == (["c", "a"], ["g"])
    assert (view.topics.keys(), view.groups.keys()) == ({"b", "c"}, {"g"})
    assert (view.namespaces, view.deleted) == ({"n": 1}, {"group/g": 2, "topic/a": 9})
    assert prevailing_group("g", [view]) is not None
    assert prevailing_group("g", [view, replace(view, deleted={"group/g": 3})]) is None
    assert deletion("topic/a", [view, BrokerView()]) == 9


def test_a_namespace_holds_by_its_revision():
    views = [BrokerView(namespaces={"n": 3, "m": 1}), BrokerView(namespaces={"n": 1}, deleted={"namespace/m": 2})]
    assert prevailing_namespaces(views) == {"n": 3}
    assert plan_repairs(views[1], views).namespaces == [("n", 3)]
    assert plan_repairs(views[0], views).gone_namespaces == [("m", 2)]


def test_of_one_revision_a_broker_has_what_it_told():
    view = BrokerView("b", groups={"g": ConsumerGroup("g", max_attempts=14, revision=5)})
    view.took_group(ConsumerGroup("g", max_attempts=33, revision=5))
    assert view.groups["g"].max_attempts == 14
    view.took_group(ConsumerGroup("g", max_attempts=34, revision=6))
    assert view.groups["g"].max_attempts == 34
