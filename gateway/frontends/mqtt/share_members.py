"""Membership: one connection's part in one shared subscription."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.delivery.audience import Grant, SubscriptionOptions, encoded
from gateway.frontends.mqtt.names import Share
from protocols.mqtt.mapping import is_expired

if TYPE_CHECKING:
    from gateway.delivery.shares import Ticket
    from gateway.frontends.mqtt.conversation import MqttConversation


class Membership:
    """Implements `gateway.delivery.shares.ShareMember`."""

    __slots__ = ("_conversation", "_grant", "share")

    def __init__(self, conversation: MqttConversation, share: Share, options: SubscriptionOptions) -> None:
        self._conversation = conversation
        self.share = share
        self.grant(options)

    def grant(self, options: SubscriptionOptions) -> None:
        """The same share was subscribed to again, perhaps otherwise (3.8.4-3)."""
        identifiers = (options.identifier,) if options.identifier else ()
        self._grant = Grant(options.qos, options.retain_as_published, identifiers)

    @property
    def credit(self) -> int:
        return self._conversation.outbox.room

    def take(self, ticket: Ticket) -> None:
        conversation, message = self._conversation, ticket.message
        now_ms = conversation.frontend.clock.now_ms()
        if message.system and is_expired(message, now_ms):
            ticket.acknowledge()
            return
        template = encoded(message, self._grant, conversation.version == 5, now_ms, retain=False)
        conversation.frontend.hub.delivered += 1
        conversation.outbox.deliver_share(template, ticket)

    def flush(self) -> None:
        self._conversation.flush()
