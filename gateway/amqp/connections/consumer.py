"""Consumer: one consumer of a channel, as the feed of its queue sees it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from entrepot.domain.message import StoredMessage
from entrepot.domain.position import Position
from entrepot.gateway.amqp.connections.channel_room import ChannelRoom
from entrepot.gateway.amqp.connections.services import AmqpServices
from entrepot.gateway.amqp.connections.streams import StreamTicket, stream_start
from entrepot.gateway.amqp.connections.templates import Held
from entrepot.gateway.amqp.virtual_hosts.vhost import Queue
from entrepot.gateway.messaging.ticket import Ticket


class Consuming(Protocol):
    """A consumer's view of its channel."""

    services: AmqpServices
    room: ChannelRoom

    @property
    def is_narrow(self) -> bool:
        """True if there may be messages whose properties do not fit a frame of this client."""

    def can_take(self, queue: Queue, ticket: Held) -> bool:
        """True if a message's properties fit the client's frames."""

    def deliver(self, consumer: Consumer, tickets: Sequence[Held]) -> None:
        """Send messages to a consumer."""

    def queue_gone(self, consumer: Consumer) -> None:
        """Note the deletion of a consumer's queue."""


class Consumer:
    """A consumer.  `prefetch`: maximum number of its unsettled messages; 0 for no limit of its own."""

    __slots__ = (
        "_consuming",
        "arguments",
        "exclusive",
        "held",
        "no_ack",
        "prefetch",
        "priority",
        "queue",
        "since_ms",
        "tag",
    )

    def __init__(
        self,
        consuming: Consuming,
        tag: str,
        queue: Queue,
        *,
        no_ack: bool,
        exclusive: bool,
        priority: int,
        prefetch: int,
        arguments: dict[str, object],
    ) -> None:
        self._consuming = consuming
        self.tag, self.queue = tag, queue
        self.no_ack, self.exclusive, self.priority, self.prefetch = no_ack, exclusive, priority, prefetch
        self.arguments = arguments
        self.held, self.since_ms = 0, consuming.services.clock.now_ms()

    @property
    def credit(self) -> int:
        return self._consuming.room.credit(self)

    @property
    def shared_room(self) -> ChannelRoom | None:
        """The room of its channel, which its unsettled messages take."""
        return None if self.no_ack else self._consuming.room

    @property
    def start(self) -> int | Position | None:
        """The position in a stream from which it reads."""
        return stream_start(self.arguments, self._consuming.services.clock.now_ms())

    @property
    def is_narrow(self) -> bool:
        """True if its frames are smaller than those of most clients."""
        return self._consuming.is_narrow

    def can_take(self, ticket: Ticket) -> bool:
        """True if the message's properties fit its frames."""
        return self._consuming.can_take(self.queue, ticket)

    def take(self, tickets: Sequence[Ticket]) -> None:
        self._consuming.deliver(self, tickets)

    def take_of_stream(self, messages: Sequence[StoredMessage]) -> None:
        self._consuming.deliver(self, [StreamTicket(message) for message in messages])

    def queue_gone(self) -> None:
        self._consuming.queue_gone(self)
