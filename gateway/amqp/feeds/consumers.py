"""FeedConsumer, QueueConsumer: consumers of channels, as the feeds of queues see them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from entrepot.gateway.amqp.feeds.rooms import SharedRoom
from entrepot.gateway.messaging.ticket import Ticket


class FeedConsumer(Protocol):
    """A consumer of a channel."""

    @property
    def exclusive(self) -> bool: ...

    @property
    def priority(self) -> int: ...

    @property
    def since_ms(self) -> int:
        """The time since when it consumes."""

    @property
    def credit(self) -> int:
        """Messages that it can be handed now."""

    def queue_gone(self) -> None:
        """Note the deletion of its queue."""
        ...

    def __hash__(self) -> int: ...


class QueueConsumer(FeedConsumer, Protocol):
    """A consumer of a classic or quorum queue."""

    @property
    def shared_room(self) -> SharedRoom | None:
        """The room that it has with other consumers of its channel."""

    @property
    def held(self) -> int:
        """Messages that it has not settled."""

    @property
    def is_narrow(self) -> bool:
        """True if its frames are smaller than those of most clients."""

    def can_take(self, ticket: Ticket) -> bool:
        """True if the message's properties fit its frames."""

    def take(self, tickets: Sequence[Ticket]) -> None:
        """Send them; no more than `credit`."""
