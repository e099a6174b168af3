"""Lists of RabbitMQ's API: filtered by name, sorted, paged, with selected columns.

Rows are made in two steps: first the values known at once, for all rows.  Values that the store must be asked for are
added to the shown rows only, unless they are sorted by.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any, Final, Generic, Literal, TypeVar

from msgspec import Meta

from entrepot.domain.errors import EntrepotError
from entrepot.domain.regular_expression import RegularExpression
from entrepot.gateway.messaging.yielding import in_pages
from entrepot.gateway.operations.row.problem import bad_request
from entrepot.gateway.operations.row.shapes import Like, Part, Query

MAX_PAGE_SIZE: Final = 500
DEFAULT_PAGE_SIZE: Final = 100
MAX_PATTERN_LENGTH: Final = 256
MATCHED_AT_ONCE: Final = 16
"""Number of rows matched with a pattern before the event loop goes on."""
MADE_AT_ONCE: Final = 200
"""Number of rows made before the event loop goes on."""
Row = dict[str, Any]
Rows = list[Row] | Row
"""Answer: an array, or a page object where the query asks for one."""
Flag = Annotated[str | None, Like(Literal["true", "false"])]
"""Another value than `true` counts as `false`."""
_COLUMNS: Final = "Columns to show, with commas; without, all that have a value"
_PAGE: Final = Meta(extra_json_schema={"minimum": 1, "description": "This page alone, as an object with `items`"})
_PAGE_SIZE: Final = Meta(
    extra_json_schema={
        "minimum": 1,
        "maximum": MAX_PAGE_SIZE,
        "default": DEFAULT_PAGE_SIZE,
        "description": "Entries on a page",
    }
)
_Thing = TypeVar("_Thing")
Complete = Callable[[list[Row]], Awaitable[None]]
"""Adds the store's values to rows."""


def _told(description: str, example: str) -> Meta:
    return Meta(extra_json_schema={"description": description, "examples": [example]})


class PageOf(Part, Generic[_Thing], rename="lower", frozen=True):
    """One page of a list."""

    filtered_count: int
    item_count: int
    page: int
    page_count: int
    page_size: int
    total_count: int
    items: list[_Thing]


class ColumnsAsked(Query, rename="lower", frozen=True):
    """The query of a single object."""

    columns: Annotated[str | None, Like(str), _told(_COLUMNS, "name,type")] = None


class ListingAsked(Query, rename="lower", frozen=True):
    """The query of a list."""

    name: Annotated[str | None, Like(str), _told("Text that names have in them, or match", "job")] = None
    use_regex: Annotated[Flag, Meta(description="True: `name` is a regular expression")] = None
    sort: Annotated[str | None, Like(str), _told("The column to sort by", "name")] = None
    sort_reverse: Annotated[Flag, Meta(description="True: the last comes first")] = None
    columns: Annotated[str | None, Like(str), _told(_COLUMNS, "name,messages")] = None
    page: Annotated[str | None, Like(int), _PAGE] = None
    page_size: Annotated[str | None, Like(int), _PAGE_SIZE] = None


async def rows_of(things: Sequence[_Thing], shape: Callable[[_Thing], Row]) -> list[Row]:
    """Return the row of each thing, with turns for others: there may be a hundred thousand."""
    return [shape(each) async for page in in_pages(things, MADE_AT_ONCE) for each in page]


async def listing(query: ListingAsked, rows: list[Row], complete: Complete | None = None) -> Rows:
    """Return the answer: an array, or a page object where the query asks for one."""
    total = len(rows)
    rows = await _matching(rows, query.name or "", is_pattern=query.use_regex == "true")
    sort, columns = query.sort or "", query.columns or ""
    if complete is not None and rows:
        if sort and _column(sort) not in rows[0]:
            await complete(rows)
            complete = None
        elif columns and all(_column(each) in rows[0] for each in columns.split(",") if each):
            complete = None  # no requested column needs it
    if sort:
        rows.sort(key=lambda row: _sort_key(_value(row, sort)), reverse=query.sort_reverse == "true")
    if query.page is None:
        if complete is not None:
            await complete(rows)
        return _columns(rows, columns)
    page, size = (
        _number(query.page, "page"),
        _number(str(DEFAULT_PAGE_SIZE) if query.page_size is None else query.page_size, "page_size"),
    )
    if size > MAX_PAGE_SIZE:
        raise bad_request(f"page_size: at most {MAX_PAGE_SIZE}")
    pages = max(-(-len(rows) // size), 1)
    if page > pages:
        raise bad_request(f"page: there are {pages}")
    shown = rows[(page - 1) * size : page * size]
    if complete is not None:
        await complete(shown)
    return {
        "filtered_count": len(rows),
        "item_count": len(shown),
        "items": _columns(shown, columns),
        "page": page,
        "page_count": pages,
        "page_size": size,
        "total_count": total,
    }


def chosen(query: ColumnsAsked, row: Row) -> Row:
    """Return the requested columns of a single object; all of them where none is named."""
    return _columns([row], query.columns)[0] if query.columns else row


async def _matching(rows: list[Row], name: str, *, is_pattern: bool) -> list[Row]:
    if not name:
        return list(rows)
    if not is_pattern:
        return [row for row in rows if name in str(row.get("name", ""))]
    if len(name) > MAX_PATTERN_LENGTH:
        raise bad_request(f"name: a pattern has up to {MAX_PATTERN_LENGTH} characters")
    try:
        pattern = RegularExpression(name)
    except EntrepotError as error:
        raise bad_request(f"name: {error.message}") from None
    found: list[Row] = []
    async for page in in_pages(rows, MATCHED_AT_ONCE):
        found += (row for row in page if pattern.matches(str(row.get("name", ""))))
    return found


def _number(text: str, what: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= 9 and int(text)):
        raise bad_request(f"{what}: a number from 1 on, not {text[:40]!r}")
    return int(text)


def _column(path: str) -> str:
    return path.partition(".")[0]


def _value(row: Row, column: str) -> Any:
    value: Any = row
    for part in column.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value


def _sort_key(value: Any) -> tuple[int, Any]:
    """Sort key: missing values, then numbers, then texts."""
    if value is None:
        return 0, 0
    return (1, value) if isinstance(value, int | float) else (2, str(value))


def _columns(rows: Sequence[Row], wanted: str) -> list[Row]:
    """The rows with the requested columns.  Empty values are omitted, because tools draw tables of texts."""
    rows = [{name: value for name, value in row.items() if value is not None} for row in rows]
    if not wanted:
        return rows
    columns = [column.split(".") for column in wanted.split(",") if column]
    found = []
    for row in rows:
        shown: Row = {}
        for path in columns:
            _copy(row, shown, path)
        found.append(shown)
    return found


def _copy(source: Row, target: Row, path: Sequence[str]) -> None:
    first, rest = path[0], path[1:]
    if first not in source:
        return
    if not rest:
        target[first] = source[first]
    elif isinstance(source[first], dict):
        _copy(source[first], target.setdefault(first, {}), rest)
