"""The viewer: messages of a topic by queue and offset, time, key or id, read without consuming.

Whoever may get the topic sees places, times and sizes; only who may subscribe to all of it sees keys, properties and
bodies, and may search in them.  Offsets are texts.
"""

from __future__ import annotations

import re
from typing import Annotated, Final, Literal

from fastapi import Depends, Query, Request, Response

from entrepot.domain.access.model import Action, ResourceType, whole_topic
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.expression.filter import FilterExpression, FilterKind
from entrepot.gateway.http.admin.common import PREFIX
from entrepot.gateway.http.admin.pulling import MAX_FILTER_LENGTH
from entrepot.gateway.http.admin.seen import body_shown, note_seen
from entrepot.gateway.http.admin.viewer import NEWEST_FIRST, View, Viewer
from entrepot.gateway.http.asgi import name_in_path
from entrepot.gateway.http.bodies import json_answer
from entrepot.gateway.http.context import HttpContext
from entrepot.gateway.http.namespaced import topic_name
from entrepot.gateway.http.rights import contents, topic
from entrepot.gateway.http.routes import Routes
from entrepot.gateway.operations.shapes import MAX_CURSOR_LENGTH, MAX_NUMBER
from entrepot.gateway.operations.times import epoch_ms_of
from entrepot.gateway.security.security import refusal_of

MAX_SHOWN: Final = 200
DEFAULT_SHOWN: Final = 32
MAX_SCANNED: Final = 10_000
DEFAULT_SCANNED: Final = 1000
MAX_BODY_BYTES: Final = 64 << 10
"""Most bytes of one body in a list; the route of the body has all of them."""
DEFAULT_BODY_BYTES: Final = 1024
MAX_SEARCH: Final = 256
_NOT_FOR_BROWSERS: Final = {"x-content-type-options": "nosniff", "cache-control": "no-store"}
_FILE_NAME: Final = re.compile(r"[^A-Za-z0-9_-]")


def _view(
    queue: int | None = Query(None, ge=0, le=MAX_NUMBER, description="One queue; else the newest of all queues"),
    offset: str | None = Query(
        None, pattern="^[0-9]{1,19}$", description="Of one queue: begin at it, or backward: before it"
    ),
    direction: Literal["forward", "backward"] = Query(NEWEST_FIRST, description="Of one queue: order of the answer"),
    from_time: str | None = Query(None, alias="from", description="Stored at or after: RFC 3339 or epoch milliseconds"),
    to_time: str | None = Query(None, alias="to", description="Stored before: RFC 3339 or epoch milliseconds"),
    key: str | None = Query(None, min_length=1, max_length=MAX_SEARCH, description="Key of the messages"),
    id: str | None = Query(None, min_length=1, max_length=MAX_CURSOR_LENGTH, description="Id of the messages"),  # noqa: A002
    cursor: str | None = Query(None, min_length=1, max_length=MAX_CURSOR_LENGTH, description="Of all queues: `next`"),
    kind: Literal["TAG", "SQL92", "SUB_TOPIC"] = Query("TAG", alias="filterKind"),
    filter_text: str | None = Query(None, alias="filter", max_length=MAX_FILTER_LENGTH),
    text: str = Query("", max_length=MAX_SEARCH, description="Text in names, keys, tag and properties, in any case"),
    body_text: str = Query("", alias="bodyText", max_length=MAX_SEARCH, description="Text in the bodies, in any case"),
    limit: int = Query(DEFAULT_SHOWN, ge=1, le=MAX_SHOWN),
    scan: int = Query(DEFAULT_SCANNED, ge=1, le=MAX_SCANNED, description="Most messages to look at"),
    body_bytes: int = Query(
        DEFAULT_BODY_BYTES, alias="bodyBytes", ge=0, le=MAX_BODY_BYTES, description="Most bytes of a body; 0: none"
    ),
) -> View:
    wanted = None if filter_text is None else FilterExpression(FilterKind(kind), filter_text)
    from_ms = None if from_time is None else epoch_ms_of(from_time, "from")
    to_ms = None if to_time is None else epoch_ms_of(to_time, "to")
    searched = (text.casefold(), body_text.casefold())
    return View(queue, offset, direction, from_ms, to_ms, key, id, cursor, wanted, *searched, limit, scan, body_bytes)


def viewing_routes(context: HttpContext) -> Routes:
    """The routes of the viewer."""
    routes = Routes(["messages"], PREFIX)
    store = context.store
    path = "/topics/{name}/messages"

    @routes.get(path, topic(Action.GET), summary="View messages of a topic without consuming them")
    async def view_messages(request: Request, name: str, view: Annotated[View, Depends(_view)]) -> Response:
        viewer = Viewer(context, request, topic_name(store, request, name))
        if view.is_search and not viewer.sees_contents:
            raise refusal_of(Action.SUB, ResourceType.TOPIC, whole_topic(viewer.topic))
        return json_answer(await viewer.answer(view))

    @routes.get(f"{path}/{{queue}}/{{offset}}", topic(Action.GET), summary="View one message without consuming it")
    async def view_message(
        request: Request,
        name: str,
        queue: str,
        offset: str,
        body_bytes: int = Query(DEFAULT_BODY_BYTES, alias="bodyBytes", ge=0, le=MAX_BODY_BYTES),
    ) -> Response:
        viewer = Viewer(context, request, topic_name(store, request, name))
        message = await viewer.message_at(queue, offset)
        return json_answer(viewer.rows([message], body_bytes)[0])

    @routes.get(
        f"{path}/{{queue}}/{{offset}}/body", contents(), summary="Download the body of a message without consuming it"
    )
    async def download(request: Request, name: str, queue: str, offset: str) -> Response:
        viewer = Viewer(context, request, topic_name(store, request, name))
        message = await viewer.message_at(queue, offset)
        if not viewer.sees_contents:
            raise EntrepotError(Code.FORBIDDEN, f"topic {viewer.topic!r} is not readable")
        body = body_shown(context, request, message)
        note_seen(context, request, viewer.topic, f"queue {message.queue_id}, offset {message.queue_offset}: download")
        file_name = _FILE_NAME.sub("_", f"{name_in_path(name)}-{message.queue_id}-{message.queue_offset}")
        disposition = f'attachment; filename="{file_name}.bin"'
        headers = {"content-disposition": disposition, **_NOT_FOR_BROWSERS}
        return Response(body, media_type="application/octet-stream", headers=headers)

    return routes
