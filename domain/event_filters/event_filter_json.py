"""Event filters read from the JSON of the Subscriptions API (draft 3.2.4); every refusal names its place."""

from __future__ import annotations

import re
from collections.abc import Callable
from difflib import get_close_matches
from typing import Any, Final

from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.event_filters.event_filter import (
    AllFilter,
    AnyFilter,
    AttributeTexts,
    EventFilter,
    EventFilters,
    ExactFilter,
    NotFilter,
    PrefixFilter,
    SqlFilter,
    SuffixFilter,
)
from entrepot.domain.expression.cesql.expression import CesqlExpression, compile_cesql
from entrepot.domain.expression.cesql.tokens import CesqlParseError
from entrepot.domain.expression.cesql.value import TYPE_NAMES
from entrepot.domain.expression.fault import SHOWN_LENGTH, shown

MAX_FILTER_DEPTH: Final = 16
"""Deepest nesting of `all`, `any` and `not`."""
MAX_FILTERS: Final = 256
"""Most filters in one list, nested ones counted."""
MAX_SQL_FILTERS: Final = 16
"""Most CESQL expressions among them."""
MAX_TEXT_LENGTH: Final = 4096
"""Longest comparison text of an attribute, in characters."""
MAX_TOTAL_LENGTH: Final = 65_536
"""Longest total of all texts and expressions of a list, in characters."""
MAX_ATTRIBUTE_NAME_LENGTH: Final = 128

_NAME = re.compile(r"[a-z0-9]+")
_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_KINDS: Final = {dict: "an object", list: "an array", str: "a string", bool: "a boolean", type(None): "null"}


class EventFilterError(EntrepotError):
    """A refused filter.  `path` is the place in the document, such as `filters[0].any[1].exact.type`; `reason` the
    fault there; `parse_error` has offset, line and column for a CESQL expression that cannot be parsed."""

    def __init__(self, path: str, reason: str, parse_error: CesqlParseError | None = None) -> None:
        super().__init__(Code.ILLEGAL_FILTER_EXPRESSION, f"{path}: {reason}")
        self.path = path
        self.reason = reason
        self.parse_error = parse_error


def parse_event_filters(document: object, path: str = "filters") -> EventFilters:
    """Return the filters of a subscription, from its decoded JSON: a list of filters, or None.  `path` is the
    document's name in errors.  Raises `EventFilterError`."""
    if document is None:
        return EventFilters()
    return EventFilters(_Reader().list_of(document, path, 1))


def parse_sql_filter(text: str, path: str = "sql") -> SqlFilter:
    """Return the filter of a CESQL expression.  Raises `EventFilterError`, also for a part that is always an error."""
    return SqlFilter(_expression(text, path))


class _Reader:
    """A reader of one document, which counts its filters."""

    __slots__ = ("_count", "_dialects", "_length", "_sql_count")

    def __init__(self) -> None:
        self._count = 0
        self._sql_count = 0
        self._length = 0
        self._dialects: dict[str, Callable[[Any, str, int], EventFilter]] = {
            "exact": lambda content, path, _: ExactFilter(self._texts(content, path)),
            "prefix": lambda content, path, _: PrefixFilter(self._texts(content, path)),
            "suffix": lambda content, path, _: SuffixFilter(self._texts(content, path)),
            "all": lambda content, path, depth: AllFilter(self._filters(content, path, depth)),
            "any": lambda content, path, depth: AnyFilter(self._filters(content, path, depth)),
            "not": lambda content, path, depth: NotFilter(self.filter_of(content, path, depth + 1)),
            "sql": self._sql,
        }

    def list_of(self, content: object, path: str, depth: int) -> tuple[EventFilter, ...]:
        if not isinstance(content, list):
            raise EventFilterError(path, f"an array of filters is wanted, not {_kind(content)}")
        return tuple(self.filter_of(each, f"{path}[{index}]", depth) for index, each in enumerate(content))

    def filter_of(self, content: object, path: str, depth: int) -> EventFilter:
        if not isinstance(content, dict):
            raise EventFilterError(path, f"a filter is an object, not {_kind(content)}")
        if depth > MAX_FILTER_DEPTH:
            raise EventFilterError(path, f"filters nest at most {MAX_FILTER_DEPTH} deep")
        self._count += 1
        if self._count > MAX_FILTERS:
            raise EventFilterError(path, f"there are more than {MAX_FILTERS} filters")
        if not content:
            raise EventFilterError(path, f"a filter has a dialect: {self._names()}")
        for dialect in content:
            if dialect not in self._dialects:
                raise EventFilterError(path, self._unknown(str(dialect)))
        if len(content) > 1:
            raise EventFilterError(path, f"a filter has one dialect, not {len(content)}; 'all' joins several filters")
        ((dialect, inner),) = content.items()
        return self._dialects[dialect](inner, f"{path}.{dialect}", depth)

    def _filters(self, content: object, path: str, depth: int) -> tuple[EventFilter, ...]:
        if content == []:
            raise EventFilterError(path, "at least one filter is wanted")
        return self.list_of(content, path, depth + 1)

    def _sql(self, content: object, path: str, depth: int) -> EventFilter:
        if not isinstance(content, str):
            raise EventFilterError(path, f"a CESQL expression is a string, not {_kind(content)}")
        self._sql_count += 1
        if self._sql_count > MAX_SQL_FILTERS:
            raise EventFilterError(path, f"there are more than {MAX_SQL_FILTERS} CESQL expressions")
        self._add_length(content, path)
        return SqlFilter(_expression(content, path))

    def _texts(self, content: object, path: str) -> AttributeTexts:
        texts = _texts(content, path)
        for name, text in texts:
            self._add_length(name + text, path)
        return texts

    def _add_length(self, text: str, path: str) -> None:
        self._length += len(text)
        if self._length > MAX_TOTAL_LENGTH:
            raise EventFilterError(path, f"the filters have more than {MAX_TOTAL_LENGTH} characters together")

    def _names(self) -> str:
        return ", ".join(self._dialects)

    def _unknown(self, dialect: str) -> str:
        close = get_close_matches(dialect[:64], self._dialects, n=1)
        hint = f"is {close[0]!r} meant?" if close else f"there are {self._names()}"
        return f"there is no dialect {shown(dialect)}; {hint}"


def _expression(text: str, path: str) -> CesqlExpression:
    try:
        expression = compile_cesql(text)
    except CesqlParseError as error:
        raise EventFilterError(path, error.message, error) from error
    for fault in expression.faults:
        place = CesqlParseError(text, fault.place, "an error with every event", fault.message)
        raise EventFilterError(path, place.message, place)
    if expression.type not in (None, bool):
        name = TYPE_NAMES[expression.type or bool]
        raise EventFilterError(path, f"the expression is of the type {name}; a filter is a Boolean one")
    return expression


def _texts(content: object, path: str) -> AttributeTexts:
    if not isinstance(content, dict):
        raise EventFilterError(path, f"an object of attributes and strings is wanted, not {_kind(content)}")
    if not content:
        raise EventFilterError(path, "at least one attribute is wanted")
    for name, text in content.items():
        key = str(name)
        place = f"{path}.{key}" if len(key) <= SHOWN_LENGTH and _PLAIN_KEY.fullmatch(key) else f"{path}[{shown(key)}]"
        if key != name or len(key) > MAX_ATTRIBUTE_NAME_LENGTH or _NAME.fullmatch(key) is None:
            limit = f"1 to {MAX_ATTRIBUTE_NAME_LENGTH} lower-case letters and digits"
            raise EventFilterError(place, f"{shown(key)} is not the name of an attribute, which is {limit}")
        if not isinstance(text, str):
            raise EventFilterError(place, f"a string is wanted, not {_kind(text)}")
        if not text:
            raise EventFilterError(place, "the string is empty")
        if len(text) > MAX_TEXT_LENGTH:
            raise EventFilterError(place, f"the string has more than {MAX_TEXT_LENGTH} characters")
    return tuple(sorted(content.items()))


def _kind(content: object) -> str:
    return _KINDS.get(type(content), "a number")
