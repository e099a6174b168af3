"""Dead letters: list with reason and time, count by reason, resend, delete, export."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Annotated, Any, Final

import orjson
import structlog
from fastapi import Query, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import Field

from entrepot.domain.access.model import Action
from entrepot.domain.errors import EntrepotError
from entrepot.domain.message import StoredMessage, SystemProperty
from entrepot.domain.names import dead_letter_topic
from entrepot.gateway.http.admin.common import PREFIX, Body, Offset, schema_of
from entrepot.gateway.http.admin.letter_actions import (
    Marked,
    Outcome,
    delete_all,
    delete_some,
    places_at,
    resend_some,
    without_deleted,
)
from entrepot.gateway.http.admin.letters import Letters, letter_shape, letters_of, offset_of, reason_of
from entrepot.gateway.http.admin.messages import full_shape, message_shape
from entrepot.gateway.http.admin.seen import note_seen, shown_to
from entrepot.gateway.http.bodies import body_of, json_answer, schema_of_body
from entrepot.gateway.http.changes import tell
from entrepot.gateway.http.context import HttpContext
from entrepot.gateway.http.namespaced import group_name
from entrepot.gateway.http.rights import group
from entrepot.gateway.http.routes import Routes
from entrepot.gateway.operations.masking import Shown
from entrepot.gateway.operations.problem import bad_request
from entrepot.gateway.operations.shapes import MAX_NUMBER
from entrepot.gateway.operations.times import time_shape

MAX_LIMIT: Final = 1000
MAX_OFFSETS: Final = 10_000
"""Most letters that one call names, or looks at for those of a reason."""
MAX_REASONS: Final = 1000
MAX_REASON: Final = 1024
READ_AT_ONCE: Final = 256
EXPORT_BATCH: Final = 16
"""Number of messages read at once: small, because bodies may be large and readers slow."""
NDJSON: Final = "application/x-ndjson"

_log = structlog.get_logger(__name__)

_FROM_OFFSET: Final = Query(0, ge=0, le=MAX_NUMBER, description="First queue offset")


class Chosen(Body):
    """The dead letters of an action: these, those of one reason from an offset on, or all of them."""

    offsets: Annotated[list[Offset], Field(min_length=1, max_length=MAX_OFFSETS)] | None = None
    all: bool | None = None
    reason: Annotated[str, Field(max_length=MAX_REASON)] | None = None
    from_offset: Offset | None = None

    def check(self) -> None:
        """Raise BAD_REQUEST unless exactly one kind is chosen."""
        if [self.offsets is not None, self.all is True, self.reason is not None].count(True) != 1 or self.all is False:
            raise bad_request('one of "offsets", "reason" and "all": true must be given')
        if self.from_offset is not None and self.reason is None:
            raise bad_request("fromOffset: goes with a reason")


_BODY: Final = schema_of_body(schema_of(Chosen))
_PATH: Final = "/groups/{name}/dead-letters"


def dead_letter_routes(context: HttpContext) -> Routes:
    """The routes of dead letters."""
    routes = Routes(["groups"], PREFIX)
    _add_reading(routes, context)
    _add_actions(routes, context)
    return routes


def _add_reading(routes: Routes, context: HttpContext) -> None:
    store = context.store

    @routes.get(_PATH, group(Action.SUB), summary="List dead letters of a group, the oldest first")
    async def list_dead_letters(
        request: Request,
        name: str,
        from_offset: int = _FROM_OFFSET,
        limit: int = Query(32, ge=1, le=MAX_LIMIT),
        reason: str | None = Query(None, max_length=MAX_REASON, description="Only letters of this reason"),
    ) -> Response:
        letters = await letters_of(store, group_name(store, request, name), from_offset)
        value: list[dict[str, Any]] = []
        while len(value) < limit and letters.next is not None and letters.looked_at < MAX_OFFSETS:
            found = await letters.batch(limit - len(value))
            value += [letter_shape(m, message_shape(m)) for m in found if reason in (None, reason_of(m))]
        return json_answer({"value": value, "next": letters.next})

    @routes.get(f"{_PATH}:reasons", group(Action.SUB), summary="Count dead letters of a group by their reason")
    async def count_reasons(
        request: Request,
        name: str,
        from_offset: int = _FROM_OFFSET,
        scan: int = Query(MAX_OFFSETS, ge=1, le=MAX_OFFSETS, description="Most dead letters to look at"),
    ) -> Response:
        return json_answer(await _reasons(await letters_of(store, group_name(store, request, name), from_offset), scan))

    @routes.get(
        f"{_PATH}:export",
        group(Action.SUB),
        summary="Export dead letters of a group as newline-delimited JSON, the oldest first",
    )
    async def export(request: Request, name: str, from_offset: int = _FROM_OFFSET) -> Response:
        full_name = group_name(store, request, name)
        letters = await letters_of(store, full_name, from_offset)
        note_seen(context, request, dead_letter_topic(full_name), f"export of {letters.total} bodies")
        return StreamingResponse(_lines(letters, shown_to(context, request)), media_type=NDJSON)


def _add_actions(routes: Routes, context: HttpContext) -> None:
    store = context.store

    @routes.post(
        f"{_PATH}:resend",
        group(Action.UPDATE),
        change="dead letters resent",
        summary="Resend dead letters to the group",
        openapi_extra=_BODY,
    )
    async def resend(request: Request, name: str) -> Response:
        full_name = group_name(store, request, name)
        chosen = await body_of(request, context, Chosen)
        chosen.check()
        outcome = Outcome()
        following = {}
        if chosen.offsets is not None:
            there = await without_deleted(store, full_name, chosen.offsets, outcome)
            await resend_some(store, full_name, there, outcome)
        else:
            letters = await letters_of(store, full_name, chosen.from_offset or 0)
            async for found in _chosen_of(letters, chosen.reason):
                await resend_some(store, full_name, [offset for offset, _ in found], outcome)
            following = {} if chosen.reason is None else {"next": letters.next}
        tell(request, detail=outcome.told(chosen.reason))
        return json_answer({"resentOffsets": outcome.done, "failedOffsets": outcome.failed, **following})

    @routes.post(
        f"{_PATH}:delete",
        group(Action.DELETE),
        change="dead letters deleted",
        summary="Delete dead letters of the group",
        openapi_extra=_BODY,
    )
    async def delete(request: Request, name: str) -> Response:
        full_name = group_name(store, request, name)
        chosen = await body_of(request, context, Chosen)
        chosen.check()
        outcome = Outcome()
        following = None
        if chosen.offsets is not None:
            await delete_some(store, full_name, await places_at(store, full_name, chosen.offsets, outcome), outcome)
        elif chosen.reason is not None:
            letters = await letters_of(store, full_name, chosen.from_offset or 0)
            found = [each async for batch in _chosen_of(letters, chosen.reason) for each in batch]
            following = letters.next
            await delete_some(store, full_name, found, outcome)
        else:
            outcome.count = await delete_all(store, full_name)
        tell(request, detail=outcome.told(chosen.reason))
        return json_answer({"deleted": outcome.count, "failedOffsets": outcome.failed, "next": following})


async def _chosen_of(letters: Letters, reason: str | None) -> AsyncIterator[list[Marked]]:
    """All letters, or those of one reason among the next MAX_OFFSETS."""
    while letters.next is not None and (reason is None or letters.looked_at < MAX_OFFSETS):
        batch = await letters.batch(READ_AT_ONCE)
        found = [
            (offset_of(letter), letter.commit_log_offset) for letter in batch if reason in (None, reason_of(letter))
        ]
        if found:
            yield found
        await asyncio.sleep(0)


async def _reasons(letters: Letters, scan: int) -> dict[str, Any]:
    """Counts by reason of the letters looked at, the most frequent first, and where to go on."""
    total = letters.total
    counts: dict[str, dict[str, Any]] = {}
    while letters.next is not None and letters.looked_at < scan and len(counts) < MAX_REASONS:
        for message in await letters.batch(min(READ_AT_ONCE, scan - letters.looked_at)):
            reason = reason_of(message)
            at = time_shape(message.time_ms(SystemProperty.DEAD_LETTER_TIME_MS) or 0)
            first = {"reason": reason, "count": 0, "firstOffset": str(offset_of(message)), "oldest": at}
            found = counts.setdefault(reason, first)
            found["count"] += 1
            found["newest"] = at
        await asyncio.sleep(0)
    value = sorted(counts.values(), key=lambda each: (-each["count"], each["reason"]))
    following = letters.next
    return {
        "value": value,
        "next": None if following is None else str(following),
        "lookedAt": letters.looked_at,
        "total": total,
        "isComplete": following is None,
    }


async def _lines(letters: Letters, shown: Callable[[StoredMessage], Shown]) -> AsyncIterator[bytes]:
    """Yield each dead letter as one line.  A failure breaks the answer off, so that it does not look complete."""
    while (at := letters.next) is not None:
        try:
            found = await letters.batch(EXPORT_BATCH)
        except EntrepotError as error:
            _log.warning("an export broke off", offset=at, detail=error.message)
            raise
        lines = (
            orjson.dumps(letter_shape(message, full_shape(shown(message))), option=orjson.OPT_APPEND_NEWLINE)
            for message in found
        )
        yield b"".join(lines)
