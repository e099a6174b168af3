"""Questions to all gateways or brokers, and their merged answers.

Lists tell how many were asked: one that does not answer is named, never left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Annotated, Any, Final, Generic, TypeVar

import msgspec
from msgspec import Meta

from entrepot.domain.base64url import decode_unpadded, encode_unpadded
from entrepot.domain.errors import Code, EntrepotError
from entrepot.gateway.operations.row.problem import MissingError, bad_request
from entrepot.gateway.operations.row.shapes import Part, Shown, shown_as
from entrepot.gateway.peers.gathered import Gathered, merged

if TYPE_CHECKING:
    from entrepot.gateway.peers.peers import Peers

HERE: Final = "here"
OTHER_VERSION: Final = "its answer is of another version of Entrepôt"
MAX_GATEWAY_NAME: Final = 256
MAX_CURSOR: Final = 4096
GatewayAsked = Annotated[
    Annotated[str, Meta(max_length=MAX_GATEWAY_NAME)] | None,
    Meta(description="Name of one gateway to ask; `here`: the one that answers"),
]
After = Annotated[str, Meta(max_length=MAX_CURSOR, description="Value of `next` in an earlier list, to continue there")]
_T = TypeVar("_T")


class Missing(Part, frozen=True):
    name: str
    reason: str


class AnsweredShown(Shown, frozen=True):
    """The number of those asked, of those that answered in time, and the others with the reason"""

    asked: int
    answered: int
    missing: list[Missing]


shown_as(AnsweredShown(4, 3, [Missing("gw-4", "no answer within 1.5 s")]))


class OfAll(Part, Generic[_T], frozen=True):
    """A list of all gateways."""

    value: list[_T]
    answered: AnsweredShown


class PageOfAll(Part, Generic[_T], frozen=True):
    """A list of all gateways, with the cursor of what follows, or null at its end."""

    value: list[_T]
    next: str | None
    answered: AnsweredShown


def answered(found: Gathered) -> AnsweredShown:
    """Tell how many were asked, and who did not answer."""
    return msgspec.convert(found.shape(), AnsweredShown)


# -- this gateway's pages --------------------------------------------------------------------------------------------


def page_of(rows: Sequence[dict[str, Any]], limit: int, key: str) -> dict[str, Any]:
    """Return one gateway's page of rows that are in the order of their keys.  `rows` has one more than `limit` if there
    are more."""
    shown = list(rows[:limit])
    return {"value": shown, "next": shown[-1][key] if len(rows) > limit else None}


# -- all gateways' answers -------------------------------------------------------------------------------------------


async def gathered(peers: Peers, view: str, arguments: Mapping[str, Any], gateway: str | None = None) -> Gathered:
    """Ask all gateways, or one.  Raises UNAVAILABLE where that one does not answer."""
    if gateway is None:
        return await peers.gather(view, arguments)
    name = peers.name if gateway == HERE else gateway
    return Gathered({name: await peers.ask(name, view, arguments)}, {})


def readable(found: Gathered, kind: type, rows: Callable[[Any], Any] = itemgetter("value")) -> Gathered:
    """Return the answers whose rows can be shown as `kind`.  A gateway that tells them otherwise counts as missing: it
    is of another version, and must not hide what the others tell.  `rows`: of an answer."""
    answers, missing = dict[str, Any](), dict(found.missing)
    for name, answer in found.answers.items():
        try:
            msgspec.convert([{**row, "gateway": name} for row in rows(answer)], list[kind])  # type: ignore[valid-type]
        except (msgspec.ValidationError, LookupError, TypeError):
            missing[name] = OTHER_VERSION
        else:
            answers[name] = answer
    return Gathered(answers, missing)


async def merged_page(
    peers: Peers,
    view: str,
    arguments: Mapping[str, Any],
    kind: type[_T],
    *,
    limit: int,
    key: str = "id",
    gateway: str | None = None,
) -> PageOfAll[_T]:
    """Return the page of a list over all gateways, in the order of the rows' keys; `kind`: of its rows."""
    found = readable(await gathered(peers, view, {**arguments, "limit": limit}, gateway), kind)
    rows, more = merged(found, key, limit)
    return PageOfAll(msgspec.convert(rows, list[kind]), more, answered(found))  # type: ignore[valid-type]


async def merged_page_by_key(
    peers: Peers,
    view: str,
    arguments: Mapping[str, Any],
    kind: type[_T],
    *,
    limit: int,
    after: str,
    gateway: str | None = None,
) -> PageOfAll[_T]:
    """Return the same for rows in the order of a composed key, `key`, which is not shown: cursors are opaque."""
    asked = {**arguments, "after": from_cursor(after)}
    page = await merged_page(peers, view, asked, kind, limit=limit, key="key", gateway=gateway)
    return PageOfAll(page.value, None if page.next is None else to_cursor(page.next), page.answered)


async def found_anywhere(
    peers: Peers, view: str, arguments: Mapping[str, Any], kind: type[_T], missing: MissingError, newest: str = ""
) -> _T:
    """Return the answer of the gateway that has something, with `gateway` and `answered`.  Of several, it is the one
    with the greatest `newest`.  Raises `missing` where no gateway has it, UNAVAILABLE where one that did not answer may
    have it, or tells it in the words of another version."""
    found = await peers.gather(view, arguments)
    having = [(name, answer) for name, answer in found.answers.items() if answer is not None]
    if having:
        name, answer = max(having, key=lambda each: str(each[1].get(newest) or ""))
        try:
            return msgspec.convert({**answer, "gateway": name, "answered": found.shape()}, kind)
        except msgspec.ValidationError:
            raise EntrepotError(Code.UNAVAILABLE, f"gateway {name}: {OTHER_VERSION}") from None
    check_complete(found, missing.message)
    raise missing


def check_complete(found: Gathered, what: str) -> None:
    """Raise UNAVAILABLE if a gateway did not answer: `what` is true of the others only."""
    if found.missing:
        names = ", ".join(f"{name} ({reason})" for name, reason in sorted(found.missing.items()))
        raise EntrepotError(Code.UNAVAILABLE, f"{what}, as far as known; these gateways did not answer: {names}")


# -- cursors ---------------------------------------------------------------------------------------------------------


def to_cursor(key: str) -> str:
    """Return a key as an opaque cursor."""
    return encode_unpadded(key.encode("utf-8", "surrogatepass"))


def from_cursor(cursor: str) -> str:
    """Return the key of a cursor; empty for none.  Raises BAD_REQUEST."""
    try:
        return decode_unpadded(cursor).decode("utf-8", "surrogatepass")
    except ValueError:
        raise bad_request("after: must be the value of `next` in an earlier list") from None
