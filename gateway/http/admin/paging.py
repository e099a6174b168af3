"""Pages of topics and groups, by keyset cursors; the whole list comes in pieces that go on at `next`.

A page is made in three steps: the names that the caller may know, those that the query asks for, and figures of the
page alone.  Brokers have `STATUS_SECONDS` to tell these; a row whose broker did not tell is in the page without them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, Generic, TypeVar

from fastapi import Depends, Query, Request

from entrepot.domain.access.model import EVERYTHING, Action, Principal, ResourceType, access_name
from entrepot.domain.broker_answers import BrokerAnswers
from entrepot.domain.cluster import ClusterControl, Clustered
from entrepot.domain.consumer_group import GroupStatus
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.names import split_name
from entrepot.domain.ports import Store
from entrepot.domain.ports.topology import STATUSES_AT_ONCE
from entrepot.domain.topic import TopicStatus
from entrepot.gateway.http.context import HttpContext
from entrepot.gateway.http.namespaced import asked_namespace
from entrepot.gateway.http.rights import Needs, listed
from entrepot.gateway.messaging.yielding import in_pages
from entrepot.gateway.operations.asked import known_namespace
from entrepot.gateway.operations.problem import bad_request

STATUS_SECONDS: Final = 1.5
"""Longest wait for a broker's figures."""
MAX_LIMIT: Final = 1000
DEFAULT_LIMIT: Final = 100
PIECE: Final = 500
"""Rows of a piece of the whole list, each with its queues."""
MAX_TEXT: Final = 256
MAX_SORTED: Final = 10_000
"""Most rows that are sorted by a figure: each of them is asked for."""
SORT_SECONDS: Final = 5.0
"""Longest wait for a broker's figures where more than a page of them is asked for."""
NAMES_AT_ONCE: Final = 256
"""Number of names whose rights are checked before the event loop goes on."""
NAME: Final = "name"
_PARAMETERS: Final = frozenset({"contains", "prefix", "kind", "type", "limit", "sort"})
_UNKNOWN: Final = "-"
"""A cursor's figure where none is known."""
_Status = TypeVar("_Status")


@dataclass(frozen=True, slots=True)
class Selection:
    """The rows that a query asks for.  `after`: the cursor of the page before.  `sort`: `name` or a figure."""

    contains: str
    prefix: str
    kinds: frozenset[str]
    after: str
    limit: int
    sort: str
    is_descending: bool


@dataclass(frozen=True, slots=True)
class Page(Generic[_Status]):
    """Rows of a page, in order: the name, and the status unless nobody told it.  `total`: number of all rows."""

    rows: list[tuple[str, _Status | None]]
    next: str | None
    total: int
    answers: BrokerAnswers[_Status]


def _selection(
    contains: str = Query("", max_length=MAX_TEXT, description="Text in the names, in any case"),
    prefix: str = Query("", max_length=MAX_TEXT, description="Beginning of the names"),
    kind: str = Query("", max_length=MAX_TEXT, description="Kinds, separated by commas; none: all"),
    after: str = Query("", max_length=MAX_TEXT + 32, description="`next` of the page before"),
    limit: int = Query(DEFAULT_LIMIT, ge=1, le=MAX_LIMIT),
    sort: str = Query(NAME, max_length=32, description="Column to sort by, descending with a `-` before it"),
) -> Selection:
    kinds = frozenset(each.strip() for each in kind.split(",") if each.strip())
    return Selection(contains.casefold(), prefix, kinds, after, limit, sort.removeprefix("-"), sort.startswith("-"))


SelectionQuery = Annotated[Selection, Depends(_selection)]


def is_paged(request: Request) -> bool:
    """True if the query asks for a page; else the whole list is meant, from its beginning or from `after` on."""
    return not _PARAMETERS.isdisjoint(request.query_params)


def listed_or_paged(resource_type: ResourceType) -> Needs:
    """LIST on all for the whole list; a page has the rows that the caller may list or get."""
    everything = listed(resource_type)
    return lambda context, request: [] if is_paged(request) else everything(context, request)


def visible_namespace(context: HttpContext, request: Request) -> str:
    """The path's namespace; a missing one is told only to those who may know it."""
    name, principal = asked_namespace(request), request.state.principal
    if context.security.may_know(principal, ResourceType.NAMESPACE, name):
        known_namespace(context.store, name)
    return name


async def page_of(
    context: HttpContext,
    request: Request,
    resource_type: ResourceType,
    names: Iterable[str],
    wanted: Selection,
    kind_of: Callable[[str], str],
    ask: Callable[[Sequence[str]], Awaitable[BrokerAnswers[_Status]]],
    figures: dict[str, Callable[[_Status], int]],
) -> Page[_Status]:
    """Return one page of the stored `names`.  `figures`: columns to sort by.  Raises BAD_REQUEST."""
    if wanted.sort not in {NAME, *figures}:
        raise bad_request(f"sort: must be one of {', '.join((NAME, *figures))}, perhaps with a - before it")
    selected = [name for name in names if _is_wanted(name, wanted, kind_of)]
    seen = sorted(await _visible(context, request.state.principal, resource_type, selected), key=_plain)
    if wanted.sort == NAME:
        return await _by_name(seen, wanted, ask)
    return await _by_figure(seen, wanted, ask, figures[wanted.sort])


def _plain(name: str) -> str:
    return split_name(name)[1]


def _is_wanted(name: str, wanted: Selection, kind_of: Callable[[str], str]) -> bool:
    plain = _plain(name)
    is_named = plain.startswith(wanted.prefix) and wanted.contains in plain.casefold()
    return is_named and (not wanted.kinds or kind_of(name) in wanted.kinds)


async def _visible(
    context: HttpContext, principal: Principal, resource_type: ResourceType, names: Sequence[str]
) -> list[str]:
    """The names that the caller may list or get.  What it may not see is no denial, so the audit has none."""
    why = context.security.why
    if why(principal, Action.LIST, resource_type, EVERYTHING).is_allowed:
        return list(names)

    def is_visible(name: str) -> bool:
        return why(principal, Action.GET, resource_type, access_name(name)).is_allowed

    found: list[str] = []
    async for page in in_pages(names, NAMES_AT_ONCE):
        found += filter(is_visible, page)
    return found


async def _by_name(
    names: list[str], wanted: Selection, ask: Callable[[Sequence[str]], Awaitable[BrokerAnswers[_Status]]]
) -> Page[_Status]:
    total = len(names)
    if wanted.is_descending:
        names.reverse()
    if wanted.after:
        is_behind = _after_descending if wanted.is_descending else _after
        names = [name for name in names if is_behind(_plain(name), wanted.after)]
    shown = names[: wanted.limit]
    answers = await ask(shown)
    following = _plain(shown[-1]) if len(names) > wanted.limit else None
    return Page(_rows(shown, answers), following, total, answers)


def _after(name: str, cursor: str) -> bool:
    return name > cursor


def _after_descending(name: str, cursor: str) -> bool:
    return name < cursor


async def _by_figure(
    names: list[str],
    wanted: Selection,
    ask: Callable[[Sequence[str]], Awaitable[BrokerAnswers[_Status]]],
    figure: Callable[[_Status], int],
) -> Page[_Status]:
    if len(names) > MAX_SORTED:
        raise bad_request(
            f"sort: {len(names)} rows match, and at most {MAX_SORTED} are sorted by {wanted.sort}: "
            "narrow them by prefix, contains or kind"
        )
    answers = await ask(names)
    keyed: list[tuple[tuple[int, int, str], str]] = []
    for name, status in _rows(names, answers):
        value = None if status is None else figure(status)
        keyed.append((_figure_key(value, _plain(name), is_descending=wanted.is_descending), name))
    keyed.sort()
    if wanted.after:
        begin = _read_cursor(wanted.after, is_descending=wanted.is_descending)
        keyed = [each for each in keyed if each[0] > begin]
    shown = keyed[: wanted.limit]
    following = None
    if len(keyed) > wanted.limit:
        is_unknown, value, plain = shown[-1][0]
        following = f"{_UNKNOWN if is_unknown else abs(value)}:{plain}"
    return Page(_rows([name for _, name in shown], answers), following, len(names), answers)


def _figure_key(value: int | None, plain: str, *, is_descending: bool) -> tuple[int, int, str]:
    """Sort key: unknown figures last, whatever the direction."""
    if value is None:
        return 1, 0, plain
    return 0, -value if is_descending else value, plain


def _read_cursor(text: str, *, is_descending: bool) -> tuple[int, int, str]:
    value, colon, plain = text.partition(":")
    if colon and value == _UNKNOWN:
        return _figure_key(None, plain, is_descending=is_descending)
    if not (colon and value.isascii() and value.isdecimal() and len(value) < 20):
        raise bad_request(f"after: {text[:80]!r} is not the cursor of a list in this order")
    return _figure_key(int(value), plain, is_descending=is_descending)


def _rows(names: Sequence[str], answers: BrokerAnswers[_Status]) -> list[tuple[str, _Status | None]]:
    """The rows; names that are gone meanwhile have none."""
    return [(name, answers.statuses.get(name)) for name in names if name in answers.statuses or name in answers.partial]


async def piece_of(
    names: Iterable[str],
    after: str,
    ask: Callable[[Sequence[str]], Awaitable[BrokerAnswers[_Status]]],
    shape: Callable[[_Status], dict[str, Any]],
) -> dict[str, Any]:
    """Return a piece of the whole list of `names`, as JSON.  Raises UNAVAILABLE if no broker tells any."""
    left = sorted((name for name in names if _plain(name) > after), key=_plain)
    piece = left[:PIECE]
    answers = await ask(piece)
    if piece and answers.missing and not answers.statuses:
        raise EntrepotError(Code.UNAVAILABLE, next(iter(answers.missing.values())))
    following = _plain(piece[-1]) if len(left) > PIECE else None
    value = [shape(answers.statuses[name]) for name in piece if name in answers.statuses]
    return {"value": value, "next": following, "answered": answered_shape(answers)}


# -- statuses --------------------------------------------------------------------------------------------------------


async def topic_statuses(store: Store, names: Sequence[str]) -> BrokerAnswers[TopicStatus]:
    """The statuses of topics, as far as brokers tell them in time."""
    operations = _operations(store)
    if operations is not None:
        return await operations.topic_statuses(names, _seconds_for(names))
    there = store.topology
    return await _asked_here(names, there.topic_statuses, lambda status: status.topic.name, there.topic)


async def group_statuses(store: Store, names: Sequence[str]) -> BrokerAnswers[GroupStatus]:
    """The statuses of groups, likewise."""
    operations = _operations(store)
    if operations is not None:
        return await operations.group_statuses(names, _seconds_for(names))
    there = store.topology
    return await _asked_here(names, there.group_statuses, lambda status: status.group.name, there.group)


def _seconds_for(names: Sequence[str]) -> float:
    return STATUS_SECONDS if len(names) <= MAX_LIMIT else SORT_SECONDS


def _operations(store: Store) -> ClusterControl | None:
    return store.operations if isinstance(store, Clustered) else None


async def _asked_here(
    names: Sequence[str],
    ask: Callable[[Sequence[str]], Awaitable[list[_Status]]],
    name_of: Callable[[_Status], str],
    defined: Callable[[str], Any],
) -> BrokerAnswers[_Status]:
    """Ask a store that is no cluster of brokers, with turns for others between pages."""
    statuses: dict[str, _Status] = {}
    seconds, problem = _seconds_for(names), ""
    try:
        async with asyncio.timeout(seconds):
            async for page in in_pages(names, STATUSES_AT_ONCE):
                statuses.update((name_of(status), status) for status in await ask(page))
    except TimeoutError:
        problem = f"no answer within {seconds} s"
    except EntrepotError as error:
        problem = error.message
    untold = frozenset(name for name in names if name not in statuses and defined(name) is not None)
    missing = {"store": problem or "some are not told now"} if untold else {}
    return BrokerAnswers(statuses, untold, 1, missing)


def page_shape(page: Page[Any], value: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a page with its rows as JSON."""
    return {"value": value, "next": page.next, "total": page.total, "answered": answered_shape(page.answers)}


def answered_shape(answers: BrokerAnswers[Any]) -> dict[str, Any]:
    """Return as JSON how many brokers answered, and why others did not."""
    missing = [{"name": name, "reason": reason} for name, reason in sorted(answers.missing.items())]
    return {"asked": answers.asked, "answered": answers.asked - len(missing), "missing": missing}
