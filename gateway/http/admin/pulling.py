"""Pulling: the messages of one queue by offset, without a group."""

from __future__ import annotations

from typing import Final, Literal

from fastapi import Query, Request, Response

from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.expression.filter import FilterExpression, FilterKind
from entrepot.domain.query import MAX_QUERY_MESSAGES
from entrepot.gateway.http.admin.common import PREFIX
from entrepot.gateway.http.admin.messages import DEFAULT_LIMIT, full_shape
from entrepot.gateway.http.admin.seen import shown_to
from entrepot.gateway.http.asgi import name_in_path
from entrepot.gateway.http.bodies import json_answer
from entrepot.gateway.http.context import HttpContext
from entrepot.gateway.http.namespaced import topic_name
from entrepot.gateway.http.rights import contents
from entrepot.gateway.http.routes import Routes
from entrepot.gateway.operations.problem import bad_request
from entrepot.gateway.operations.shapes import MAX_NUMBER

MAX_FILTER_LENGTH: Final = 4096


def pulling_routes(context: HttpContext) -> Routes:
    """The route of pulling."""
    routes = Routes(["messages"], PREFIX)
    store = context.store

    @routes.get(
        "/topics/{name}/queues/{queue}/messages",
        contents(),
        summary="Pull messages of a queue in order, from an offset on",
    )
    async def pull(
        request: Request,
        name: str,
        queue: str,
        offset: int = Query(ge=0, le=MAX_NUMBER),
        limit: int = Query(DEFAULT_LIMIT, ge=1, le=MAX_QUERY_MESSAGES),
        kind: Literal["TAG", "SQL92", "SUB_TOPIC"] | None = Query(
            None, alias="filterKind", description="Kind of the filter; default TAG"
        ),
        text: str | None = Query(None, alias="filter", max_length=MAX_FILTER_LENGTH),
    ) -> Response:
        topic = topic_name(store, request, name)
        definition = store.topology.topic(topic)
        if definition is not None and not definition.permission.readable:
            raise EntrepotError(Code.FORBIDDEN, f"topic {topic!r} is not readable")
        if kind is not None and text is None:
            raise bad_request("filter: is missing beside filterKind")
        wanted = None if text is None else FilterExpression(FilterKind(kind or FilterKind.TAG), text)
        pulled = await store.messages.pull(topic, queue_number(name_in_path(queue)), offset, limit, wanted)
        shown = shown_to(context, request)
        return json_answer(
            {
                "value": [full_shape(shown(message)) for message in pulled.messages],
                "nextOffset": pulled.next_offset,
                "minOffset": pulled.min_offset,
                "maxOffset": pulled.max_offset,
            }
        )

    return routes


def queue_number(text: str, what: str = "queue") -> int:
    """Parse a number in the path.  Raises BAD_REQUEST that names `what`."""
    number = int(text) if text.isascii() and text.isdecimal() and len(text) <= len(str(MAX_NUMBER)) else None
    if number is None or number > MAX_NUMBER:
        raise bad_request(f"{what}: {text[:40]!r} is no number of a {what}")
    return number
