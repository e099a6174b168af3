"""Arguments of an AMQP queue, parsed from a declaration or a policy and checked with RabbitMQ's texts.  Each type of
queue knows some arguments and refuses those of other types only; unknown ones are kept unchanged. Durations are
milliseconds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.field_value import no_arguments, text_of, type_name
from entrepot.domain.queues import argument_checks as checks
from entrepot.domain.queues.argument_checks import Check

PREFIX: Final = "x-"
QUEUE_TYPE: Final = "x-queue-type"
DEAD_LETTER_EXCHANGE: Final = "x-dead-letter-exchange"
DEAD_LETTER_ROUTING_KEY: Final = "x-dead-letter-routing-key"
QUORUM_DELIVERY_LIMIT: Final = 20
"""Delivery limit of quorum queues without one, since RabbitMQ 4.0."""


class QueueType(StrEnum):
    CLASSIC = "classic"
    QUORUM = "quorum"
    STREAM = "stream"


class Overflow(StrEnum):
    """Treatments of a message without room in a full queue; DROP_HEAD drops the oldest one."""

    DROP_HEAD = "drop-head"
    REJECT_PUBLISH = "reject-publish"
    REJECT_PUBLISH_DLX = "reject-publish-dlx"


class DeadLetterStrategy(StrEnum):
    AT_MOST_ONCE = "at-most-once"
    AT_LEAST_ONCE = "at-least-once"


class DelayedRetry(StrEnum):
    """Kinds of returned messages that wait before they are delivered again."""

    DISABLED = "disabled"
    ALL = "all"
    FAILED = "failed"
    RETURNED = "returned"


_CHECKS: Final[Mapping[str, Check]] = {
    "x-expires": checks.positive,  # a queue cannot expire at once
    "x-message-ttl": checks.not_negative,
    DEAD_LETTER_EXCHANGE: checks.text,
    DEAD_LETTER_ROUTING_KEY: checks.dead_letter_routing_key,
    "x-dead-letter-strategy": checks.one_of(DeadLetterStrategy, "invalid_dlx_strategy"),
    "x-max-length": checks.not_negative,
    "x-max-length-bytes": checks.not_negative,
    "x-max-in-memory-length": checks.not_negative,
    "x-max-in-memory-bytes": checks.not_negative,
    "x-max-priority": checks.priority,
    "x-overflow": checks.one_of(Overflow, "invalid_overflow"),
    "x-queue-mode": checks.one_of(checks.QUEUE_MODES, "\"unsupported queue mode '{}'\""),
    "x-queue-version": checks.queue_version,
    "x-single-active-consumer": checks.boolean,
    "x-delivery-limit": checks.integer,
    "x-consumer-timeout": checks.not_negative,
    "x-quorum-initial-group-size": checks.positive,
    "x-initial-cluster-size": checks.positive,
    "x-max-age": checks.max_age,
    "x-stream-max-segment-size-bytes": checks.not_negative,
    "x-stream-filter-size-bytes": checks.not_negative,
    "x-queue-leader-locator": checks.one_of(checks.LEADER_LOCATORS, "invalid_queue_locator_arg"),
    "x-delayed-retry-type": checks.one_of(DelayedRetry, "invalid_delayed_retry_type"),
    "x-delayed-retry-min": checks.not_negative,
    "x-delayed-retry-max": checks.not_negative,
}
_check_queue_type: Final = checks.one_of(QueueType, "\"unsupported queue type '{}'\"")
_EVERYWHERE: Final = ("x-consumer-timeout", "x-stream-filter-size-bytes")
"""Arguments that every type checks and accepts, and that are ignored when a queue is declared again."""
_KNOWN: Final[Mapping[QueueType, tuple[str, ...]]] = {
    QueueType.CLASSIC: (
        "x-expires",
        "x-message-ttl",
        DEAD_LETTER_EXCHANGE,
        DEAD_LETTER_ROUTING_KEY,
        "x-max-length",
        "x-max-length-bytes",
        "x-max-priority",
        "x-overflow",
        "x-queue-mode",
        "x-queue-version",
        "x-single-active-consumer",
        QUEUE_TYPE,
        "x-queue-master-locator",
        "x-queue-leader-locator",
    ),
    QueueType.QUORUM: (
        DEAD_LETTER_EXCHANGE,
        DEAD_LETTER_ROUTING_KEY,
        "x-dead-letter-strategy",
        "x-expires",
        "x-max-length",
        "x-max-length-bytes",
        "x-max-in-memory-length",
        "x-max-in-memory-bytes",
        "x-overflow",
        "x-single-active-consumer",
        QUEUE_TYPE,
        "x-quorum-initial-group-size",
        "x-delivery-limit",
        "x-message-ttl",
        "x-queue-leader-locator",
        "x-delayed-retry-type",
        "x-delayed-retry-min",
        "x-delayed-retry-max",
        "x-max-priority",
    ),
    QueueType.STREAM: (
        "x-max-length-bytes",
        QUEUE_TYPE,
        "x-max-age",
        "x-stream-max-segment-size-bytes",
        "x-initial-cluster-size",
        "x-queue-leader-locator",
    ),
}
_KNOWN_ANYWHERE: Final = frozenset(name for names in _KNOWN.values() for name in names)
_ERLANG_NAMES: Final = {kind: f"rabbit_{kind}_queue" for kind in QueueType}


def known_arguments(kind: QueueType) -> tuple[str, ...]:
    """Return the arguments that a type of queue knows, in RabbitMQ's order of comparison."""
    return _KNOWN[kind]


@dataclass(frozen=True, slots=True)
class QueueArguments:
    """The known arguments of a queue's declaration.  None: no limit, or not set.

    `given`: all arguments from the client; a second declaration is compared with these alone.  `delivery_limit`: below
    0 for no limit; None for the type's default.
    """

    queue_type: QueueType = QueueType.CLASSIC
    message_ttl_ms: int | None = None
    expires_ms: int | None = None
    max_length: int | None = None
    max_length_bytes: int | None = None
    overflow: Overflow = Overflow.DROP_HEAD
    dead_letter_exchange: str | None = None
    dead_letter_routing_key: str | None = None
    dead_letter_strategy: DeadLetterStrategy = DeadLetterStrategy.AT_MOST_ONCE
    max_priority: int | None = None
    single_active_consumer: bool = False
    delivery_limit: int | None = None
    consumer_timeout_ms: int | None = None
    max_age_ms: int | None = None
    max_segment_bytes: int | None = None
    queue_mode: str | None = None
    queue_version: int | None = None
    delayed_retry: DelayedRetry = DelayedRetry.DISABLED
    delayed_retry_min_ms: int | None = None
    delayed_retry_max_ms: int | None = None
    given: Mapping[str, object] = field(default_factory=no_arguments, compare=False)

    @property
    def is_quorum(self) -> bool:
        return self.queue_type is QueueType.QUORUM

    def attempts_allowed(self, default: int | None) -> int | None:
        """Returns of a message allowed before it is a dead letter, or None for any number.  `default`: of a quorum
        queue without a limit."""
        if not self.is_quorum:
            return None
        limit = default if self.delivery_limit is None else self.delivery_limit
        return None if limit is None or limit < 0 else limit

    def retry_delay_ms(self, attempt: int, *, has_failed: bool) -> int:
        """Return how long a returned message waits before it is delivered again, as RabbitMQ 4.3's delayed retry.

        It grows with the attempt, from 1 on, up to the maximum.  `has_failed`: the client says so (basic.reject), as
        opposed to one that only gives it back (basic.nack, basic.recover).
        """
        kind = self.delayed_retry
        if not self.is_quorum or kind is DelayedRetry.DISABLED:
            return 0
        if kind is not DelayedRetry.ALL and has_failed is not (kind is DelayedRetry.FAILED):
            return 0
        delay_ms = (self.delayed_retry_min_ms or 0) * attempt
        return delay_ms if self.delayed_retry_max_ms is None else min(delay_ms, self.delayed_retry_max_ms)

    @property
    def full_queue(self) -> Overflow:
        """The treatment of messages in a full queue.  Quorum queues lack REJECT_PUBLISH_DLX and drop the head
        instead."""
        if self.is_quorum and self.overflow is Overflow.REJECT_PUBLISH_DLX:
            return Overflow.DROP_HEAD
        return self.overflow


def default_delivery_limit(version: str) -> int | None:
    """Return the delivery limit of quorum queues without one in a version of RabbitMQ, such as `3.13.7`."""
    major = version.partition(".")[0]
    return QUORUM_DELIVERY_LIMIT if major.isdecimal() and int(major) >= 4 else None


def parse_queue_arguments(given: Mapping[str, object], of: str) -> QueueArguments:
    """Parse the arguments of a queue.  `of`: its text, `queue 'q' in vhost '/'`.  Raises PRECONDITION_FAILED."""
    kind = _queue_type(given, of)
    if DEAD_LETTER_EXCHANGE in given and text_of(given[DEAD_LETTER_EXCHANGE]) is None:
        wrong = type_name(given[DEAD_LETTER_EXCHANGE])
        raise _refusal(f"invalid type '{wrong}' for arg '{DEAD_LETTER_EXCHANGE}' in {of}")
    for name, check in _CHECKS.items():
        if name in given and (name in _EVERYWHERE or name in _KNOWN[kind]):
            fault = check(given[name], given)
            if fault is not None:
                raise _refusal(f"invalid arg '{name}' for {of}: {fault}")
    for name in given:
        if name in _KNOWN_ANYWHERE and name not in _KNOWN[kind]:
            raise _refusal(f"invalid arg '{name}' for {of} of queue type {_ERLANG_NAMES[kind]}")
    return QueueArguments(queue_type=kind, given=given, **read_arguments(given))


def _refusal(text: str) -> EntrepotError:
    return EntrepotError(Code.PRECONDITION_FAILED, text)


def _queue_type(given: Mapping[str, object], of: str) -> QueueType:
    if QUEUE_TYPE not in given:
        return QueueType.CLASSIC
    fault = _check_queue_type(given[QUEUE_TYPE], given)
    if fault is not None:
        raise _refusal(f"invalid arg '{QUEUE_TYPE}' for {of}: {fault}")
    return QueueType(text_of(given[QUEUE_TYPE]) or "")


_FIELDS: Final[Mapping[str, tuple[str, Callable[[object], object]]]] = {
    "x-message-ttl": ("message_ttl_ms", checks.as_int),
    "x-expires": ("expires_ms", checks.as_int),
    "x-max-length": ("max_length", checks.as_int),
    "x-max-length-bytes": ("max_length_bytes", checks.as_int),
    "x-overflow": ("overflow", lambda value: Overflow(text_of(value) or "")),
    DEAD_LETTER_EXCHANGE: ("dead_letter_exchange", text_of),
    DEAD_LETTER_ROUTING_KEY: ("dead_letter_routing_key", text_of),
    "x-dead-letter-strategy": ("dead_letter_strategy", lambda value: DeadLetterStrategy(text_of(value) or "")),
    "x-max-priority": ("max_priority", checks.as_int),
    "x-single-active-consumer": ("single_active_consumer", bool),
    "x-delivery-limit": ("delivery_limit", checks.as_int),
    "x-consumer-timeout": ("consumer_timeout_ms", checks.as_int),
    "x-max-age": ("max_age_ms", checks.max_age_ms),
    "x-stream-max-segment-size-bytes": ("max_segment_bytes", checks.as_int),
    "x-queue-mode": ("queue_mode", text_of),
    "x-queue-version": ("queue_version", checks.as_int),
    "x-delayed-retry-type": ("delayed_retry", lambda value: DelayedRetry(text_of(value) or "")),
    "x-delayed-retry-min": ("delayed_retry_min_ms", checks.as_int),
    "x-delayed-retry-max": ("delayed_retry_max_ms", checks.as_int),
}


def read_arguments(arguments: Mapping[str, object]) -> dict[str, Any]:
    """Return the fields of `QueueArguments` that (checked) arguments set, by name."""
    return {name: read(arguments[key]) for key, (name, read) in _FIELDS.items() if key in arguments}
