"""Binding: a route from an exchange to a queue or another exchange, and the checks of an exchange on its bindings.  A
binding's identity is its source, destination, routing key and arguments together."""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.exchanges.exchange import ExchangeType, check_not_default
from entrepot.domain.field_value import no_arguments, table_identity, term, text_of, type_name

MATCH: Final = "x-match"
_INTEGER: Final = re.compile(r"[+-]?[0-9]+")


class DestinationKind(StrEnum):
    """Kinds of a binding's destination."""

    QUEUE = "queue"
    EXCHANGE = "exchange"


class HeadersMatch(StrEnum):
    """Rules of a headers binding.  Headers that begin with `x-` count only with WITH_X."""

    ALL = "all"
    ANY = "any"
    ALL_WITH_X = "all-with-x"
    ANY_WITH_X = "any-with-x"


@dataclass(frozen=True, slots=True)
class Binding:
    """A binding.  Its routing key is a pattern for a topic exchange, a weight for a consistent-hash exchange."""

    source: str
    destination: str
    routing_key: str = ""
    arguments: Mapping[str, object] = field(default_factory=no_arguments, compare=False)
    destination_kind: DestinationKind = DestinationKind.QUEUE
    argument_identity: tuple[Hashable, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "argument_identity", table_identity(self.arguments))


def check_binding(binding: Binding, source_type: ExchangeType) -> None:
    """Raise if an exchange of this (routing) type does not accept the binding.  Raises FORBIDDEN for the default
    exchange, else PRECONDITION_FAILED."""
    check_not_default(binding.source)
    if binding.destination_kind is DestinationKind.EXCHANGE:
        check_not_default(binding.destination)
    if source_type is ExchangeType.HEADERS:
        _check_match(binding.arguments)
    elif source_type is ExchangeType.CONSISTENT_HASH:
        _check_weight(binding.routing_key)
    elif source_type is ExchangeType.LOCAL_RANDOM and binding.destination_kind is DestinationKind.EXCHANGE:
        text = f"an exchange of type {source_type} is bound to queues only"
        raise EntrepotError(Code.PRECONDITION_FAILED, text)


def headers_match(arguments: Mapping[str, object]) -> HeadersMatch:
    """Return the match rule of a headers binding; ALL without `x-match`."""
    text = text_of(arguments.get(MATCH))
    return HeadersMatch.ALL if text is None else HeadersMatch(text)


def weight(binding: Binding) -> int:
    """Return the weight of a binding of a consistent-hash exchange."""
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
