"""Pages of topics and groups, by keyset cursors; the whole list comes in pieces that go on at `next`.

A page is made in three steps: the names that the caller may know, those that the query asks for, and figures of the
page alone.  Brokers have `STATUS_SECONDS` to tell these; a row whose broker did not tell is in the page without them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Generic, TypeVar

from msgspec import Meta

from entrepot.domain.access.model import EVERYTHING, Action, Principal, ResourceType, access_name
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.names import split_name
from entrepot.gateway.operations.row.asked import Asked, known_namespace
from entrepot.gateway.operations.row.gathered import Missing
from entrepot.gateway.operations.row.problem import bad_request
from entrepot.gateway.operations.row.rights import Right, listed
from entrepot.gateway.operations.row.shapes import Flag, Part, Query, shown_as

if TYPE_CHECKING:
    from entrepot.domain.broker_answers import BrokerAnswers
    from entrepot.domain.ports import Store
    from entrepot.gateway.security.security import Security

PAGED: Final = (
    "Without a parameter: the whole list, for who may list all, in pieces of 500; the next one begins after `next`, as "
    "the only parameter `after`. With another: a page of what the caller may list or get. Brokers have 1.5 s to tell "
    "their figures."
)
MAX_LIMIT: Final = 1000
"""Most rows of a page."""
PIECE: Final = 500
"""Rows of a piece of the whole list, each with its queues."""
MAX_TEXT: Final = 256
MAX_SORTED: Final = 10_000
"""Most rows that are sorted by a figure: each of them is asked for."""
NAMES_AT_ONCE: Final = 256
"""Number of names whose rights are checked before the event loop goes on."""
NAME: Final = "name"
_UNKNOWN: Final = "-"
"""A cursor's figure where none is known."""
_T = TypeVar("_T")
_Status = TypeVar("_Status")
Ask = Callable[[Sequence[str]], Awaitable["BrokerAnswers[_Status]"]]
"""Asks brokers for the statuses of some names."""


class Selection(Query, frozen=True):
    """The rows that a query asks for.  `after`: the cursor of the page before.  `sort`: `name` or a figure."""

    of_a_page: ClassVar[frozenset[str]] = frozenset({"contains", "prefix", "kind", "type", "limit", "sort"})
    """Parameters that ask for a page; `after` alone goes on with the whole list."""

    contains: Annotated[
        str,
        Meta(max_length=MAX_TEXT, description="Text in the names, in any case"),
        Flag("Text in the names, in any case."),
    ] = ""
    prefix: Annotated[
        str, Meta(max_length=MAX_TEXT, description="Beginning of the names"), Flag("Beginning of the names.")
    ] = ""
    kind: Annotated[
        str,
        Meta(max_length=MAX_TEXT, description="Kinds, separated by commas; none: all"),
        Flag("Kinds, such as normal or queue.", "KIND,..."),
    ] = ""
    after: Annotated[
        str,
        Meta(max_length=MAX_TEXT + 32, description="`next` of the page before"),
        Flag("Cursor of the page before.", "CURSOR"),
    ] = ""
    limit: Annotated[int, Meta(ge=1, le=MAX_LIMIT), Flag("Maximum number of rows.")] = 100
    sort: Annotated[
        str,
        Meta(max_length=32, description="Column to sort by, descending with a `-` before it"),
        Flag("Column to sort by; -COLUMN: descending.", "COLUMN"),
    ] = NAME

    @property
    def kinds(self) -> frozenset[str]:
        """The wanted kinds; none: all."""
        return frozenset(each.strip() for each in self.kind.split(",") if each.strip())

    @property
    def column(self) -> str:
        return self.sort.removeprefix("-")

    @property
    def is_descending(self) -> bool:
        return self.sort.startswith("-")

    def takes(self, plain: str) -> bool:
        """True if a name is wanted."""
        return plain.startswith(self.prefix) and self.contains.casefold() in plain.casefold()


def is_page(asked: Asked) -> bool:
    """True if the query asks for a page; else the whole list is meant, from its beginning or from `after` on."""
    return not Selection.of_a_page.isdisjoint(asked.query)


def listed_or_paged(kind: ResourceType) -> Right:
    """LIST on all for the whole list; a page has the rows that the caller may list or get."""
    whole = listed(kind)
    return Right(lambda own, asked: [] if is_page(asked) else whole.needs(own, asked), tells_namespace=False)


class AnsweredBrokers(Part, frozen=True):
    asked: int
    answered: int
    missing: list[Missing]


shown_as(AnsweredBrokers(2, 1, [Missing("broker-1", "no answer within 1.5 s")]))


class Piece(Part, Generic[_T], frozen=True):
    """A piece of a whole list."""

    value: list[_T]
    next: str | None
    answered: AnsweredBrokers


class Page(Part, Generic[_T], frozen=True):
    """A page; `total`: number of all rows that the query asks for."""

    value: list[_T]
    next: str | None
    total: int
    answered: AnsweredBrokers


def answered_brokers(answers: BrokerAnswers[Any]) -> AnsweredBrokers:
    """Return how many brokers answered, and why others did not."""
    missing = [Missing(name, reason) for name, reason in sorted(answers.missing.items())]
    return AnsweredBrokers(answers.asked, answers.asked - len(missing), missing)


@dataclass(frozen=True, slots=True)
class Rows(Generic[_Status]):
    """Rows of a page, in order: the name, and the status unless nobody told it."""

    rows: list[tuple[str, _Status | None]]
    next: str | None
    total: int
    answers: BrokerAnswers[_Status]

    def page(self, row: Callable[[str, _Status | None, bool], _T]) -> Page[_T]:
        """Return the page; `row` shows a name with its status, True where that is a lower bound."""
        value = [row(name, status, name in self.answers.partial) for name, status in self.rows]
        return Page(value, self.next, self.total, answered_brokers(self.answers))


class Pages:
    """Pages of what a caller may know."""

    def __init__(self, store: Store, security: Security) -> None:
        self._store, self._security = store, security

    def visible_namespace(self, asked: Asked) -> str:
        """Return the path's namespace; a missing one is told only to those who may know it."""
        if self._security.may_know(asked.principal, ResourceType.NAMESPACE, asked.namespace):
            known_namespace(self._store, asked.namespace)
        return asked.namespace

    async def rows(
        self,
        principal: Principal,
        resource_type: ResourceType,
        names: Iterable[str],
        wanted: Selection,
        kind_of: Callable[[str], str],
        ask: Ask[_Status],
        figures: Mapping[str, Callable[[_Status], int]],
    ) -> Rows[_Status]:
        """Return the rows of one page of the stored `names`.  `figures`: columns to sort by.  Raises BAD_REQUEST."""
        if wanted.column not in {NAME, *figures}:
            raise bad_request(f"sort: must be one of {', '.join((NAME, *figures))}, perhaps with a - before it")
        kinds = wanted.kinds
        selected = [name for name in names if wanted.takes(_plain(name)) and (not kinds or kind_of(name) in kinds)]
        seen = sorted(await self._visible(principal, resource_type, selected), key=_plain)
        if wanted.column == NAME:
            return await _by_name(seen, wanted, ask)
        return await _by_figure(seen, wanted, ask, figures[wanted.column])

    async def _visible(self, principal: Principal, resource_type: ResourceType, names: Sequence[str]) -> list[str]:
        """The names that the caller may list or get.  A hidden name is not a denial, so the audit has none."""
        from entrepot.gateway.messaging.yielding import in_pages  # no command pays for it

        why = self._security.why
        if why(principal, Action.LIST, resource_type, EVERYTHING).is_allowed:
            return list(names)

        def is_visible(name: str) -> bool:
            return why(principal, Action.GET, resource_type, access_name(name)).is_allowed

        found: list[str] = []
        async for page in in_pages(names, NAMES_AT_ONCE):
            found += filter(is_visible, page)
        return found


def figure_text(row: dict[str, Any], name: str) -> str:
    """Return a sum of a row of a page: `?` while it is unknown, with a sign where it is a lower bound."""
    if row[name] is None:
        return "?"
    return str(row[name]) if row["isComplete"] else f">={row[name]}"


def _plain(name: str) -> str:
    return split_name(name)[1]


async def _by_name(names: list[str], wanted: Selection, ask: Ask[_Status]) -> Rows[_Status]:
    total = len(names)
    if wanted.is_descending:
        names.reverse()
    if wanted.after:
        is_behind = str.__lt__ if wanted.is_descending else str.__gt__
        names = [name for name in names if is_behind(_plain(name), wanted.after)]
    shown = names[: wanted.limit]
    answers = await ask(shown)
    following = _plain(shown[-1]) if len(names) > wanted.limit else None
    return Rows(_rows(shown, answers), following, total, answers)


async def _by_figure(
    names: list[str], wanted: Selection, ask: Ask[_Status], figure: Callable[[_Status], int]
) -> Rows[_Status]:
    if len(names) > MAX_SORTED:
        raise bad_request(
            f"sort: {len(names)} rows match, and at most {MAX_SORTED} are sorted by {wanted.column}: "
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
    return Rows(_rows([name for _, name in shown], answers), following, len(names), answers)


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


async def piece_of(names: Iterable[str], after: str, ask: Ask[_Status], shown: Callable[[_Status], _T]) -> Piece[_T]:
    """Return a piece of the whole list of `names`.  Raises UNAVAILABLE if no broker tells any."""
    left = sorted((name for name in names if _plain(name) > after), key=_plain)
    piece = left[:PIECE]
    answers = await ask(piece)
    if piece and answers.missing and not answers.statuses:
        raise EntrepotError(Code.UNAVAILABLE, next(iter(answers.missing.values())))
    following = _plain(piece[-1]) if len(left) > PIECE else None
    value = [shown(answers.statuses[name]) for name in piece if name in answers.statuses]
    return Piece(value, following, answered_brokers(answers))
