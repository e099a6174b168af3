"""Message filters of consumers, compiled once and applied to every message.  A filter is applied twice: `may_match` to
the 64-bit hash of a consume-queue entry, before the record is read, and `matches` to the record, which decides.

ADR 12: indexes. Invariant: `may_match` is False only for records that `matches` refuses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Final

from entrepot.domain.expression.fault import fault, shown
from entrepot.domain.expression.sql92 import compile_sql
from entrepot.domain.expression.tag import parse_tags
from entrepot.domain.filter_hash import TAG_MASK, sub_topic_hash, tag_hash
from entrepot.domain.message import Message
from entrepot.domain.routing.topic_filter import MAX_LEVELS, MAX_TOPIC_BYTES, is_valid_filter
from entrepot.domain.routing.topic_filter import matches as name_matches

REMEMBERED_FILTERS: Final = 512
"""Size of the cache of compiled filters: consumers send their expression with every request."""


MAX_SUB_TOPIC_FILTERS: Final = 64
"""Most topic filters in one expression."""
ALTERNATIVES: Final = "\0"
"""Separator of topic filters; no filter contains it."""


class FilterKind(StrEnum):
    """Languages of expressions: RocketMQ's `FilterType`, and MQTT topic filters over sub-topics.  SUB_TOPIC is one
    topic filter, or several joined by `ALTERNATIVES` of which one must match."""

    TAG = "TAG"
    SQL92 = "SQL92"
    SUB_TOPIC = "SUB_TOPIC"


@dataclass(frozen=True, slots=True)
class FilterExpression:
    """An expression as a consumer wrote it (RocketMQ: `FilterExpression`); it may be invalid."""

    kind: FilterKind
    text: str


class MessageFilter:
    """A compiled expression.  Made by `compile_filter` only; immutable, and its methods never raise.  `accepts_all`:
    the tag expression `*` or nothing, so that no message needs a check.  `#` does not accept all: sub-topics that start
    with `$` do not match it.  `exact_sub_topic`: the name in a sub-topic filter without wildcards."""

    __slots__ = ("accepts_all", "exact_sub_topic", "expression")

    def __init__(
        self, expression: FilterExpression, *, accepts_all: bool = False, exact_sub_topic: str | None = None
    ) -> None:
        self.expression = expression
        self.accepts_all = accepts_all
        self.exact_sub_topic = exact_sub_topic

    def may_match(self, filter_hash: int) -> bool:
        """True if a message with this filter hash may match; False is certain."""
        return True

    def matches(self, message: Message) -> bool:
        """True if the message matches."""
        return True

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.expression.kind.value}, {self.expression.text!r})"


class _TagFilter(MessageFilter):
    __slots__ = ("_hashes", "_tags")

    def __init__(self, expression: FilterExpression, tags: frozenset[str]) -> None:
        super().__init__(expression)
        self._tags = tags
        self._hashes = frozenset(map(tag_hash, tags))

    def may_match(self, filter_hash: int) -> bool:
        return filter_hash & TAG_MASK in self._hashes

    def matches(self, message: Message) -> bool:
        return message.tag in self._tags


class _SqlFilter(MessageFilter):
    __slots__ = ("_decide",)

    def __init__(self, expression: FilterExpression) -> None:
        super().__init__(expression)
        self._decide = compile_sql(expression.text)

    def matches(self, message: Message) -> bool:
        return self._decide(message)


class _SubTopicFilter(MessageFilter):
    """A topic filter with wildcards: hashes cannot exclude messages; the store has an index of names instead."""

    __slots__ = ("_filter",)

    def __init__(self, expression: FilterExpression) -> None:
        super().__init__(expression)
        self._filter = expression.text

    def matches(self, message: Message) -> bool:
        return name_matches(self._filter, message.sub_topic or message.topic)


class _SubTopicFilters(MessageFilter):
    __slots__ = ("_filters",)

    def __init__(self, expression: FilterExpression) -> None:
        super().__init__(expression)
        self._filters = expression.text.split(ALTERNATIVES)

    def matches(self, message: Message) -> bool:
        name = message.sub_topic or message.topic
        return any(name_matches(each, name) for each in self._filters)


class _SubTopicName(MessageFilter):
    __slots__ = ("_name", "_wanted")

    def __init__(self, expression: FilterExpression) -> None:
        super().__init__(expression, exact_sub_topic=expression.text)
        self._name = expression.text
        # A message without a sub-topic counts under its topic's own name, with the hash 0.
        self._wanted = {sub_topic_hash(self._name)} | (set() if "/" in self._name else {0})

    def may_match(self, filter_hash: int) -> bool:
        return filter_hash & ~TAG_MASK in self._wanted

    def matches(self, message: Message) -> bool:
        return (message.sub_topic or message.topic) == self._name


@lru_cache(maxsize=REMEMBERED_FILTERS)
def compile_filter(expression: FilterExpression) -> MessageFilter:
    """Compile an expression.  Raises ILLEGAL_FILTER_EXPRESSION with the position of the fault, counted in characters
    from 1."""
    text = expression.text
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise fault("half of a surrogate pair is not a character", error.start) from None
    match expression.kind:
        case FilterKind.TAG:
            tags = parse_tags(text)
            return MessageFilter(expression, accepts_all=True) if tags is None else _TagFilter(expression, tags)
        case FilterKind.SQL92:
            return _SqlFilter(expression)
        case FilterKind.SUB_TOPIC:
            if ALTERNATIVES in text:
                return _compile_alternatives(expression)
            _check_sub_topic_filter(text)
            return _SubTopicFilter(expression) if "+" in text or "#" in text else _SubTopicName(expression)


def sub_topic_filters(filters: Sequence[str]) -> FilterExpression:
    """Return the expression that matches any of the topic filters; at most `MAX_SUB_TOPIC_FILTERS`."""
    return FilterExpression(FilterKind.SUB_TOPIC, ALTERNATIVES.join(filters))


def _compile_alternatives(expression: FilterExpression) -> MessageFilter:
    filters = expression.text.split(ALTERNATIVES)
    if len(filters) > MAX_SUB_TOPIC_FILTERS:
        raise fault(f"an expression has at most {MAX_SUB_TOPIC_FILTERS} topic filters", 0)
    for each in filters:
        _check_sub_topic_filter(each)
    return _SubTopicFilters(expression)


def _check_sub_topic_filter(text: str) -> None:
    if len(encoded := text.encode()) > MAX_TOPIC_BYTES:
        whole = encoded[:MAX_TOPIC_BYTES].decode(errors="ignore")
        raise fault(f"a topic filter has at most {MAX_TOPIC_BYTES} bytes", len(whole))
    if is_valid_filter(text):
        return
    place = 0
    for depth, level in enumerate(text.split("/")):
        if depth >= MAX_LEVELS:
            raise fault(f"a topic filter has at most {MAX_LEVELS} levels", place)
        for offset, character in enumerate(level):
            if character == "\0" or (character in "+#" and len(level) > 1):
                raise fault(f"{character!r} cannot stand in the level {shown(level)}", place + offset)
        if level == "#" and place + 1 < len(text):
            raise fault("'#' can only be the last level", place)
        place += len(level) + 1
    raise fault("the topic filter is empty", 0)
