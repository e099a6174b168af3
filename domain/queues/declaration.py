"""QueueDeclaration: an AMQP queue as it is declared, the rules between its properties and its type, and when a second
declaration is the same one.

Whose an exclusive queue is, the door knows: it asks that first and answers with `locked`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from domain.errors import Code, EntrepotError
from domain.field_value import argument_inequivalence, field_inequivalence
from domain.queues.arguments import (
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


def queue_text(name: str, vhost: str) -> str:
    """A queue as refusals name it."""
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
    """The declaration of a queue.  Raises PRECONDITION_FAILED, with RabbitMQ's text, where there can be none such."""
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
    """Raise FORBIDDEN for a name that only the system gives."""
    if name.startswith(RESERVED_PREFIX):
        raise EntrepotError(Code.FORBIDDEN, f"queue name '{name}' contains reserved prefix 'amq.*'")


def not_found(name: str, vhost: str) -> EntrepotError:
    """The refusal of what needs a queue that is not there."""
    return EntrepotError(Code.TOPIC_NOT_FOUND, f"no {queue_text(name, vhost)}")


def locked(name: str, vhost: str) -> str:
    """RabbitMQ's text where a queue is another connection's, or is exclusive and was declared as if it were not, or the
    other way round."""
    return (
        f"cannot obtain exclusive access to locked {queue_text(name, vhost)}. It could be originally declared on "
        "another connection or the exclusive property value does not match that of the original declaration."
    )


def inequivalence(current: QueueDeclaration, wanted: QueueDeclaration, vhost: str) -> str | None:
    """RabbitMQ's text where a queue is declared anew as another, or None where it is the same.

    Only arguments that the queue's type knows count.  That a queue is classic may be said or not.
    """
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
