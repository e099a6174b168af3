"""Dead letters: list with reason and time, resend, export.

A group has dead letters on every broker that gave messages up, with offsets of their own.  The API's `offset` has the
broker's number in it (`domain.shard`), so it is unique.  Broker 0, and a store in this process, have plain offsets.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Annotated, Any, Final

import orjson
import structlog
from fastapi import Query, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import Field

from entrepot.domain.access.model import Action
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.message import StoredMessage, SystemProperty, dead_letter_origin
from entrepot.domain.names import dead_letter_topic, split_name
from entrepot.domain.ports import Store
from entrepot.domain.shard import broker_of_place, broker_of_queue, first_place, first_queue, local_place
from entrepot.gateway.http.admin.common import MAX_NUMBER, PREFIX, Body, Offset, refusal_shape, schema_of, time_shape
from entrepot.gateway.http.admin.messages import full_shape, message_shape
from entrepot.gateway.http.admin.seen import note_seen, shown_to
from entrepot.gateway.http.bodies import body_of, json_answer, schema_of_body
from entrepot.gateway.http.context import HttpContext
from entrepot.gateway.http.masking import Shown
from entrepot.gateway.http.namespaced import group_name
from entrepot.gateway.http.problems import bad_request
from entrepot.gateway.http.rights import group
from entrepot.gateway.http.routes import Routes

MAX_LIMIT: Final = 1000
MAX_OFFSETS: Final = 10_000
RESEND_BATCH: Final = 256
EXPORT_BATCH: Final = 16
"""Number of messages read at once: small, because bodies may be large and readers slow."""
NDJSON: Final = "application/x-ndjson"

_log = structlog.get_logger(__name__)

_FROM_OFFSET: Final = Query(0, ge=0, le=MAX_NUMBER, description="First queue offset")


class Resend(Body):
    """The dead letters to resend: these, or all of them."""

    offsets: Annotated[list[Offset], Field(min_length=1, max_length=MAX_OFFSETS)] | None = None
    all: bool | None = None


_BODY: Final = schema_of_body(schema_of(Resend))


def dead_letter_routes(context: HttpContext) -> Routes:
    """The routes of dead letters."""
    routes = Routes(["groups"], PREFIX)
    store = context.store
    path = "/groups/{name}/dead-letters"

    @routes.get(path, group(Action.SUB), summary="List dead letters of a group, the oldest first")
    async def list_dead_letters(
        request: Request,
        name: str,
        from_offset: int = _FROM_OFFSET,
        limit: int = Query(32, ge=1, le=MAX_LIMIT),
    ) -> Response:
        value: list[dict[str, Any]] = []
        for part in await _parts(store, group_name(store, request, name), from_offset):
            while part.start < part.end:
                if len(value) == limit:
                    return json_answer({"value": value, "next": part.first_offset + part.start})
                found = await store.messages.read(
                    part.topic, part.queue_id, part.start, min(limit - len(value), part.left)
                )
                if not found:
                    break
                value += [_shape(message, message_shape(message)) for message in found]
                part.start = found[-1].queue_offset + 1
        return json_answer({"value": value, "next": None})

    @routes.post(
        f"{path}:resend", group(Action.UPDATE), summary="Resend dead letters to the group", openapi_extra=_BODY
    )
    async def resend(request: Request, name: str) -> Response:
        group = group_name(store, request, name)
        body = await body_of(request, context, Resend)
        if (body.offsets is None) is not (body.all is True):
            raise bad_request('either "offsets" or "all": true must be given')
        outcome = _Outcome()
        if body.offsets is not None:
            await _resend(store, group, body.offsets, outcome)
        else:
            for part in await _parts(store, group, 0):
                every = range(part.first_offset + part.start, part.first_offset + part.end)
                for at in range(0, len(every), RESEND_BATCH):
                    await _resend(store, group, list(every[at : at + RESEND_BATCH]), outcome)
        return json_answer({"resentOffsets": outcome.resent, "failedOffsets": outcome.failed})

    @routes.get(
        f"{path}:export",
        group(Action.SUB),
        summary="Export dead letters of a group as newline-delimited JSON, the oldest first",
    )
    async def export(request: Request, name: str, from_offset: int = _FROM_OFFSET) -> Response:
        parts = await _parts(store, group_name(store, request, name), from_offset)
        note_seen(context, request, dead_letter_topic(group_name(store, request, name)), "export of all bodies")
        return StreamingResponse(_lines(store, parts, shown_to(context, request)), media_type=NDJSON)

    return routes


class _Outcome:
    def __init__(self) -> None:
        self.resent: list[int] = []
        self.failed: list[dict[str, Any]] = []


async def _resend(store: Store, group: str, offsets: list[int], outcome: _Outcome) -> None:
    by_broker: dict[int, list[int]] = {}
    for offset in offsets:
        by_broker.setdefault(broker_of_place(offset), []).append(offset)
    for broker, its_offsets in by_broker.items():
        refusals = await store.consumption.resend_dead_letters(
            group, list(map(local_place, its_offsets)), first_queue(broker)
        )
        for offset, refusal in zip(its_offsets, refusals, strict=True):
            if refusal is None:
                outcome.resent.append(offset)
            else:
                outcome.failed.append({"offset": offset, "error": refusal_shape(refusal)})


@dataclass(slots=True)
class _Part:
    """One broker's dead letters: the first and the end offset."""

    topic: str
    queue_id: int
    start: int
    end: int

    @property
    def left(self) -> int:
        return self.end - self.start

    @property
    def first_offset(self) -> int:
        """The broker's number as part of an offset."""
        return first_place(broker_of_queue(self.queue_id))


async def _parts(store: Store, group: str, from_offset: int) -> list[_Part]:
    """A group's dead letters by broker.  A deleted group may have left some."""
    topic = dead_letter_topic(group)
    if store.topology.topic(topic) is None:
        if store.topology.group(group) is None:
            raise EntrepotError(Code.CONSUMER_GROUP_NOT_FOUND, f"there is no group {split_name(group)[1][:160]!r}")
        return []
    parts = [
        _Part(topic, each.queue_id, each.min_offset, each.max_offset) for each in await store.messages.bounds(topic)
    ]
    for part in parts:
        part.start = min(max(from_offset - part.first_offset, part.start), part.end)
    return parts


async def _lines(store: Store, parts: list[_Part], shown: Callable[[StoredMessage], Shown]) -> AsyncIterator[bytes]:
    """Yield each dead letter as one line.  A failure breaks the answer off, so that it does not look complete."""
    for part in parts:
        while part.left > 0:
            try:
                found = await store.messages.read(part.topic, part.queue_id, part.start, min(EXPORT_BATCH, part.left))
            except EntrepotError as error:
                _log.warning("an export broke off", topic=part.topic, offset=part.start, detail=error.message)
                raise
            if not found:
                break
            lines = (
                orjson.dumps(_shape(message, full_shape(shown(message))), option=orjson.OPT_APPEND_NEWLINE)
                for message in found
            )
            yield b"".join(lines)
            part.start = found[-1].queue_offset + 1


def _shape(message: StoredMessage, shape: dict[str, Any]) -> dict[str, Any]:
    """Return a dead letter as JSON: the message, its origin, and the reason and time of giving it up."""
    attempts = _number(message, SystemProperty.DEAD_LETTER_ATTEMPTS)
    came_from, origin = dead_letter_origin(message), None
    if came_from is not None:
        namespace, topic = split_name(came_from[0])
        origin = {
            "topic": topic,
            "namespace": namespace,
            "queueId": _as_number(came_from[1]),
            "queueOffset": _as_number(came_from[2]),
            "id": message.system_text(SystemProperty.DEAD_LETTER_MESSAGE_ID),
        }
    return {
        "offset": first_place(broker_of_queue(message.queue_id)) + message.queue_offset,
        "reason": message.system_text(SystemProperty.DEAD_LETTER_REASON),
        "time": time_shape(message.time_ms(SystemProperty.DEAD_LETTER_TIME_MS) or 0),
        "attempts": attempts,
        "origin": origin,
        **shape,
    }


def _number(message: StoredMessage, name: str) -> int | None:
    return _as_number(message.system_text(name) or "")


def _as_number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 20 else None
