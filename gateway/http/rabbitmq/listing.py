"""Lists of RabbitMQ's API: filtered by name, sorted, paged, with selected columns.

Rows are made in two steps: first the values known at once, for all rows.  Values that the store must be asked for are
added to the shown rows only, unless they are sorted by.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeVar

from fastapi import Request, Response

from entrepot.domain.errors import EntrepotError
from entrepot.domain.regular_expression import RegularExpression
from entrepot.gateway.http.bodies import json_answer
from entrepot.gateway.messaging.yielding import in_pages
from entrepot.gateway.operations.problem import bad_request

MAX_PAGE_SIZE: Final = 500
DEFAULT_PAGE_SIZE: Final = 100
MAX_PATTERN_LENGTH: Final = 256
MATCHED_AT_ONCE: Final = 16
"""Number of rows matched with a pattern before the event loop goes on."""
MADE_AT_ONCE: Final = 200
"""Number of rows made before the event loop goes on."""
Row = dict[str, Any]
_Thing = TypeVar("_Thing")
Complete = Callable[[list[Row]], Awaitable[None]]
"""Adds the store's values to rows."""


async def rows_of(things: Sequence[_Thing], shape: Callable[[_Thing], Row]) -> list[Row]:
    """Return the row of each thing, with turns for others: there may be a hundred thousand."""
    return [shape(each) async for page in in_pages(things, MADE_AT_ONCE) for each in page]


async def listing(request: Request, rows: list[Row], complete: Complete | None = None) -> Response:
    """Return the answer: an array, or a page object where the query asks for one."""
    query = request.query_params
    total = len(rows)
    rows = await _matching(rows, query.get("name", ""), is_pattern=query.get("use_regex") == "true")
    sort, columns = query.get("sort", ""), query.get("columns", "")
    if complete is not None and rows:
        if sort and _column(sort) not in rows[0]:
            await complete(rows)
            complete = None
        elif columns and all(_column(each) in rows[0] for each in columns.split(",") if each):
            complete = None  # no requested column needs it
    if sort:
        rows.sort(key=lambda row: _sort_key(_value(row, sort)), reverse=query.get("sort_reverse") == "true")
    if "page" not in query:
        if complete is not None:
            await complete(rows)
        return json_answer(_columns(rows, columns))
    page, size = _number(query["page"], "page"), _number(query.get("page_size", str(DEFAULT_PAGE_SIZE)), "page_size")
    if size > MAX_PAGE_SIZE:
        raise bad_request(f"page_size: at most {MAX_PAGE_SIZE}")
    pages = max(-(-len(rows) // size), 1)
    if page > pages:
        raise bad_request(f"page: there are {pages}")
    shown = rows[(page - 1) * size : page * size]
    if complete is not None:
        await complete(shown)
    return json_answer(
        {
            "filtered_count": len(rows),
            "item_count": len(shown),
            "items": _columns(shown, columns),
            "page": page,
            "page_count": pages,
            "page_size": size,
            "total_count": total,
        }
    )


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
