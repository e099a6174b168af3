"""Membership: one connection's part in one shared subscription."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from domain.share import shared_queue
from gateway.mqtt.connections.names import Share
from gateway.mqtt.fan_out.audience import Grant, SubscriptionOptions, make_share_run

if TYPE_CHECKING:
    from gateway.messaging.ticket import Ticket
    from gateway.mqtt.connections.conversation import MqttConversation


def granted_qos(share: Share, wanted: int) -> int:
    """AMQP's queues deliver at least once, and forget what is acknowledged: no more than QoS 1 is promised of them."""
    return wanted if shared_queue(share.filter) is None else min(wanted, 1)


class Membership:
    """Implements `gateway.mqtt.shares.shares.ShareMember`."""

    __slots__ = ("_conversation", "_grant", "_is_of_queue", "share")

    def __init__(self, conversation: MqttConversation, share: Share, options: SubscriptionOptions) -> None:
        self._conversation = conversation
        self.share = share
        self._is_of_queue = shared_queue(share.filter) is not None
        self.grant(options)
        if conversation.frontend.listeners is not None:
            conversation.frontend.listeners.joined(self)

    def leave(self) -> None:
        """The part ends: what has not been sent is for others."""
        conversation, share = self._conversation, self.share
        conversation.outbox.leave_share(self)
        conversation.frontend.shares.leave(share.name, share.filter, self)
        if conversation.frontend.listeners is not None:
            conversation.frontend.listeners.left(self)

    def grant(self, options: SubscriptionOptions) -> None:
        """The same share was subscribed to again, perhaps otherwise (3.8.4-3)."""
        identifiers = (options.identifier,) if options.identifier else ()
        self._grant = Grant(granted_qos(self.share, options.qos), False, identifiers)

    @property
    def credit(self) -> int:
        return self._conversation.outbox.room

    def take(self, tickets: Sequence[Ticket]) -> None:
        conversation = self._conversation
        now_ms = conversation.frontend.clock.now_ms()
        wanted: list[Ticket] = []
        for ticket in tickets:
            # What is over in an AMQP queue was sorted out, to be a dead letter: it is not for this door to drop.
            if not self._is_of_queue and ticket.is_over(now_ms, None):
                ticket.acknowledge()
            else:
                wanted.append(ticket)
        if wanted:
            run = make_share_run(wanted, self._grant, conversation.version == 5, now_ms)
            conversation.frontend.hub.delivered += len(wanted)
            conversation.outbox.deliver_shares(run, wanted)

    def flush(self) -> None:
        self._conversation.flush()
