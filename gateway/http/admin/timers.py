"""Timers: list scheduled messages, cancel and reschedule them."""

from __future__ import annotations

from typing import Annotated, Any, Final

from fastapi import Query, Request, Response
from pydantic import Field

from entrepot.domain.access.model import Action, ResourceType, whole_topic
from entrepot.domain.access.model import Request as Need
from entrepot.domain.names import split_name
from entrepot.domain.ports import Store
from entrepot.domain.recall_handle import RecallHandle
from entrepot.domain.timestamp import MAX_EPOCH_MS, to_rfc3339
from entrepot.domain.timing import TimedMessage, TimerCursor
from entrepot.gateway.http.admin.common import NO_CONTENT, PREFIX, Body, schema_of
from entrepot.gateway.http.admin.messages import message_shape
from entrepot.gateway.http.asgi import name_in_path
from entrepot.gateway.http.bodies import body_of, json_answer, schema_of_body
from entrepot.gateway.http.changes import tell
from entrepot.gateway.http.context import HttpContext
from entrepot.gateway.http.namespaced import namespace_of, topic_name
from entrepot.gateway.http.rights import contents_in_query
from entrepot.gateway.http.routes import Routes
from entrepot.gateway.operations.ids import id_text
from entrepot.gateway.operations.problem import MissingError, bad_request
from entrepot.gateway.operations.shapes import MAX_CURSOR_LENGTH, MAX_NUMBER
from entrepot.gateway.operations.times import epoch_ms_of

MAX_LIMIT: Final = 1000


class Retime(Body):
    """A scheduled message's new delivery time."""

    deliver_at: Annotated[int, Field(ge=0, le=MAX_EPOCH_MS)] | str


_BODY: Final = schema_of_body(schema_of(Retime))


def _publishing(context: HttpContext, request: Request) -> list[Need]:
    """Needs of cancelling and rescheduling: the right to publish."""
    handle = RecallHandle.decode(name_in_path(request.path_params["handle"]))
    return [Need(Action.PUB, ResourceType.TOPIC, whole_topic(handle.topic))]


def timer_routes(context: HttpContext) -> Routes:
    """The routes of timers.  A handle contains its namespace."""
    routes = Routes(["timers"], PREFIX)
    store = context.store

    @routes.get(
        "/timers",
        contents_in_query,
        summary="List scheduled messages, the next one first",
    )
    async def list_timers(
        request: Request,
        topic: str | None = Query(None, min_length=1),
        limit: int = Query(32, ge=1, le=MAX_LIMIT),
        cursor: str | None = Query(None, min_length=1, max_length=MAX_CURSOR_LENGTH),
    ) -> Response:
        namespace = namespace_of(store, request)
        name = None if topic is None else topic_name(store, request, topic)
        if name is not None and store.topology.topic(name) is None:
            raise MissingError("topic-not-found", "The topic does not exist", f"there is no topic {topic!r}")
        found = await _waiting(store, namespace, name, None if cursor is None else _read_cursor(cursor), limit + 1)
        page = found[:limit]
        following = _cursor_text(_cursor_of(page[-1])) if len(found) > limit else None
        return json_answer({"value": [_shape(timed) for timed in page], "next": following})

    @routes.plain.delete(
        "/timers/{handle}",
        _publishing,
        change="timer recalled",
        summary="Recall a scheduled message",
        status_code=NO_CONTENT,
    )
    async def recall(request: Request, handle: str) -> Response:
        timer = RecallHandle.decode(name_in_path(handle))
        tell(request, f"topic {timer.topic}", f"message {id_text(timer.message_id)}")
        await store.timers.recall(timer.topic, timer.message_id, timer.deliver_at_ms)
        return Response(status_code=NO_CONTENT)

    @routes.plain.put(
        "/timers/{handle}", _publishing, summary="Change the delivery time of a scheduled message", openapi_extra=_BODY
    )
    async def retime(request: Request, handle: str) -> Response:
        timer = RecallHandle.decode(name_in_path(handle))
        given = (await body_of(request, context, Retime)).deliver_at
        deliver_at_ms = epoch_ms_of(str(given), "deliverAt")
        tell(request, f"topic {timer.topic}", f"message {id_text(timer.message_id)} to {to_rfc3339(deliver_at_ms)}")
        await store.timers.retime(timer.topic, timer.message_id, timer.deliver_at_ms, deliver_at_ms)
        renewed = RecallHandle(timer.topic, timer.message_id, deliver_at_ms)
        return json_answer({"handle": renewed.encode(), "deliverAt": to_rfc3339(deliver_at_ms)})

    return routes


async def _waiting(
    store: Store, namespace: str, topic: str | None, after: TimerCursor | None, count: int
) -> list[TimedMessage]:
    found: list[TimedMessage] = []
    while len(found) < count:
        page = await store.timers.timed_messages(topic, after=after, limit=count)
        found += [timed for timed in page if split_name(timed.message.topic)[0] == namespace]
        if len(page) < count:
            break
        after = _cursor_of(page[-1])
    return found[:count]


def _shape(timed: TimedMessage) -> dict[str, Any]:
    message = timed.message
    shape = message_shape(message)
    del shape["queueOffset"]  # not stored in a queue yet
    handle = RecallHandle(message.topic, message.message_id, timed.deliver_at_ms)
    return {"handle": handle.encode(), "deliverAt": to_rfc3339(timed.deliver_at_ms), **shape}


# -- cursors ---------------------------------------------------------------------------------------------------------


def _cursor_of(timed: TimedMessage) -> TimerCursor:
    return TimerCursor(timed.deliver_at_ms, timed.message.commit_log_offset)


def _cursor_text(cursor: TimerCursor) -> str:
    return f"{cursor.deliver_at_ms}-{cursor.commit_log_offset}"


def _read_cursor(text: str) -> TimerCursor:
    numbers = [int(part) if part.isascii() and part.isdecimal() else -1 for part in text.split("-")]
    if len(numbers) != 2 or not all(0 <= number <= MAX_NUMBER for number in numbers):
        raise bad_request(f"cursor: {text[:80]!r} is not the cursor of a listing")
    return TimerCursor(*numbers)
