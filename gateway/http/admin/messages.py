"""Stored messages: search by topic, key and time, show by id, and consumption state."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from typing import Any, Final

import msgspec
from fastapi import Query, Request, Response

from entrepot.domain.message import PropertyValue, StoredMessage
from entrepot.domain.names import is_hidden_topic, split_name
from entrepot.domain.ports import Store
from entrepot.domain.query import (
    MAX_QUERY_MESSAGES,
    ConsumptionState,
    HopKind,
    MessageConsumer,
    MessageHop,
    MessageQuery,
)
from entrepot.gateway.http.admin.common import PREFIX
from entrepot.gateway.http.admin.journeys.looking_up import ids_of
from entrepot.gateway.http.admin.seen import note_seen, shown_to
from entrepot.gateway.http.asgi import name_in_path
from entrepot.gateway.http.bodies import json_answer
from entrepot.gateway.http.context import HttpContext
from entrepot.gateway.http.namespaced import topic_name
from entrepot.gateway.http.rights import ANY_CONTENTS, contents_in_query
from entrepot.gateway.http.routes import Routes
from entrepot.gateway.operations.masking import Shown
from entrepot.gateway.operations.message_head import message_shown
from entrepot.gateway.operations.problem import MissingError
from entrepot.gateway.operations.shapes import MAX_CURSOR_LENGTH
from entrepot.gateway.operations.times import epoch_ms_of, time_shape

DEFAULT_LIMIT: Final = 32
STATES: Final[Mapping[ConsumptionState, str]] = {
    ConsumptionState.NOT_YET: "notYet",
    ConsumptionState.IN_FLIGHT: "inFlight",
    ConsumptionState.CONSUMED: "consumed",
    ConsumptionState.FILTERED: "filtered",
    ConsumptionState.DEAD_LETTERED: "deadLettered",
}
HOPS: Final[Mapping[HopKind, str]] = {
    HopKind.STORED: "stored",
    HopKind.DELIVERED: "delivered",
    HopKind.ACKNOWLEDGED: "acknowledged",
    HopKind.RETRIED: "retried",
    HopKind.DEAD_LETTERED: "deadLettered",
}


def message_routes(context: HttpContext) -> Routes:
    """The routes of messages.  Ids belong to no namespace."""
    routes = Routes(["messages"], PREFIX)
    store = context.store

    @routes.get("/messages", contents_in_query, summary="List messages of a topic, the newest first")
    async def query_messages(
        request: Request,
        topic: str = Query(min_length=1),
        key: str | None = Query(None, min_length=1),
        from_time: str | None = Query(
            None, alias="from", description="Start time, RFC 3339 or epoch milliseconds, inclusive"
        ),
        to_time: str | None = Query(
            None, alias="to", description="End time, RFC 3339 or epoch milliseconds, exclusive"
        ),
        limit: int = Query(DEFAULT_LIMIT, ge=1, le=MAX_QUERY_MESSAGES),
        cursor: str | None = Query(None, min_length=1, max_length=MAX_CURSOR_LENGTH),
    ) -> Response:
        from_ms = None if from_time is None else epoch_ms_of(from_time, "from")
        to_ms = None if to_time is None else epoch_ms_of(to_time, "to")
        name = topic_name(store, request, topic)
        page = await store.finder.query(MessageQuery(name, key, from_ms, to_ms, limit, cursor))
        return json_answer({"value": [message_shape(message) for message in page.messages], "next": page.next})

    @routes.plain.get("/messages/{id}", ANY_CONTENTS, summary="Get a message with all its properties")
    async def get_message(request: Request, id: str) -> Response:  # noqa: A002 - the path's word
        message, others = await _by_id(store, name_in_path(id))
        note_seen(context, request, message.topic, f"queue {message.queue_id}, offset {message.queue_offset}: 1 body")
        return json_answer({**full_shape(shown_to(context, request)(message)), "others": others})

    @routes.plain.get(
        "/messages/{id}/consumers", ANY_CONTENTS, summary="Get the state of a message in each consumer group"
    )
    async def get_consumers(id: str) -> Response:  # noqa: A002 - the path's word
        message, _ = await _by_id(store, name_in_path(id))
        return json_answer(
            {"value": [_consumer_shape(consumer) for consumer in await store.finder.message_consumers(message)]}
        )

    @routes.plain.get(
        "/messages/{id}/trace",
        ANY_CONTENTS,
        summary="Get the trace of a message hop by hop: all of it if its topic is traced, else its failed attempts",
    )
    async def get_trace(id: str) -> Response:  # noqa: A002 - the path's word
        text = name_in_path(id)
        for message_id in ids_of(text):
            if hops := await store.finder.message_trace(message_id):
                return json_answer({"value": [_hop_shape(hop) for hop in hops]})
        await _by_id(store, text)  # raises where there is no such message
        return json_answer({"value": []})

    return routes


async def _by_id(store: Store, text: str) -> tuple[StoredMessage, int]:
    """Return the newest message with an id, and the number of others.  The system's copies (dead letters, retries, AMQP
    queues of other brokers) keep the message's id.  They come after messages that a producer sent to a topic."""
    found: list[StoredMessage] = []
    for message_id in ids_of(text):
        found = found or await store.finder.messages_by_id(message_id)
    if not found:
        raise MissingError("message-not-found", "The message does not exist", f"no message has the id {text[:80]!r}")
    sent = next((message for message in found if not is_hidden_topic(message.topic)), found[0])
    return sent, len(found) - 1


def message_shape(message: StoredMessage) -> dict[str, Any]:
    """Return a message without its content as JSON."""
    shape: dict[str, Any] = msgspec.to_builtins(message_shown(message))
    return shape


def full_shape(shown: Shown) -> dict[str, Any]:
    """Return a whole message as JSON, as far as it is shown."""
    message = shown.message
    shape = message_shape(message)
    shape["qos"] = message.qos
    shape["properties"] = [property_shape(name, value) for name, value in shown.properties]
    shape["systemProperties"] = [property_shape(name, value) for name, value in shown.system.items()]
    own = (message.topic, message.queue_id, message.queue_offset)
    places = [own, *(place for place in message.further_places if place != own)]
    shape["places"] = [_place_shape(*place) for place in places]
    shape["body"] = None if shown.body is None else b64encode(shown.body).decode("ascii")
    try:
        shape["text"] = None if shown.body is None else shown.body.decode()
    except UnicodeDecodeError:
        shape["text"] = None
    shape["isMasked"] = shown.is_masked
    return shape


def property_shape(name: str, value: PropertyValue) -> dict[str, str]:
    """Return a property as JSON.  Names may repeat; values may be bytes."""
    if isinstance(value, str):
        return {"name": name, "value": value}
    return {"name": name, "base64": b64encode(value).decode("ascii")}


def _place_shape(full_name: str, queue_id: int, queue_offset: int) -> dict[str, Any]:
    namespace, topic = split_name(full_name)
    return {"topic": topic, "namespace": namespace, "queueId": queue_id, "queueOffset": queue_offset}


def _consumer_shape(consumer: MessageConsumer) -> dict[str, Any]:
    return {"group": split_name(consumer.group)[1], "state": STATES[consumer.state], "attempts": consumer.attempts}


def _hop_shape(hop: MessageHop) -> dict[str, Any]:
    namespace, topic = split_name(hop.topic)
    return {
        "kind": HOPS[hop.kind],
        "time": time_shape(hop.time_ms),
        "topic": topic,
        "namespace": namespace,
        "queueId": hop.queue_id,
        "queueOffset": hop.queue_offset,
        "group": split_name(hop.group)[1] if hop.group else None,
        "attempt": hop.attempt or None,
        "detail": hop.detail or None,
        "consumer": hop.consumer or None,
    }
