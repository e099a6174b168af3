"""Exchange: its definition, the checks of a declaration, and the equivalence of two declarations.  Texts of refusals
are RabbitMQ's, without the code's name that a listener puts in front."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.field_value import (
    argument_inequivalence,
    atom,
    field_inequivalence,
    no_arguments,
    table_identity,
    text_of,
    type_name,
)

DEFAULT_EXCHANGE: Final = ""
"""Name of the default exchange, to which every queue is bound by its own name."""
RESERVED_PREFIX: Final = "amq."
ALTERNATE_EXCHANGE: Final = "alternate-exchange"
DELAYED_TYPE: Final = "x-delayed-type"
HASH_HEADER: Final = "hash-header"
HASH_PROPERTY: Final = "hash-property"
HASH_PROPERTIES: Final = ("correlation_id", "message_id", "timestamp")


class ExchangeType(StrEnum):
    """Ways to choose among an exchange's bindings.  A DELAYED one chooses as its argument `x-delayed-type` says."""

    DIRECT = "direct"
    FANOUT = "fanout"
    TOPIC = "topic"
    HEADERS = "headers"
    DELAYED = "x-delayed-message"
    CONSISTENT_HASH = "x-consistent-hash"
    MODULUS_HASH = "x-modulus-hash"
    RANDOM = "x-random"
    LOCAL_RANDOM = "x-local-random"


RANDOM_TYPES: Final = (ExchangeType.RANDOM, ExchangeType.LOCAL_RANDOM)
"""Types that send the same message elsewhere each time.  All queues are local here."""


def exchange_type(name: str) -> ExchangeType:
    """Return the type of that name.  Raises PRECONDITION_FAILED for an unknown one."""
    try:
        return ExchangeType(name)
    except ValueError:
        raise EntrepotError(Code.PRECONDITION_FAILED, f"unknown exchange type '{name}'") from None


@dataclass(frozen=True, slots=True)
class Exchange:
    """An exchange's definition.  `internal`: clients may not publish to it; exchanges may be bound to it."""

    name: str
    type: ExchangeType = ExchangeType.DIRECT
    durable: bool = True
    auto_delete: bool = False
    internal: bool = False
    arguments: Mapping[str, object] = field(default_factory=no_arguments, compare=False)
    argument_identity: tuple[Hashable, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "argument_identity", table_identity(self.arguments))

    @property
    def routing_type(self) -> ExchangeType:
        """The type that chooses among the bindings."""
        if self.type is not ExchangeType.DELAYED:
            return self.type
        return ExchangeType(text_of(self.arguments[DELAYED_TYPE]) or "")

    @property
    def alternate(self) -> str | None:
        """The alternate exchange of its argument, for unroutable messages; a policy may name another."""
        return text_of(self.arguments.get(ALTERNATE_EXCHANGE))


def _system(name: str, kind: ExchangeType, internal: bool = False) -> Exchange:
    return Exchange(name, kind, internal=internal)


PREDECLARED: Final = (
    _system(DEFAULT_EXCHANGE, ExchangeType.DIRECT),
    _system("amq.direct", ExchangeType.DIRECT),
    _system("amq.fanout", ExchangeType.FANOUT),
    _system("amq.topic", ExchangeType.TOPIC),
    _system("amq.headers", ExchangeType.HEADERS),
    _system("amq.match", ExchangeType.HEADERS),
    _system("amq.rabbitmq.trace", ExchangeType.TOPIC, internal=True),
)
"""The exchanges of every vhost."""


def exchange_text(name: str, vhost: str) -> str:
    """Return the exchange as refusals name it."""
    return f"exchange '{name}' in vhost '{vhost}'"


def not_found(name: str, vhost: str) -> EntrepotError:
    """Return the refusal for a missing exchange."""
    return EntrepotError(Code.TOPIC_NOT_FOUND, f"no {exchange_text(name, vhost)}")


# -- checks ----------------------------------------------------------------------------------------------------------


def check_not_default(name: str) -> None:
    """Raise FORBIDDEN for the default exchange, which cannot be declared, deleted or bound."""
    if name == DEFAULT_EXCHANGE:
        raise EntrepotError(Code.FORBIDDEN, "operation not permitted on the default exchange")


def check_new_name(name: str) -> None:
    """Raise FORBIDDEN for a name reserved for the system."""
    check_not_default(name)
    if name.startswith(RESERVED_PREFIX):
        raise EntrepotError(Code.FORBIDDEN, f"exchange name '{name}' contains reserved prefix 'amq.*'")


def check_deletable(name: str, vhost: str) -> None:
    """Raise FORBIDDEN for the system's own exchanges."""
    check_not_default(name)
    if name.startswith(RESERVED_PREFIX):
        raise EntrepotError(Code.FORBIDDEN, f"deletion of system {exchange_text(name, vhost)} not allowed")


def check_publishable(exchange: Exchange, vhost: str) -> None:
    """Raise FORBIDDEN for an internal exchange."""
    if exchange.internal:
        raise EntrepotError(Code.FORBIDDEN, f"cannot publish to internal {exchange_text(exchange.name, vhost)}")


def check_exchange(exchange: Exchange, vhost: str) -> None:
    """Raise PRECONDITION_FAILED for arguments that an exchange of this type cannot have."""
    arguments = exchange.arguments
    if ALTERNATE_EXCHANGE in arguments and exchange.alternate is None:
        kind = type_name(arguments[ALTERNATE_EXCHANGE])
        of = exchange_text(exchange.name, vhost)
        raise EntrepotError(Code.PRECONDITION_FAILED, f"invalid type '{kind}' for arg '{ALTERNATE_EXCHANGE}' in {of}")
    if exchange.type is ExchangeType.DELAYED:
        _check_delayed_type(text_of(arguments.get(DELAYED_TYPE)))
    if exchange.routing_type is ExchangeType.CONSISTENT_HASH:
        _check_hash_arguments(arguments)


def _check_delayed_type(name: str | None) -> None:
    if name is None:
        raise EntrepotError(
            Code.PRECONDITION_FAILED, f"Invalid argument, '{DELAYED_TYPE}' must be an existing exchange type"
        )
    if exchange_type(name) is ExchangeType.DELAYED:
        raise EntrepotError(
            Code.PRECONDITION_FAILED, f"Invalid argument, '{ExchangeType.DELAYED}' can't be used for '{DELAYED_TYPE}'"
        )


def _check_hash_arguments(arguments: Mapping[str, object]) -> None:
    if HASH_HEADER in arguments and HASH_PROPERTY in arguments:
        raise EntrepotError(Code.PRECONDITION_FAILED, "hash-header and hash-property are mutually exclusive")
    name = text_of(arguments.get(HASH_PROPERTY))
    if HASH_PROPERTY in arguments and name not in HASH_PROPERTIES:
        raise EntrepotError(Code.PRECONDITION_FAILED, f"Unsupported property: {name or arguments[HASH_PROPERTY]}")


def inequivalence(current: Exchange, wanted: Exchange, vhost: str) -> str | None:
    """Return RabbitMQ's text for a declaration that differs from the current exchange, or None for an equal one.  Of
    the arguments only the alternate exchange counts."""
    of = exchange_text(current.name, vhost)
    if current.type is not wanted.type:
        return field_inequivalence("type", of, atom(wanted.type), atom(current.type))
    for name in ("durable", "auto_delete", "internal"):
        old, new = getattr(current, name), getattr(wanted, name)
        if old != new:
            return field_inequivalence(name, of, new, old)
    return argument_inequivalence(ALTERNATE_EXCHANGE, of, wanted.arguments, current.arguments)
