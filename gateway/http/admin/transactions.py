"""Transactions: list the half messages that wait for their producer's commit."""

from __future__ import annotations

from typing import Any, Final

from fastapi import Query, Request, Response

from entrepot.domain.message import SystemProperty
from entrepot.domain.names import split_name
from entrepot.domain.ports import Store
from entrepot.domain.transaction import HalfMessage
from entrepot.gateway.http.admin.common import PREFIX
from entrepot.gateway.http.admin.messages import message_shape
from entrepot.gateway.http.bodies import json_answer
from entrepot.gateway.http.context import HttpContext
from entrepot.gateway.http.namespaced import namespace_of, topic_name
from entrepot.gateway.http.rights import contents_in_query
from entrepot.gateway.http.routes import Routes
from entrepot.gateway.operations.problem import MissingError, bad_request
from entrepot.gateway.operations.shapes import MAX_NUMBER
from entrepot.gateway.operations.times import time_shape

MAX_LIMIT: Final = 1000


def transaction_routes(context: HttpContext) -> Routes:
    """The route of transactions."""
    routes = Routes(["transactions"], PREFIX)
    store = context.store

    @routes.get(
        "/transactions", contents_in_query, summary="List half messages that wait for their end, the oldest first"
    )
    async def list_transactions(
        request: Request,
        topic: str | None = Query(None, min_length=1),
        limit: int = Query(32, ge=1, le=MAX_LIMIT),
        cursor: str | None = Query(None, max_length=20, description="`next` of the page before"),
    ) -> Response:
        namespace = namespace_of(store, request)
        name = None if topic is None else topic_name(store, request, topic)
        if name is not None and store.topology.topic(name) is None:
            raise MissingError("topic-not-found", "The topic does not exist", f"there is no topic {topic!r}")
        found = await _waiting(store, namespace, name, -1 if cursor is None else _read_cursor(cursor), limit + 1)
        now_ms, page = context.clock.now_ms(), found[:limit]
        following = str(page[-1].message.commit_log_offset) if len(found) > limit else None
        return json_answer({"value": [_shape(half, now_ms) for half in page], "next": following})

    return routes


async def _waiting(store: Store, namespace: str, topic: str | None, after: int, count: int) -> list[HalfMessage]:
    """The next half messages of a namespace."""
    found: list[HalfMessage] = []
    while len(found) < count:
        page = await store.transactions.half_messages(topic, after=after, limit=count)
        found += [half for half in page if split_name(half.message.topic)[0] == namespace]
        if len(page) < count:
            break
        after = page[-1].message.commit_log_offset
    return found[:count]


def _shape(half: HalfMessage, now_ms: int) -> dict[str, Any]:
    message = half.message
    shape = message_shape(message)
    del shape["queueOffset"]  # not stored in a queue yet
    return {
        "transactionId": message.system_text(SystemProperty.TRANSACTION_ID),
        "checks": half.checks,
        "nextCheckAt": time_shape(half.due_ms),
        "ageSeconds": max(now_ms - message.store_time_ms, 0) / 1000,
        "producer": message.system_text(SystemProperty.BORN_HOST),
        **shape,
    }


def _read_cursor(text: str) -> int:
    number = int(text) if text.isascii() and text.isdecimal() else None
    if number is None or number > MAX_NUMBER:
        raise bad_request(f"cursor: {text[:40]!r} is not the cursor of a listing")
    return number
