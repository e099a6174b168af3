"""Topics and groups as their operations tell and change them: pages, pieces, changes, and what is refused."""

from __future__ import annotations

from typing import Any, cast

import msgspec
import pytest

from entrepot.domain.access.model import Action, Origin, Principal, ResourceType
from entrepot.domain.definitions.consumer_group import ConsumerGroup
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.names import qualified
from entrepot.domain.topic import Topic
from entrepot.gateway.operations.nouns.groups import GroupChange, Groups, Reset
from entrepot.gateway.operations.nouns.topics import TopicChange, TopicChanges, Topics, TopicSelection
from entrepot.gateway.operations.row import paging
from entrepot.gateway.operations.row.asked import Asked
from entrepot.gateway.operations.row.paging import Page, Piece, Selection
from entrepot.gateway.operations.row.problem import MissingError
from entrepot.gateway.operations.row.reading import read_body
from entrepot.gateway.operations.row.shapes import GroupName, TopicName
from entrepot.gateway.settings import GroupsSettings, TopicsSettings
from tests.support.clock import ManualClock
from tests.support.stores.model_store import MemoryStore


class Decision:
    def __init__(self, is_allowed: bool) -> None:
        self.is_allowed = is_allowed


class Security:
    """Everybody may list all, or only see some."""

    def __init__(self, *seen: str) -> None:
        self._seen = seen

    def why(self, principal: Principal, action: Action, kind: ResourceType, name: str) -> Decision:
        return Decision(not self._seen or (action is Action.GET and name in self._seen))

    def may_know(self, principal: Principal, kind: ResourceType, name: str) -> bool:
        return not self._seen


class Memberships:
    def __init__(self) -> None:
        self.forgotten: list[dict[str, str]] = []

    async def forget(self, **names: str) -> None:
        self.forgotten.append(names)


class World:
    def __init__(self, *seen: str) -> None:
        self.store, self.memberships = MemoryStore(ManualClock()), Memberships()
        security, memberships = cast("Any", Security(*seen)), cast("Any", self.memberships)
        self.topics = Topics(self.store, security, TopicsSettings(), memberships)
        self.groups = Groups(self.store, security, GroupsSettings(), memberships)


def asked(namespace: str = "default", **query: str) -> Asked:
    return Asked({"namespace": namespace}, query, Principal("ann", Origin.PASSWORD, "192.0.2.1"))


def body(kind: Any, value: object) -> Any:
    return read_body(msgspec.json.Decoder(kind), msgspec.json.encode(value))


async def page_of(topics: Topics, **query: Any) -> tuple[list[str], str | None, int]:
    found = await topics.listed(asked(**{name: str(value) for name, value in query.items()}), TopicSelection(**query))
    assert isinstance(found, Page)
    return [each.name for each in found.value], found.next, found.total


async def test_a_page_goes_on_behind_its_cursor() -> None:
    world = World()
    await world.store.topology.put_namespace("plant")
    for name in ("b", "a", "ab", "c", qualified("plant", "a")):
        await world.store.topology.put_topic(Topic(name, queues=1))
    assert await page_of(world.topics, limit=2) == (["a", "ab"], "ab", 4)
    assert await page_of(world.topics, limit=2, after="ab") == (["b", "c"], None, 4)
    assert await page_of(world.topics, sort="-name", limit=1, after="b") == (["ab"], "ab", 4)
    assert await page_of(world.topics, contains="A") == (["a", "ab"], None, 2)
    assert await page_of(world.topics, prefix="b") == (["b"], None, 1)
    assert (await page_of(world.topics, kind="retry"))[0] == []
    assert await page_of(world.topics, sort="-messages", limit=3) == (["a", "ab", "b"], "0:b", 4)
    assert await page_of(world.topics, sort="-messages", limit=3, after="0:b") == (["c"], None, 4)
    for query, words in (
        ({"sort": "size"}, "sort: must be one of name, messages, written"),
        ({"sort": "messages", "after": "b"}, "after: 'b' is not the cursor"),
        ({"kind": "nix"}, "kind: 'nix' is none of normal"),
    ):
        with pytest.raises(EntrepotError, match=words):
            await page_of(world.topics, **query)


async def test_a_page_has_what_the_caller_may_see() -> None:
    world = World("b", "c")
    for name in ("a", "b", "c"):
        await world.store.topology.put_topic(Topic(name, queues=1))
    assert await page_of(world.topics, limit=9) == (["b", "c"], None, 2)
    found = await world.topics.listed(asked("nowhere", limit="9"), TopicSelection(limit=9))
    assert found.value == [], "a missing namespace is not told"
    with pytest.raises(MissingError, match="there is no namespace 'nowhere'"):
        await World().topics.listed(asked("nowhere", limit="9"), TopicSelection(limit=9))


async def test_a_whole_list_comes_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paging, "PIECE", 2)
    world = World()
    for name in ("b", "a", "c"):
        await world.store.topology.put_group(ConsumerGroup(name))
    first = await world.groups.listed(asked(), Selection())
    assert isinstance(first, Piece) and ([each.name for each in first.value], first.next) == (["a", "b"], "b")
    rest = await world.groups.listed(asked(after="b"), Selection(after="b"))
    assert ([each.name for each in rest.value], rest.next) == (["c"], None)
    assert (rest.answered.asked, rest.answered.answered, rest.answered.missing) == (1, 1, [])


async def test_topics_are_changed_and_deleted() -> None:
    world, name = World(), TopicName("t")
    made = await world.topics.put(name, body(TopicChange, {"queues": 2, "retentionSeconds": 60}))
    assert made.is_new and (made.value.queues, made.value.retention_seconds) == (2, 60)
    changed = await world.topics.put(name, body(TopicChange, {"retentionSeconds": None}))
    assert not changed.is_new and (changed.value.queues, changed.value.retention_seconds) == (2, None)
    with pytest.raises(EntrepotError, match="there are no brokers to name"):
        await world.topics.put(name, body(TopicChange, {"placement": {"b": 1}}))
    await world.topics.delete(name)
    assert world.memberships.forgotten == [{"topic": "t"}]
    with pytest.raises(EntrepotError) as refused:
        await world.topics.show(name)
    assert refused.value.code is Code.TOPIC_NOT_FOUND


async def test_many_topics_have_outcomes_of_their_own() -> None:
    world, request = World(), asked("plant")
    await world.store.topology.put_namespace("plant")
    changes = body(
        TopicChanges, {"value": [{"name": "a", "queues": 2}, {"name": "x", "maxBacklog": -1}, {"name": "b"}]}
    )
    found = msgspec.to_builtins((await world.topics.put_many(request, changes)).value)
    assert [each["name"] for each in found] == ["a", "x", "b"]
    assert found[0] == {"name": "a", "created": True}
    assert found[1]["error"]["code"] == "BAD_REQUEST" and found[1]["error"]["message"].startswith("maxBacklog ")
    assert request.told == (("", "2 topics, 1 refused"),)
    known = world.store.topology.topic(qualified("plant", "a"))
    assert known is not None and known.queues == 2
    with pytest.raises(EntrepotError, match="names a topic twice"):
        await world.topics.put_many(request, body(TopicChanges, {"value": [{"name": "a"}, {"name": "a"}]}))


async def test_groups_are_changed_reset_and_deleted() -> None:
    world, name = World(), GroupName("g")
    await world.store.topology.put_topic(Topic("t", queues=1))
    change = body(GroupChange, {"retry": {"kind": "list", "delaysMs": [5]}, "filter": {"kind": "TAG", "text": "a"}})
    made = await world.groups.put(name, change)
    assert made.is_new and made.value.retry.delays_ms == [5]
    assert made.value.filter is not None and made.value.filter.text == "a"
    kept = await world.groups.put(name, body(GroupChange, {"filter": None, "fifo": True}))
    assert (kept.value.filter, kept.value.fifo, kept.value.retry.delays_ms) == (None, True, [5])
    for field in ("maxAttempts", "retry", "fifo"):
        with pytest.raises(EntrepotError, match=f"{field}: must not be null"):
            body(GroupChange, {field: None})
    request = asked()
    await world.groups.reset(request, name, body(Reset, {"topic": "t", "to": "latest", "queueId": 0}))
    assert request.told == (("", "on topic t queue 0 to latest"),)
    for to in (2**63, "9" * 20, "soon"):
        with pytest.raises(EntrepotError, match="to: "):
            await world.groups.reset(asked(), name, body(Reset, {"topic": "t", "to": to}))
    await world.groups.delete(name)
    assert world.memberships.forgotten == [{"group": "g"}]
