"""Event rules of topics: a schema, and the deduplication time of an event by source and id."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from entrepot.domain.access.model import Action, ResourceType, access_name, whole_topic
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.names import check_topic_name, is_hidden_topic, qualified, split_name
from entrepot.gateway.events.rules import (
    DIVERT,
    MAX_DEDUP_SECONDS,
    MAX_SCHEMA_BYTES,
    REFUSE,
    EventRule,
    EventRuleRecord,
)
from entrepot.gateway.operations.row.asked import Asked
from entrepot.gateway.operations.row.operation import Noun
from entrepot.gateway.operations.row.problem import bad_request
from entrepot.gateway.operations.row.rights import HANDLERS_OWN, PROTOCOL, on
from entrepot.gateway.operations.row.shapes import Body, Continued, Query, Shown, TopicName, shown_as

if TYPE_CHECKING:
    from entrepot.domain.ports import Store
    from entrepot.gateway.events.rules import EventRules
    from entrepot.gateway.messaging.topology import Topology
    from entrepot.gateway.security.security import Security

MAX_LIMIT: Final = 200
MAX_TEXT: Final = 256
_TREATMENT: Final = f"^({REFUSE}|{DIVERT})$"
_RULE: Final[Mapping[str, Any]] = {
    "dedup_seconds": 600,
    "dataschema": "https://schemas.example/reading",
    "on_invalid": REFUSE,
    "divert_to": "misfits",
}


class RuleShown(Shown, frozen=True, kw_only=True):
    """The members that all rules have"""

    dedup_seconds: int
    dataschema: str | None
    on_invalid: Literal["refuse", "divert"]
    divert_to: str | None


class EventRulesShown(RuleShown, frozen=True, kw_only=True):
    """A topic's rules for its events"""

    schema: Any | None


class ListedEventRulesShown(RuleShown, frozen=True, kw_only=True):
    """A topic's rules for its events, without its schema"""

    topic: str
    schema_bytes: int


shown_as(EventRulesShown(**_RULE, schema={"type": "object", "required": ["celsius"]}))
shown_as(ListedEventRulesShown(**_RULE, topic="factory", schema_bytes=120))


class EventRuleChange(Body, frozen=True):
    """Change of a topic's event rule."""

    dedup_seconds: Annotated[int, Meta(ge=0, le=MAX_DEDUP_SECONDS)] | UnsetType = UNSET
    schema: dict[str, Any] | bool | UnsetType | None = UNSET
    """JSON Schema of every event's data; null: none."""
    dataschema: Annotated[str, Meta(min_length=1, max_length=2048)] | UnsetType | None = UNSET
    """URI of that schema; an event that names another one does not conform."""
    on_invalid: Annotated[str, Meta(extra_json_schema={"pattern": _TREATMENT})] | UnsetType = UNSET
    divert_to: Annotated[str, Meta(min_length=1, max_length=127)] | UnsetType | None = UNSET
    """Topic for events that do not conform."""


class EventRulesAsked(Query, frozen=True):
    name: Annotated[str, Meta(max_length=MAX_TEXT, description="Part of the topics' names")] = ""
    after: Annotated[str, Meta(max_length=MAX_TEXT, description="Topic after which the list begins")] = ""
    limit: Annotated[int, Meta(ge=1, le=MAX_LIMIT)] = 50


EVENT_RULES: Final = Noun("topics", "", "rule", is_in_namespaces=True)
_PATH: Final = "/topics/{name}/event-rules"


class TopicEventRules:
    """The operations of event rules."""

    def __init__(self, store: Store, rules: EventRules, topology: Topology, security: Security) -> None:
        self._store, self._rules, self._topology, self._security = store, rules, topology, security

    @EVENT_RULES.get(
        "/event-rules",
        "listEventRules",
        "List topics with event rules that the caller may see, ordered by name",
        HANDLERS_OWN,
        shows={"next": "factory"},
    )
    async def listed(self, asked: Asked, query: EventRulesAsked) -> Continued[ListedEventRulesShown]:
        wanted = [
            (plain, rule)
            for topic, rule in self._rules.items()
            for namespace, plain in [split_name(topic)]
            if namespace == asked.namespace
            and plain > query.after
            and query.name in plain
            and self._is_seen(asked, topic)
        ]
        in_order = sorted(wanted, key=lambda each: each[0])
        shown = [_summary(plain, rule) for plain, rule in in_order[: query.limit]]
        return Continued(shown, shown[-1].topic if len(wanted) > query.limit else None)

    @EVENT_RULES.get(_PATH, "getEventRules", "Get the event rule of a topic", on(ResourceType.TOPIC, Action.GET))
    async def show(self, name: TopicName, asked: Asked) -> EventRulesShown:
        return _shown(self._rules.of(self._known(name, asked)))

    @EVENT_RULES.put(
        _PATH,
        "putEventRules",
        "Change the event rule of a topic",
        on(ResourceType.TOPIC, Action.UPDATE),
        example={"dedupSeconds": 600, "schema": {"type": "object"}},
    )
    async def put(self, name: TopicName, asked: Asked, body: EventRuleChange) -> EventRulesShown:
        topic = self._known(name, asked)
        rule = _changed(self._rules.of(topic), body)
        if rule.record.on_invalid == DIVERT:
            await self._check_target(asked, topic, rule.record.divert_to)
        await self._rules.put(topic, rule)
        return _shown(rule)

    @EVENT_RULES.delete(
        _PATH, "deleteEventRules", "Delete the event rule of a topic", on(ResourceType.TOPIC, Action.UPDATE)
    )
    async def delete(self, name: TopicName, asked: Asked) -> None:
        await self._rules.delete(self._known(name, asked))

    def _known(self, topic: str, asked: Asked) -> str:
        name = asked.plain["name"]
        if self._store.topology.topic(topic) is None:
            raise EntrepotError(Code.TOPIC_NOT_FOUND, f"there is no topic {name[:160]!r}")
        if is_hidden_topic(topic):
            raise EntrepotError(Code.FORBIDDEN, f"{name!r} is a system topic: it takes no events")
        return topic

    def _is_seen(self, asked: Asked, topic: str) -> bool:
        """True for a topic that exists and that the caller may see."""
        if self._store.topology.topic(topic) is None:
            return False
        return self._security.allows(asked.principal, Action.GET, ResourceType.TOPIC, access_name(topic), PROTOCOL)

    async def _check_target(self, asked: Asked, topic: str, plain: str) -> None:
        """Make the topic for what does not conform.  Raises BAD_REQUEST, and FORBIDDEN without the rights to create it
        and to publish to it."""
        check_topic_name(plain)
        target = qualified(asked.namespace, plain)
        if target == topic:
            raise bad_request("divertTo: is the topic itself")
        needs = [(Action.PUB, whole_topic(target))]
        if self._store.topology.topic(target) is None:
            needs.append((Action.CREATE, access_name(target)))
        for action, name in needs:
            self._security.check(asked.principal, action, ResourceType.TOPIC, name, PROTOCOL)
        await self._topology.ensure(target)


def _changed(before: EventRule | None, body: EventRuleChange) -> EventRule:
    record, fields = before.record if before is not None else EventRuleRecord(), body.given()
    schema = record.schema
    if "schema" in fields:
        schema = "" if fields["schema"] is None else _text_of(fields["schema"])
        if len(schema) > MAX_SCHEMA_BYTES:
            raise bad_request(f"schema: has {len(schema)} bytes, not up to {MAX_SCHEMA_BYTES}")
    made = EventRuleRecord(
        fields.get("dedup_seconds", record.dedup_seconds),
        schema,
        fields.get("dataschema", record.dataschema) or "",
        fields.get("on_invalid", record.on_invalid),
        fields.get("divert_to", record.divert_to) or "",
    )
    if made.on_invalid not in (REFUSE, DIVERT):
        raise bad_request(f"onInvalid: String should match pattern '{_TREATMENT}'")
    if made.on_invalid == DIVERT and not made.divert_to:
        raise bad_request("divertTo: names the topic for what does not conform")
    return EventRule(made)


def _text_of(schema: dict[str, Any] | bool) -> str:
    try:
        return msgspec.json.encode(schema).decode()
    except RecursionError:  # it was decoded with a little more room
        raise bad_request("schema: it is nested too deep") from None


def _fields(rule: EventRule | None) -> dict[str, Any]:
    record = rule.record if rule is not None else EventRuleRecord()
    return {
        "dedup_seconds": record.dedup_seconds,
        "dataschema": record.dataschema or None,
        "on_invalid": record.on_invalid,
        "divert_to": split_name(record.divert_to)[1] if record.divert_to else None,
    }


def _shown(rule: EventRule | None) -> EventRulesShown:
    schema = rule.record.schema if rule is not None else ""
    return EventRulesShown(**_fields(rule), schema=msgspec.Raw(schema.encode()) if schema else None)


def _summary(plain: str, rule: EventRule) -> ListedEventRulesShown:
    """Return a rule in a list: with the size of its schema only."""
    return ListedEventRulesShown(**_fields(rule), topic=plain, schema_bytes=len(rule.record.schema.encode()))
