"""Pull delivery: receive, acknowledge, release, reject, renewLock, by the paths of Event Grid Namespaces.

A topic is read by its name, and a group is its subscription.  Lock tokens are the store's receipt handles.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Annotated, Any, Final

import msgspec
import orjson
from fastapi import Query, Request, Response

from entrepot.domain.access.model import Principal
from entrepot.domain.delivery import Delivery
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.expression.event_filter import EventFilters
from entrepot.domain.names import check_group_name, check_topic_name
from entrepot.domain.ports import MAX_POP_MESSAGES, PopRequest, Store
from entrepot.gateway.http.asgi import Receive, name_in_path, while_connected
from entrepot.gateway.http.bodies import json_body, json_response, schema_of_body
from entrepot.gateway.http.context import HttpContext
from entrepot.gateway.http.filtering import CesqlQuery, FiltersQuery, filters_in, pop_wanted
from entrepot.gateway.http.namespaced import group_name, topic_name
from entrepot.gateway.http.problems import bad_json
from entrepot.gateway.http.rights import consuming
from entrepot.gateway.http.routes import Hot, Routes
from entrepot.gateway.messaging.incidents import Incidents
from entrepot.gateway.messaging.provenance import consumer_at
from entrepot.gateway.messaging.release import release
from entrepot.gateway.operations.change_names import NO_CHANGE
from entrepot.protocols.cloudevents.json_format import encode_event
from entrepot.protocols.cloudevents.mapping import to_event
from entrepot.protocols.cloudevents.recorded import event_json_of

PART: Final = "http receive"
MAX_LOCK_TOKENS: Final = 1000
DEFAULT_WAIT_SECONDS: Final = 60.0
LONGEST_DELAY_SECONDS: Final = 1_000_000_000
"""Longest delay of a release, in seconds, over thirty years: longer ones are cut to it."""

_CONSUMING: Final = consuming("topic", "group")
_QUERY: Final = re.compile(rb"(?:maxEvents=([0-9]{1,4}))?(?:(?:^|&)maxWaitTime=([0-9]{1,4}))?")
SUBSCRIPTION_PATH: Final = "/topics/{topic}/eventsubscriptions/{group}"
_TOKENS_SCHEMA: Final = {
    "type": "object",
    "required": ["lockTokens"],
    "properties": {
        "lockTokens": {"type": "array", "minItems": 1, "maxItems": MAX_LOCK_TOKENS, "items": {"type": "string"}}
    },
}

CreateQuery = Annotated[bool, Query(description="Create a missing topic or group")]
Outcomes = Sequence[EntrepotError | None]
Settle = Callable[[str, str, list[str]], Awaitable[Outcomes]]


class _LockTokens(msgspec.Struct, rename="camel"):
    lock_tokens: Annotated[list[str], msgspec.Meta(min_length=1, max_length=MAX_LOCK_TOKENS)]


_DECODER: Final = msgspec.json.Decoder(_LockTokens)


def receive_routes(context: HttpContext) -> Routes:
    """The five routes of pull delivery."""
    routes = Routes(["pull delivery"])
    _add_receive(routes, context)
    _add_settling(routes, context)
    return routes


def _limits(query: bytes, longest_wait: float) -> Mapping[str, Any] | None:
    said = _QUERY.fullmatch(query)
    if said is None:
        return None
    events = int(said[1] or 1)
    seconds = min(DEFAULT_WAIT_SECONDS, longest_wait) if said[2] is None else float(said[2])
    is_plain = 1 <= events <= MAX_POP_MESSAGES and seconds <= longest_wait
    return {"max_events": events, "max_wait_time": seconds} if is_plain else None


def _add_receive(routes: Routes, context: HttpContext) -> None:
    store, settings = context.store, context.settings.http
    longest = settings.max_wait_seconds

    @routes.post(
        f"{SUBSCRIPTION_PATH}:receive",
        _CONSUMING,
        change=NO_CHANGE,
        hot=Hot(lambda query: _limits(query, longest)),
        summary="Receive events, locked until they are settled or expire",
    )
    async def receive(
        request: Request,
        topic: str,
        group: str,
        max_events: int = Query(1, alias="maxEvents", ge=1, le=MAX_POP_MESSAGES),
        max_wait_time: float = Query(
            min(DEFAULT_WAIT_SECONDS, longest), alias="maxWaitTime", ge=0, le=longest, allow_inf_nan=False
        ),
        filters: FiltersQuery = None,
        cesql: CesqlQuery = None,
        create: CreateQuery = True,
    ) -> Response:
        check_group_name(name_in_path(group))
        topic, group = topic_name(store, request, topic), group_name(store, request, group)
        if not create:
            _check_both_are_there(store, topic, group)
        await ensure_both(context, topic, group)
        popped = await _pop_while_connected(
            context,
            PopRequest(topic, group, max_events, int(max_wait_time * 1000), consumer=consumer_of(context, request)),
            request.receive,
            filters_in(filters, cesql),
        )
        context.sender.traffic.count_out(topic, group, popped)
        return json_response(_received(context.sender.incidents, popped, settings.event_type))


def consumer_of(context: HttpContext, request: Request) -> str:
    """The words for the consumer that a request is of."""
    principal: Principal = request.state.principal
    who = f"HTTP client {principal.name or 'without a name'} from {principal.source}"
    return consumer_at(who, context.sender.provenance.gateway)


def _check_both_are_there(store: Store, topic: str, group: str) -> None:
    """Raise TOPIC_NOT_FOUND, CONSUMER_GROUP_NOT_FOUND: a typo creates neither."""
    if store.topology.topic(topic) is None:
        raise EntrepotError(Code.TOPIC_NOT_FOUND, f"there is no topic {topic!r}")
    if store.topology.group(group) is None:
        raise EntrepotError(Code.CONSUMER_GROUP_NOT_FOUND, f"there is no consumer group {group!r}")


async def ensure_both(context: HttpContext, topic: str, group: str) -> None:
    """Create the topic and the group where the settings allow it.  Raises otherwise."""
    if context.store.topology.topic(topic) is None:
        await context.topology.ensure_readable(topic)
    if context.store.topology.group(group) is None:
        context.settings.groups.by_use(group)  # the store creates it with the first pop


async def _pop_while_connected(
    context: HttpContext, request: PopRequest, receive: Receive, filters: EventFilters
) -> Sequence[Delivery]:
    """Pop, but claim nothing for a client that has disconnected meanwhile."""
    default_type = context.settings.http.event_type
    pop: asyncio.Future[Sequence[Delivery]] = asyncio.ensure_future(
        pop_wanted(context.store, request, filters, default_type)
    )
    try:
        return await while_connected(receive, pop)
    except BaseException:  # cancelled, too: nobody gets them
        pop.add_done_callback(lambda done: _take_back(context, request, done))
        raise


def _take_back(context: HttpContext, request: PopRequest, pop: asyncio.Future[Sequence[Delivery]]) -> None:
    """Release messages popped just as the client disconnected."""
    if not pop.cancelled() and pop.exception() is None:
        release(context.store, request.topic, request.group, pop.result())


def _received(incidents: Incidents, deliveries: Sequence[Delivery], default_type: str) -> bytes:
    """Event Grid's ReceiveResult, joined from encoded events; lock tokens need no escapes."""

    def encode(delivery: Delivery) -> bytes:
        record = delivery.record
        event = None if record is None else event_json_of(record)
        if event is None:
            event = encode_event(to_event(delivery.message, default_type=default_type, unsaid=incidents.unsaid))
        handle = delivery.receipt_handle.encode("ascii")
        return b'{"brokerProperties":{"lockToken":"%b","deliveryCount":%d},"event":%b}' % (
            handle,
            delivery.attempt,
            event,
        )

    value = incidents.encoded(PART, deliveries, encode, lambda delivery: delivery.message)
    return b'{"value":[%b]}' % b",".join(value)


def _add_settling(routes: Routes, context: HttpContext) -> None:
    store = context.store
    body = schema_of_body(_TOKENS_SCHEMA)

    @routes.post(
        f"{SUBSCRIPTION_PATH}:acknowledge",
        _CONSUMING,
        change=NO_CHANGE,
        hot=Hot(lambda query: None if query else {}),
        summary="Acknowledge events for the group",
        openapi_extra=body,
    )
    async def acknowledge(request: Request, topic: str, group: str) -> Response:
        return await _settled(context, request, topic, group, store.consumption.acknowledge)

    @routes.post(
        f"{SUBSCRIPTION_PATH}:release",
        _CONSUMING,
        change=NO_CHANGE,
        summary="Release events to other consumers, after a delay",
        openapi_extra=body,
    )
    async def release(
        request: Request,
        topic: str,
        group: str,
        delay: float = Query(0, alias="releaseDelayInSeconds", ge=0, allow_inf_nan=False),
    ) -> Response:
        delay_ms = int(min(delay, LONGEST_DELAY_SECONDS) * 1000)

        async def release(topic: str, group: str, tokens: list[str]) -> Outcomes:
            return await store.consumption.change_invisible_duration(topic, group, tokens, delay_ms, release=True)

        return await _settled(context, request, topic, group, release)

    @routes.post(
        f"{SUBSCRIPTION_PATH}:reject",
        _CONSUMING,
        change=NO_CHANGE,
        summary="Reject events to the group's dead-letter topic",
        openapi_extra=body,
    )
    async def reject(request: Request, topic: str, group: str) -> Response:
        return await _settled(context, request, topic, group, store.consumption.reject)

    @routes.post(
        f"{SUBSCRIPTION_PATH}:renewLock",
        _CONSUMING,
        change=NO_CHANGE,
        summary="Renew the locks for another invisible duration",
        openapi_extra=body,
    )
    async def renew_lock(request: Request, topic: str, group: str) -> Response:
        async def renew(topic: str, group: str, tokens: list[str]) -> Outcomes:
            return await store.consumption.change_invisible_duration(topic, group, tokens, None, release=False)

        return await _settled(context, request, topic, group, renew)


async def _settled(context: HttpContext, request: Request, topic: str, group: str, settle: Settle) -> Response:
    """Settle the tokens of the body; each has its own outcome."""
    body = await json_body(request, context.settings.http.max_body_bytes)
    try:
        tokens = _DECODER.decode(body).lock_tokens
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise bad_json(error) from None
    check_topic_name(name_in_path(topic), system_allowed=True)
    check_group_name(name_in_path(group))
    topic, group = topic_name(context.store, request, topic), group_name(context.store, request, group)
    outcomes = await settle(topic, group, tokens)
    succeeded, failed = [], []
    for token, refusal in zip(tokens, outcomes, strict=True):
        if refusal is None:
            succeeded.append(token)
        else:
            failed.append({"lockToken": token, "error": {"code": refusal.code.name, "message": refusal.message}})
    return json_response(orjson.dumps({"succeededLockTokens": succeeded, "failedLockTokens": failed}))
