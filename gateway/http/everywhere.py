"""Everywhere: routes' questions to all gateways, and their merged answers.

Lists tell how many gateways answered: a gateway that does not answer is named, never left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from fastapi import Query, Response

from entrepot.domain.base64url import decode_unpadded, encode_unpadded
from entrepot.domain.errors import Code, EntrepotError
from entrepot.gateway.http.bodies import json_answer
from entrepot.gateway.http.context import HttpContext
from entrepot.gateway.operations.problem import MissingError, bad_request
from entrepot.gateway.peers.gathered import Gathered, merged

HERE: Final = "here"
MAX_GATEWAY_NAME: Final = 256
MAX_CURSOR: Final = 4096
ROWS_AT_ONCE: Final = 2000
"""Rows of one gateway in one answer, where all rows are needed."""
MISSING_HEADER: Final = "entrepot-gateways-missing"
"""Header with the gateways that did not answer, where the body's form has no room for them."""

GATEWAY: Final = Query(
    None, max_length=MAX_GATEWAY_NAME, description="Name of one gateway to ask; `here`: the one that answers"
)
AFTER: Final = Query("", max_length=MAX_CURSOR, description="Value of `next` in an earlier list, to continue there")


# -- this gateway's pages --------------------------------------------------------------------------------------------


def page_of(rows: Sequence[dict[str, Any]], limit: int, key: str) -> dict[str, Any]:
    """One gateway's page of rows that are in the order of their keys; `rows` has one more than `limit` if there are
    more."""
    shown = list(rows[:limit])
    return {"value": shown, "next": shown[-1][key] if len(rows) > limit else None}


# -- all gateways' answers ---------------------------------------------------------------------------------------------


async def gathered(
    context: HttpContext, view: str, arguments: Mapping[str, Any], gateway: str | None = None
) -> Gathered:
    """Ask all gateways, or one.  Raises UNAVAILABLE where that one does not answer."""
    peers = context.peers
    if gateway is None:
        return await peers.gather(view, arguments)
    name = peers.name if gateway == HERE else gateway
    return Gathered({name: await peers.ask(name, view, arguments)}, {})


async def merged_page(
    context: HttpContext,
    view: str,
    arguments: Mapping[str, Any],
    *,
    limit: int,
    key: str = "id",
    gateway: str | None = None,
) -> Response:
    """The page of a list over all gateways, in the order of the rows' keys."""
    found = await gathered(context, view, {**arguments, "limit": limit}, gateway)
    rows, more = merged(found, key, limit)
    return list_answer(rows, more, found)


async def merged_page_by_key(
    context: HttpContext,
    view: str,
    arguments: Mapping[str, Any],
    *,
    limit: int,
    after: str,
    gateway: str | None = None,
) -> Response:
    """The same for rows whose order is that of a composed key, `key`, which is not shown: cursors are opaque."""
    asked = {**arguments, "after": from_cursor(after), "limit": limit}
    found = await gathered(context, view, asked, gateway)
    rows, more = merged(found, "key", limit)
    for row in rows:
        del row["key"]
    return list_answer(rows, None if more is None else to_cursor(more), found)


def list_answer(rows: list[dict[str, Any]], more: str | None, found: Gathered) -> Response:
    """A list with its next cursor and the gateways that answered."""
    return json_answer({"value": rows, "next": more, "answered": found.shape()})


async def all_rows(
    context: HttpContext, view: str, arguments: Mapping[str, Any]
) -> tuple[list[dict[str, Any]], Gathered]:
    """All rows of all gateways, in the order of `key`, without it; and the last answers.  Each gateway is asked
    ROWS_AT_ONCE rows at a time."""
    rows: list[dict[str, Any]] = []
    after: str | None = ""
    missing: dict[str, str] = {}
    while after is not None:
        found = await context.peers.gather(view, {**arguments, "after": after, "limit": ROWS_AT_ONCE})
        missing.update(found.missing)
        page, after = merged(found, "key", ROWS_AT_ONCE)
        rows += page
    for row in rows:
        del row["key"]
    return rows, Gathered({name: each for name, each in found.answers.items() if name not in missing}, missing)


async def found_anywhere(
    context: HttpContext, view: str, arguments: Mapping[str, Any], missing: MissingError, newest: str = ""
) -> dict[str, Any]:
    """The answer of the gateway that has something, with `gateway` and `answered`.  Of several, it is the one with the
    greatest `newest`.  Raises `missing` where no gateway has it, UNAVAILABLE where one that did not answer may have
    it."""
    gathered = await context.peers.gather(view, arguments)
    having = [(name, answer) for name, answer in gathered.answers.items() if answer is not None]
    if having:
        name, answer = max(having, key=lambda each: str(each[1].get(newest) or ""))
        return {**answer, "gateway": name, "answered": gathered.shape()}
    check_complete(gathered, missing.message)
    raise missing


def check_complete(gathered: Gathered, what: str) -> None:
    """Raise UNAVAILABLE if a gateway did not answer: `what` is true of the others only."""
    if gathered.missing:
        names = ", ".join(f"{name} ({reason})" for name, reason in sorted(gathered.missing.items()))
        raise EntrepotError(Code.UNAVAILABLE, f"{what}, as far as known; these gateways did not answer: {names}")


def with_missing(answer: Response, gathered: Gathered) -> Response:
    """Name the gateways that did not answer in a header."""
    if gathered.missing:
        names = ", ".join(sorted(gathered.missing))
        answer.headers[MISSING_HEADER] = names.encode("ascii", "backslashreplace").decode()
    return answer


# -- cursors ---------------------------------------------------------------------------------------------------------


def to_cursor(key: str) -> str:
    """A key as an opaque cursor."""
    return encode_unpadded(key.encode("utf-8", "surrogatepass"))


def from_cursor(cursor: str) -> str:
    """The key of a cursor; empty for none.  Raises BAD_REQUEST."""
    try:
        return decode_unpadded(cursor).decode("utf-8", "surrogatepass")
    except ValueError:
        raise bad_request("after: must be the value of `next` in an earlier list") from None
