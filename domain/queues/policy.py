"""Policies: optional arguments given to existing queues and exchanges by their names.  Of the matching policies one
applies: that of the highest priority, and among equals the first by name.  An operator's policy may apply beside it,
and only narrows.  Keys are those of arguments, without `x-`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final

from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.exchanges.exchange import ALTERNATE_EXCHANGE
from entrepot.domain.field_value import no_arguments, term, text_of
from entrepot.domain.queues.argument_checks import LEADER_LOCATORS, QUEUE_MODES, QUEUE_VERSIONS, as_int, max_age_ms
from entrepot.domain.queues.arguments import (
    PREFIX,
    DeadLetterStrategy,
    DelayedRetry,
    Overflow,
    QueueArguments,
    QueueType,
    read_arguments,
)
from entrepot.domain.regular_expression import RegularExpression


class ApplyTo(StrEnum):
    """Targets of a policy."""

    ALL = "all"
    EXCHANGES = "exchanges"
    QUEUES = "queues"
    CLASSIC_QUEUES = "classic_queues"
    QUORUM_QUEUES = "quorum_queues"
    STREAMS = "streams"


_QUEUES_OF: Final = {
    ApplyTo.ALL: tuple(QueueType),
    ApplyTo.QUEUES: tuple(QueueType),
    ApplyTo.CLASSIC_QUEUES: (QueueType.CLASSIC,),
    ApplyTo.QUORUM_QUEUES: (QueueType.QUORUM,),
    ApplyTo.STREAMS: (QueueType.STREAM,),
    ApplyTo.EXCHANGES: (),
}
_NUMBERS: Final[Mapping[str, tuple[int | None, str]]] = {
    "expires": (1, "queue expiry"),
    "delivery-limit": (None, "delivery limit"),
    "initial-cluster-size": (0, "cluster size"),
    "message-ttl": (0, "message TTL"),
    "max-length": (0, "maximum length"),
    "max-length-bytes": (0, "maximum length in bytes"),
    "max-in-memory-length": (0, "maximum memory in bytes"),
    "max-in-memory-bytes": (0, "maximum memory in bytes"),
    "consumer-timeout": (0, "consumer timeout"),
    "stream-max-segment-size-bytes": (0, "segment size"),
    "delayed-retry-min": (0, "delayed retry minimum"),
    "delayed-retry-max": (0, "delayed retry maximum"),
    "ha-sync-batch-size": (1, "ha-sync-batch-size"),
}
"""Keys with whole numbers as values: the lowest value, and the name in refusals."""
_TEXTS: Final = {
    ALTERNATE_EXCHANGE: "alternate exchange name",
    "dead-letter-exchange": "dead letter exchange name",
    "dead-letter-routing-key": "dead letter routing key",
}
_CHOICES: Final[Mapping[str, tuple[tuple[object, ...], str]]] = {
    "dead-letter-strategy": (tuple(DeadLetterStrategy), "dead letter strategy"),
    "overflow": (tuple(Overflow), "overflow value"),
    "queue-mode": (QUEUE_MODES, "queue-mode value"),
    "queue-version": (QUEUE_VERSIONS, "queue version"),
    "queue-leader-locator": (LEADER_LOCATORS, "queue leader locator value"),
    "delayed-retry-type": (tuple(DelayedRetry), "delayed retry type"),
    "ha-mode": (("all", "exactly", "nodes"), "ha-mode value"),
    "ha-sync-mode": (("manual", "automatic"), "ha-sync-mode value"),
    "ha-promote-on-shutdown": (("always", "when-synced"), "ha-promote-on-shutdown value"),
    "ha-promote-on-failure": (("always", "when-synced"), "ha-promote-on-failure value"),
    "queue-master-locator": (("min-masters", "client-local", "random"), "queue master locator value"),
}
HA_PARAMS: Final = "ha-params"
WITHOUT_EFFECT: Final = frozenset(
    (
        *("ha-mode", HA_PARAMS, "ha-sync-mode", "ha-sync-batch-size", "ha-promote-on-shutdown"),
        *("ha-promote-on-failure", "queue-master-locator"),
    )
)
"""Keys of RabbitMQ's mirrored queues: every queue is on as many replicas as its broker."""
OPERATOR_KEYS: Final = frozenset(
    (
        "expires",
        "message-ttl",
        "max-length",
        "max-length-bytes",
        "max-in-memory-length",
        "max-in-memory-bytes",
        "delivery-limit",
    )
)
"""Keys of an operator's policy."""
_NOT_CLASSIC: Final = (
    "max-age",
    "stream-max-segment-size-bytes",
    "initial-cluster-size",
    "delivery-limit",
    "dead-letter-strategy",
    "max-in-memory-length",
    "max-in-memory-bytes",
    "delayed-retry-type",
    "delayed-retry-min",
    "delayed-retry-max",
)
_NOT_QUORUM: Final = (
    *("queue-mode", "queue-version", "max-age", "stream-max-segment-size-bytes", "initial-cluster-size"),
    *WITHOUT_EFFECT,
)
_NOT_STREAM: Final = (
    *WITHOUT_EFFECT,
    "expires",
    "message-ttl",
    "dead-letter-exchange",
    "dead-letter-routing-key",
    "dead-letter-strategy",
    "max-length",
    "max-in-memory-length",
    "max-in-memory-bytes",
    "overflow",
    "queue-mode",
    "queue-version",
    "delivery-limit",
    "delayed-retry-type",
    "delayed-retry-min",
    "delayed-retry-max",
)
_UNSUPPORTED: Final = {
    QueueType.CLASSIC: frozenset(_NOT_CLASSIC),
    QueueType.QUORUM: frozenset(_NOT_QUORUM),
    QueueType.STREAM: frozenset(_NOT_STREAM),
}
KNOWN_KEYS: Final = frozenset((*_NUMBERS, *_TEXTS, *_CHOICES, "max-age", HA_PARAMS))
"""Keys of a policy."""


@dataclass(frozen=True, slots=True)
class Policy:
    """A policy.  `pattern`: a regular expression, searched in the name.  Raises BAD_REQUEST."""

    name: str
    pattern: str
    definition: Mapping[str, object] = field(default_factory=no_arguments, hash=False)
    priority: int = 0
    apply_to: ApplyTo = ApplyTo.ALL
    is_operators: bool = False
    compiled: RegularExpression = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "compiled", RegularExpression(self.pattern))
        _check_definition(self.definition, self.is_operators)

    def applies_to_queue(self, name: str, kind: QueueType) -> bool:
        """True if the policy applies to the queue; never with a key that the queue's type does not know."""
        return (
            kind in _QUEUES_OF[self.apply_to]
            and _UNSUPPORTED[kind].isdisjoint(self.definition)
            and self.compiled.matches(name)
        )

    def applies_to_exchange(self, name: str) -> bool:
        return self.apply_to in (ApplyTo.ALL, ApplyTo.EXCHANGES) and self.compiled.matches(name)


def policy_of_queue(policies: Iterable[Policy], name: str, kind: QueueType) -> Policy | None:
    """Return the policy of a queue."""
    return _first(each for each in policies if each.applies_to_queue(name, kind))


def policy_of_exchange(policies: Iterable[Policy], name: str) -> Policy | None:
    """Return the policy of an exchange."""
    return _first(each for each in policies if each.applies_to_exchange(name))


def _first(matching: Iterable[Policy]) -> Policy | None:
    return min(matching, key=lambda each: (-each.priority, each.name), default=None)


def effective_definition(policy: Policy | None, operators: Policy | None) -> Mapping[str, object]:
    """Return the joint definition of a user's and an operator's policy: of two numbers the lower."""
    own = no_arguments() if policy is None else policy.definition
    limits = no_arguments() if operators is None else operators.definition
    both: dict[str, Any] = {**own, **limits}
    for key in own.keys() & limits.keys():  # all of them numbers
        both[key] = min(as_int(own[key]), as_int(limits[key]))
    return both


def with_policy(arguments: QueueArguments, definition: Mapping[str, object]) -> QueueArguments:
    """Return the queue's arguments under a policy.  Of two numbers the lower holds; of other values the argument,
    except the policy's overflow for quorum queues."""
    said = read_arguments({PREFIX + key: value for key, value in definition.items() if key != ALTERNATE_EXCHANGE})
    given = read_arguments(arguments.given)
    changed = {
        name: _resolved(name, value, given[name], arguments) if name in given else value for name, value in said.items()
    }
    return replace(arguments, **changed)


def _resolved(name: str, of_policy: Any, of_queue: Any, arguments: QueueArguments) -> Any:
    if name == "overflow" and arguments.queue_type is QueueType.QUORUM:
        return of_policy
    if name == "queue_version" or not isinstance(of_policy, int):
        return of_queue
    if name == "delivery_limit" and min(of_policy, of_queue) < 0:
        return max(of_policy, of_queue)  # below 0 means no limit: any limit is lower
    return min(of_policy, of_queue)


def alternate_exchange(definition: Mapping[str, object]) -> str | None:
    """Return the alternate exchange that a policy gives (`Routing.set_policy_alternate`)."""
    return text_of(definition.get(ALTERNATE_EXCHANGE))


def _check_definition(definition: Mapping[str, object], is_operators: bool) -> None:
    allowed, whose = (OPERATOR_KEYS, "operator policy") if is_operators else (KNOWN_KEYS, "policy")
    unknown = sorted(definition.keys() - allowed)
    if unknown:
        listed = ",".join(map(term, unknown))
        raise EntrepotError(Code.BAD_REQUEST, f"[{listed}] are not recognised {whose} settings")
    for key, value in definition.items():
        what = _what_it_is_not(key, value)
        if what is not None:
            raise EntrepotError(Code.BAD_REQUEST, f"{term(value)} is not a valid {what}")


def _what_it_is_not(key: str, value: object) -> str | None:
    """Return the name of the kind of value that a known key needs, or None for a valid value."""
    if key in _NUMBERS:
        lowest, what = _NUMBERS[key]
        is_number = isinstance(value, int) and not isinstance(value, bool)
        return None if is_number and (lowest is None or as_int(value) >= lowest) else what
    if key in _TEXTS:
        return _TEXTS[key] if text_of(value) is None else None
    if key == HA_PARAMS:
        return None if isinstance(value, int | list) and not isinstance(value, bool) else "ha-params value"
    if key == "max-age":
        return "max age" if max_age_ms(value) is None else None
    choices, what = _CHOICES[key]
    given = value if isinstance(value, int) and not isinstance(value, bool) else text_of(value)
    return None if given in choices else what
