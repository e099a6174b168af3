"""Event rules of topics: a schema, and the deduplication time of an event by source and id."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Final

import orjson
from fastapi import Query, Request, Response
from pydantic import Field

from entrepot.domain.access.model import Action, Principal, ResourceType, access_name, whole_topic
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
from entrepot.gateway.http.access import PROTOCOL
from entrepot.gateway.http.admin.common import NO_CONTENT, PREFIX, Change, schema_of
from entrepot.gateway.http.bodies import body_of, json_answer, schema_of_body
from entrepot.gateway.http.context import HttpContext
from entrepot.gateway.http.namespaced import asked_namespace, namespace_of, topic_name
from entrepot.gateway.http.rights import PER_TOPIC, topic
from entrepot.gateway.http.routes import Routes
from entrepot.gateway.operations.problem import bad_request

PATH: Final = "/topics/{name}/event-rules"
MAX_LIMIT: Final = 200


class EventRuleChange(Change):
    """Change of a topic's event rule."""

    may_be_null: ClassVar[frozenset[str]] = frozenset({"schema_", "dataschema", "divert_to"})

    dedup_seconds: Annotated[int, Field(ge=0, le=MAX_DEDUP_SECONDS)] | None = None
    schema_: dict[str, Any] | bool | None = Field(None, alias="schema")
    """JSON Schema of every event's data; null: none."""
    dataschema: Annotated[str, Field(min_length=1, max_length=2048)] | None = None
    """URI of that schema; an event that names another one does not conform."""
    on_invalid: Annotated[str, Field(pattern=f"^({REFUSE}|{DIVERT})$")] | None = None
    divert_to: Annotated[str, Field(min_length=1, max_length=127)] | None = None
    """Topic for events that do not conform."""


_BODY: Final = schema_of_body(schema_of(EventRuleChange), required=False)


def event_rule_routes(context: HttpContext) -> Routes:
    """The four routes of event rules."""
    routes = Routes(["topics"], PREFIX)
    store, rules = context.store, context.event_rules
    _add_list(routes, context)

    @routes.get(PATH, topic(Action.GET), summary="Get the event rule of a topic")
    async def get_rules(request: Request, name: str) -> Response:
        return json_answer(_shape(rules.of(_known(context, request, name))))

    @routes.put(PATH, topic(Action.UPDATE), summary="Change the event rule of a topic", openapi_extra=_BODY)
    async def put_rules(request: Request, name: str) -> Response:
        topic = _known(context, request, name)
        change = await body_of(request, context, EventRuleChange)
        rule = _changed(rules.of(topic), change.given())
        if rule.record.on_invalid == DIVERT:
            await _check_target(context, request, topic, rule.record.divert_to)
        await rules.put(topic, rule)
        return json_answer(_shape(rule))

    @routes.delete(PATH, topic(Action.UPDATE), summary="Delete the event rule of a topic", status_code=NO_CONTENT)
    async def delete_rules(request: Request, name: str) -> Response:
        await rules.delete(_known(context, request, name))
        return Response(status_code=NO_CONTENT)

    def _known(context: HttpContext, request: Request, name: str) -> str:
        topic = topic_name(store, request, name)
        if store.topology.topic(topic) is None:
            raise EntrepotError(Code.TOPIC_NOT_FOUND, f"there is no topic {name[:160]!r}")
        if is_hidden_topic(topic):
            raise EntrepotError(Code.FORBIDDEN, f"{name!r} is a system topic: it takes no events")
        return topic

    return routes


def _add_list(routes: Routes, context: HttpContext) -> None:
    @routes.get(
        "/event-rules", PER_TOPIC, summary="List topics with event rules that the caller may see, ordered by name"
    )
    async def list_rules(
        request: Request,
        name: str = Query("", max_length=256, description="Part of the topics' names"),
        after: str = Query("", max_length=256, description="Topic after which the list begins"),
        limit: int = Query(50, ge=1, le=MAX_LIMIT),
    ) -> Response:
        namespace = asked_namespace(request)
        wanted = [
            (plain, rule)
            for topic, rule in context.event_rules.items()
            for of, plain in [split_name(topic)]
            if of == namespace and plain > after and name in plain and _is_seen(context, request, topic)
        ]
        listed = sorted(wanted, key=lambda each: each[0])
        shown = [{"topic": plain, **_summary(rule)} for plain, rule in listed[:limit]]
        return json_answer({"value": shown, "next": shown[-1]["topic"] if len(listed) > limit else None})


def _is_seen(context: HttpContext, request: Request, topic: str) -> bool:
    """True for a topic that exists and that the caller may see."""
    if context.store.topology.topic(topic) is None:
        return False
    name = access_name(topic)
    return context.security.allows(request.state.principal, Action.GET, ResourceType.TOPIC, name, PROTOCOL)


def _changed(before: EventRule | None, fields: dict[str, Any]) -> EventRule:
    record = before.record if before is not None else EventRuleRecord()
    schema = record.schema
    if "schema_" in fields:
        schema = "" if fields["schema_"] is None else orjson.dumps(fields["schema_"]).decode()
        if len(schema) > MAX_SCHEMA_BYTES:
            raise bad_request(f"schema: has {len(schema)} bytes, not up to {MAX_SCHEMA_BYTES}")
    made = EventRuleRecord(
        fields.get("dedup_seconds", record.dedup_seconds),
        schema,
        fields.get("dataschema", record.dataschema) or "",
        fields.get("on_invalid", record.on_invalid),
        fields.get("divert_to", record.divert_to) or "",
    )
    if made.on_invalid == DIVERT and not made.divert_to:
        raise bad_request("divertTo: names the topic for what does not conform")
    return EventRule(made)


async def _check_target(context: HttpContext, request: Request, topic: str, plain: str) -> None:
    check_topic_name(plain)
    target = qualified(namespace_of(context.store, request), plain)
    if target == topic:
        raise bad_request("divertTo: is the topic itself")
    _check_rights(context, request.state.principal, target)
    await context.topology.ensure(target)


def _check_rights(context: HttpContext, principal: Principal, target: str) -> None:
    """Require the rights to create the divert topic and to publish to it."""
    needs = [(Action.PUB, whole_topic(target))]
    if context.store.topology.topic(target) is None:
        needs.append((Action.CREATE, access_name(target)))
    for action, name in needs:
        context.security.check(principal, action, ResourceType.TOPIC, name, PROTOCOL)


def _shape(rule: EventRule | None) -> dict[str, Any]:
    record = rule.record if rule is not None else EventRuleRecord()
    return {
        "dedupSeconds": record.dedup_seconds,
        "schema": orjson.Fragment(record.schema) if record.schema else None,
        "dataschema": record.dataschema or None,
        "onInvalid": record.on_invalid,
        "divertTo": split_name(record.divert_to)[1] if record.divert_to else None,
    }


def _summary(rule: EventRule) -> dict[str, Any]:
    """A rule in a list: with the size of its schema only."""
    shape = _shape(rule)
    del shape["schema"]
    return {**shape, "schemaBytes": len(rule.record.schema.encode())}
