"""Membership: one connection's part in one shared subscription."""

from __future__ import annotations

from collections.abc import Sequence

from entrepot.domain.share import shared_queue
from entrepot.gateway.messaging.ticket import Ticket
from entrepot.gateway.mqtt.connections.client import MqttClient
from entrepot.gateway.mqtt.connections.outbox import Outbox
from entrepot.gateway.mqtt.connections.services import MqttServices
from entrepot.gateway.mqtt.fan_out.audience import Grant, SubscriptionOptions, make_share_run
from entrepot.gateway.mqtt.names import Share


def granted_qos(share: Share, wanted: int) -> int:
    """The granted QoS: at most 1 for AMQP queues, which deliver at least once and delete acknowledged messages."""
    return wanted if shared_queue(share.filter) is None else min(wanted, 1)


class Membership:
    """A member of a share.  Implements `gateway.mqtt.shares.shares.ShareMember`."""

    __slots__ = ("_client", "_grant", "_is_of_queue", "_outbox", "_services", "share")

    def __init__(
        self, services: MqttServices, client: MqttClient, outbox: Outbox, share: Share, options: SubscriptionOptions
    ) -> None:
        self._services, self._client, self._outbox = services, client, outbox
        self.share = share
        self._is_of_queue = shared_queue(share.filter) is not None
        self.grant(options)
        if services.presence is not None:
            services.presence.joined(share.filter, self)

    def leave(self) -> None:
        """End the membership; unsent messages go to other members."""
        services, share = self._services, self.share
        self._outbox.leave_share(self)
        services.shares.leave(share.name, share.filter, self)
        if services.presence is not None:
            services.presence.left(share.filter, self)

    def grant(self, options: SubscriptionOptions) -> None:
        """Take the options of a repeated SUBSCRIBE (3.8.4-3)."""
        identifiers = (options.identifier,) if options.identifier else ()
        self._grant = Grant(granted_qos(self.share, options.qos), False, identifiers)

    @property
    def credit(self) -> int:
        return self._outbox.room

    def take(self, tickets: Sequence[Ticket]) -> None:
        now_ms = self._services.clock.now_ms()
        wanted: list[Ticket] = []
        for ticket in tickets:
            # Expired messages of an AMQP queue were dead-lettered before: they are not dropped here.
            if not self._is_of_queue and ticket.is_over(now_ms, None):
                ticket.acknowledge()
            else:
                wanted.append(ticket)
        if wanted:
            run = make_share_run(wanted, self._grant, self._client.machine.version == 5, now_ms)
            self._services.hub.delivered += len(wanted)
            self._outbox.deliver_shares(run, wanted)

    def flush(self) -> None:
        self._client.flush()
