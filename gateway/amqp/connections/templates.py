"""Templates: the messages of a queue in the form that its consumers get."""

from __future__ import annotations

from typing import Protocol, TypeAlias

from entrepot.domain.queues.arguments import QueueType
from entrepot.domain.value_space import OnUnsaid
from entrepot.gateway.amqp.connections.streams import StreamTicket
from entrepot.gateway.amqp.virtual_hosts.vhost import Queue
from entrepot.gateway.messaging.ticket import Ticket
from entrepot.protocols.amqp.consumed import template_of
from entrepot.protocols.amqp.delivery import ContentTemplate
from entrepot.protocols.amqp.field_table import FieldTable, Long
from entrepot.protocols.amqp.recorded import template_of_record

Held: TypeAlias = Ticket | StreamTicket
"""A delivered and unsettled message; its `member` tells of its delivery."""


class HoldingConsumer(Protocol):
    """A consumer, with the number of its unsettled messages."""

    held: int


class Handed:
    """The delivery of some tickets, which is their `member`.  `since`: its time, in seconds of the loop's clock."""

    __slots__ = ("consumer", "queue", "since")

    def __init__(self, queue: Queue, consumer: HoldingConsumer | None, since: float) -> None:
        self.queue, self.consumer, self.since = queue, consumer, since


def template_for(ticket: Held, queue_type: QueueType, unsaid: OnUnsaid) -> ContentTemplate:
    """Return the message in the form of this queue type; its record's own bytes where nothing is added."""
    more: FieldTable | None = None
    if queue_type is QueueType.QUORUM:
        more = {"x-delivery-count": Long(ticket.attempt - 1)}
    elif queue_type is QueueType.STREAM:
        more = {"x-stream-offset": Long(ticket.message.queue_offset)}
    elif isinstance(ticket, Ticket) and (record := ticket.record) is not None:
        found = template_of_record(record)
        if found is not None:
            return found
    return template_of(ticket.message, more, unsaid)
