"""QueueDeclaration: an AMQP queue's definition, the checks of its properties, and the equivalence of two declarations.
The listener knows the owner of an exclusive queue: it checks that first and refuses with `locked`.

ADR 23: an AMQP queue is a topic with one group.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.field_value import argument_inequivalence, field_inequivalence
from entrepot.domain.queues.arguments import (
    QUEUE_TYPE,
    QueueArguments,
    QueueType,
    known_arguments,
    parse_queue_arguments,
)

RESERVED_PREFIX: Final = "amq."


@dataclass(frozen=True, slots=True)
class QueueDeclaration:
    """A queue's definition."""

    name: str
    durable: bool = False
    exclusive: bool = False
    auto_delete: bool = False
    arguments: QueueArguments = field(default_factory=QueueArguments)

    @property
    def is_lasting(self) -> bool:
        """True for a queue that outlives its clients and its gateway."""
        return self.durable and not self.exclusive and not self.auto_delete


def queue_text(name: str, vhost: str) -> str:
    """Return the queue as refusals name it."""
    return f"queue '{name}' in vhost '{vhost}'"


def declared_queue(
    name: str,
    vhost: str,
    *,
    durable: bool = False,
    exclusive: bool = False,
    auto_delete: bool = False,
    arguments: Mapping[str, object],
) -> QueueDeclaration:
    """Return the declaration of a queue.  Raises PRECONDITION_FAILED, with RabbitMQ's text, for an invalid one."""
    of = queue_text(name, vhost)
    parsed = parse_queue_arguments(arguments, of)
    if parsed.queue_type is QueueType.STREAM and auto_delete:
        raise _refusal(f"invalid property 'auto-delete' for {of}")
    if parsed.queue_type is not QueueType.CLASSIC:
        if exclusive:
            raise _refusal(f"invalid property 'exclusive-owner' for {of}")
        if not durable:
            raise _refusal(f"invalid property 'non-durable' for {of}")
    return QueueDeclaration(name, durable, exclusive, auto_delete, parsed)


def check_new_name(name: str) -> None:
    """Raise FORBIDDEN for a name reserved for the system."""
    if name.startswith(RESERVED_PREFIX):
        raise EntrepotError(Code.FORBIDDEN, f"queue name '{name}' contains reserved prefix 'amq.*'")


def not_found(name: str, vhost: str) -> EntrepotError:
    """Return the refusal for a missing queue."""
    return EntrepotError(Code.TOPIC_NOT_FOUND, f"no {queue_text(name, vhost)}")


def locked(name: str, vhost: str) -> str:
    """Return RabbitMQ's text for a queue of another connection, or one whose `exclusive` differs from its
    declaration."""
    return (
        f"cannot obtain exclusive access to locked {queue_text(name, vhost)}. It could be originally declared on "
        "another connection or the exclusive property value does not match that of the original declaration."
    )


def inequivalence(current: QueueDeclaration, wanted: QueueDeclaration, vhost: str) -> str | None:
    """Return RabbitMQ's text for a declaration that differs from the current queue, or None for an equal one.  Only
    arguments that the queue's type knows count.  The type classic may be given or left out."""
    of = queue_text(current.name, vhost)
    for name in ("durable", "auto_delete"):
        old, new = getattr(current, name), getattr(wanted, name)
        if old != new:
            return field_inequivalence(name, of, new, old)
    there, here = wanted.arguments, current.arguments
    for name in known_arguments(here.queue_type):
        if name == QUEUE_TYPE and there.queue_type is here.queue_type:
            continue
        text = argument_inequivalence(name, of, there.given, here.given)
        if text is not None:
            return text
    return None


def _refusal(text: str) -> EntrepotError:
    return EntrepotError(Code.PRECONDITION_FAILED, text)
