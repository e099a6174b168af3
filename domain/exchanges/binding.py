"""Binding: what an exchange hands on to a queue or to another exchange, and which bindings an exchange takes.

A binding is its source, destination, routing key and arguments together: there is no second one with all of them the
same, and two that differ in one are two.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from domain.errors import Code, EntrepotError
from domain.exchanges.exchange import ExchangeType, check_not_default
from domain.field_value import no_arguments, table_identity, term, text_of, type_name

MATCH: Final = "x-match"
_INTEGER: Final = re.compile(r"[+-]?[0-9]+")


class DestinationKind(StrEnum):
    """What a binding leads to."""

    QUEUE = "queue"
    EXCHANGE = "exchange"


class HeadersMatch(StrEnum):
    """Which headers of a binding a message has to have.  Those that begin with `x-` count only WITH_X."""

    ALL = "all"
    ANY = "any"
    ALL_WITH_X = "all-with-x"
    ANY_WITH_X = "any-with-x"


@dataclass(frozen=True, slots=True)
class Binding:
    """A binding.  The routing key is a pattern where the source is a topic exchange, a weight where it hashes."""

    source: str
    destination: str
    routing_key: str = ""
    arguments: Mapping[str, object] = field(default_factory=no_arguments, compare=False)
    destination_kind: DestinationKind = DestinationKind.QUEUE
    argument_identity: tuple[Hashable, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "argument_identity", table_identity(self.arguments))


def check_binding(binding: Binding, source_type: ExchangeType) -> None:
    """Raise where an exchange of this (routing) type takes no such binding: FORBIDDEN for the default exchange, else
    PRECONDITION_FAILED."""
    check_not_default(binding.source)
    if binding.destination_kind is DestinationKind.EXCHANGE:
        check_not_default(binding.destination)
    if source_type is ExchangeType.HEADERS:
        _check_match(binding.arguments)
    elif source_type is ExchangeType.CONSISTENT_HASH:
        _check_weight(binding.routing_key)


def headers_match(arguments: Mapping[str, object]) -> HeadersMatch:
    """Match of a headers exchange.  Without `x-match` it is ALL."""
    text = text_of(arguments.get(MATCH))
    return HeadersMatch.ALL if text is None else HeadersMatch(text)


def weight(binding: Binding) -> int:
    """The weight of a binding whose source hashes."""
    return int(binding.routing_key)


def _check_match(arguments: Mapping[str, object]) -> None:
    if MATCH not in arguments:
        return
    value = arguments[MATCH]
    text = text_of(value)
    if text is None:
        raise EntrepotError(
            Code.PRECONDITION_FAILED,
            f"Invalid x-match field type {type_name(value)} (value {term(value)}); expected longstr",
        )
    if text not in tuple(HeadersMatch):
        raise EntrepotError(
            Code.PRECONDITION_FAILED,
            f"Invalid x-match field value {term(value)}; expected all, any, all-with-x, or any-with-x",
        )


def _check_weight(routing_key: str) -> None:
    if _INTEGER.fullmatch(routing_key) is None:
        raise EntrepotError(Code.PRECONDITION_FAILED, f"The binding key must be an integer: {term(routing_key)}")
    if int(routing_key) < 1:
        raise EntrepotError(Code.PRECONDITION_FAILED, "The binding key must be greater than 0")
