"""Event rules as their operations tell them: without HTTP."""

from __future__ import annotations

from typing import Any, cast

import msgspec
import pytest
from msgspec import UNSET

from entrepot.domain.access.model import Action, Principal, ResourceType
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.names import DEFAULT_NAMESPACE, qualified, queue_feed
from entrepot.domain.topic import Topic
from entrepot.gateway.events.rules import EventRules
from entrepot.gateway.messaging.topology import Topology
from entrepot.gateway.operations.nouns.event_rules import EventRuleChange, EventRulesAsked, TopicEventRules
from entrepot.gateway.operations.row.shapes import TopicName
from entrepot.gateway.security.security import Security, refusal_of
from entrepot.gateway.settings import TopicsSettings
from tests.support.clock import ManualClock
from tests.support.gateways.asked import asked
from tests.support.stores.model_store import MemoryStore

SCHEMA = {"type": "object", "required": ["celsius"]}
SHOP = TopicName("shop")


class Rights:
    """What is not allowed, and what was asked."""

    def __init__(self) -> None:
        self.denied: set[tuple[Action, str]] = set()
        self.checked: list[tuple[Action, str]] = []

    def allows(self, principal: Principal, action: Action, kind: ResourceType, name: str, protocol: str) -> bool:
        self.checked.append((action, name))
        return (action, name) not in self.denied

    def check(self, principal: Principal, action: Action, kind: ResourceType, name: str, protocol: str) -> None:
        if not self.allows(principal, action, kind, name, protocol):
            raise refusal_of(action, kind, name)


class Site:
    def __init__(self) -> None:
        self.store, self.rights = MemoryStore(ManualClock()), Rights()
        self.kept = EventRules(self.store.key_values)
        topology = Topology(self.store, TopicsSettings())
        self.rules = TopicEventRules(self.store, self.kept, topology, cast(Security, self.rights))

    async def put(self, **fields: Any) -> Any:
        return await self.rules.put(SHOP, asked(name="shop"), EventRuleChange(**fields))


@pytest.fixture
async def site() -> Site:
    made = Site()
    await made.kept.start()
    await made.store.topology.put_topic(Topic(SHOP, queues=1))
    return made


async def test_what_is_not_given_stays_and_null_takes_it_away(site: Site) -> None:
    await site.put(dedup_seconds=600, schema=SCHEMA, dataschema="urn:a")
    shown = await site.put(on_invalid="refuse")
    assert (shown.dedup_seconds, shown.dataschema, msgspec.json.decode(shown.schema)) == (600, "urn:a", SCHEMA)
    assert msgspec.json.decode(msgspec.json.encode(shown))["schema"] == SCHEMA
    shown = await site.put(schema=None, dataschema=None)
    assert (shown.dedup_seconds, shown.dataschema, shown.schema) == (600, None, None)
    assert await site.rules.show(SHOP, asked(name="shop")) == shown
    await site.rules.delete(SHOP, asked(name="shop"))
    assert (await site.rules.show(SHOP, asked(name="shop"))).dedup_seconds == 0


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"on_invalid": "ignore"}, r"onInvalid: String should match pattern '\^\(refuse\|divert\)\$'"),
        ({"on_invalid": "refuse\n"}, "onInvalid: String should match"),
        ({"on_invalid": "divert"}, "divertTo: names the topic"),
        ({"on_invalid": "divert", "divert_to": "shop"}, "divertTo: is the topic itself"),
        ({"schema": {"type": "nonsense"}}, "schema: it is not a JSON Schema: (?!a pattern)"),
        ({"schema": {"pattern": "^(?!a)"}}, "schema: it is not a JSON Schema: a pattern has no look-around"),
        ({"schema": {"title": "x" * (256 * 1024)}}, "schema: has 262156 bytes, not up to 262144"),
    ],
)
async def test_rules_that_are_none_are_refused(site: Site, fields: dict[str, Any], words: str) -> None:
    with pytest.raises(EntrepotError, match=words):
        await site.put(**fields)
    assert site.kept.of(SHOP) is None


async def test_a_schema_that_is_nested_too_deep_is_refused(site: Site) -> None:
    schema: dict[str, Any] = {}
    for _ in range(5000):
        schema = {"not": schema}
    with pytest.raises(EntrepotError, match="schema: it is nested too deep"):
        await site.put(schema=schema)


async def test_who_diverts_may_publish_there_and_create_what_is_not_there(site: Site) -> None:
    wanted = [(Action.PUB, "aside/#"), (Action.CREATE, "aside")]
    for need in wanted:
        site.rights.denied = {need}
        with pytest.raises(EntrepotError) as refused:
            await site.put(on_invalid="divert", divert_to="aside")
        assert refused.value.code is Code.FORBIDDEN
    assert site.store.topology.topic("aside") is None
    site.rights.denied, site.rights.checked = set(), []
    assert (await site.put(on_invalid="divert", divert_to="aside")).divert_to == "aside"
    assert (site.rights.checked, site.store.topology.topic("aside") is not None) == (wanted, True)
    site.rights.checked = []
    await site.put(dedup_seconds=1)
    assert site.rights.checked == wanted[:1], "it is there"


async def test_the_list_has_what_the_caller_sees_of_a_namespace(site: Site) -> None:
    below = TopicName(qualified("plant", "a"))
    await site.store.topology.put_namespace("plant")
    for name in ("c", "a", "b", "ab", below):
        await site.store.topology.put_topic(Topic(name, queues=1))
        await site.rules.put(TopicName(name), asked(name=name), EventRuleChange(dedup_seconds=1, schema=True))
    await site.store.topology.delete_topic("c")
    site.rights.denied = {(Action.GET, "b")}
    first = await site.rules.listed(asked(), EventRulesAsked(limit=1))
    assert ([each.topic for each in first.value], first.next) == (["a"], "a")
    rest = await site.rules.listed(asked(), EventRulesAsked(limit=1, after="a"))
    assert ([each.topic for each in rest.value], rest.next) == (["ab"], None)
    named = await site.rules.listed(asked(), EventRulesAsked(name="b"))
    assert [(each.topic, each.schema_bytes) for each in named.value] == [("ab", 4)]
    of_plant = await site.rules.listed(asked(namespace="plant"), EventRulesAsked())
    assert [each.topic for each in of_plant.value] == ["a"]
    nowhere = await site.rules.listed(asked(namespace="nowhere"), EventRulesAsked())
    assert (nowhere.value, nowhere.next) == ([], None), "who asks may not know which namespaces there are"


async def test_topics_that_are_not_there_and_those_of_the_system_have_no_rules(site: Site) -> None:
    with pytest.raises(EntrepotError, match="there is no topic 'none'") as refused:
        await site.rules.show(TopicName("none"), asked(name="none"))
    assert refused.value.code is Code.TOPIC_NOT_FOUND
    hidden = queue_feed(DEFAULT_NAMESPACE, "jobs")
    await site.store.topology.put_topic(Topic(hidden, queues=1))
    with pytest.raises(EntrepotError, match="is a system topic"):
        await site.rules.show(TopicName(hidden), asked(name=hidden))


def test_a_change_has_what_is_given_alone() -> None:
    assert EventRuleChange(schema=None).given() == {"schema": None}
    assert EventRuleChange().dedup_seconds is UNSET
