"""Membership: one connection's part in one shared subscription."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from entrepot.domain.share import shared_queue
from entrepot.gateway.messaging.messages_that_fit import MessagesThatFit
from entrepot.gateway.messaging.passed_over import Untaken
from entrepot.gateway.messaging.ticket import Ticket
from entrepot.gateway.mqtt.connections.backlog import Waiting
from entrepot.gateway.mqtt.connections.client import MqttClient
from entrepot.gateway.mqtt.connections.outbox import Outbox
from entrepot.gateway.mqtt.connections.services import MqttServices
from entrepot.gateway.mqtt.fan_out.audience import Grant, Run, SubscriptionOptions, make_share_run
from entrepot.gateway.mqtt.sessions.record import OutgoingRecord
from entrepot.gateway.mqtt.topics.names import Share
from entrepot.protocols.mqtt.encoder import PublishTemplate


def granted_qos(share: Share, wanted: int) -> int:
    """The granted QoS: at most 1 for AMQP queues, which deliver at least once and delete acknowledged messages."""
    return wanted if shared_queue(share.filter) is None else min(wanted, 1)


class Membership:
    """A member of a share.  Implements `gateway.mqtt.shares.member.ShareMember`."""

    __slots__ = ("_client", "_fit", "_grant", "_held_back", "_is_of_queue", "_outbox", "_services", "share")

    def __init__(
        self, services: MqttServices, client: MqttClient, outbox: Outbox, share: Share, options: SubscriptionOptions
    ) -> None:
        self._services, self._client, self._outbox = services, client, outbox
        self.share = share
        self._fit = MessagesThatFit()
        self._held_back: dict[int, Ticket] = {}
        """Messages of QoS 2 that wait for their record, by packet identifier."""
        self._is_of_queue = shared_queue(share.filter) is not None
        self.grant(options)
        if services.presence is not None:
            services.presence.joined(share.filter, self)

    def leave(self) -> None:
        """End the membership: unsent messages go to other members, QoS 2 handshakes under way stay here (4.8.2-5)."""
        services, share = self._services, self.share
        window, session = self._client.machine.window, self._client.session
        for packet_id in self._held_back:
            window.finish(packet_id)
            if session is not None:
                session.note_finished()
        self._held_back.clear()
        for packet_id in window.unreceived | window.released:
            held = window.held[packet_id]
            if isinstance(held, Ticket) and held.member is self:
                held.acknowledge()
        services.shares.leave(share.name, share.filter, self)
        if services.presence is not None:
            services.presence.left(share.filter, self)

    def grant(self, options: SubscriptionOptions) -> None:
        """Take the options of a repeated SUBSCRIBE (3.8.4-3)."""
        identifiers = (options.identifier,) if options.identifier else ()
        self._grant = Grant(granted_qos(self.share, options.qos), False, identifiers)

    @property
    def credit(self) -> int:
        """Messages that can be sent at once."""
        client = self._client
        driver, machine = client.driver, client.machine
        if driver is None or driver.is_congested or self._outbox.is_busy or not machine.is_open:
            return 0
        return max(min(machine.window.room, self._fit.in_bytes(driver.write_limit - driver.unwritten)), 0)

    def take(self, tickets: Sequence[Ticket]) -> Sequence[Untaken]:
        """Send messages; return those larger than the client's Maximum Packet Size (3.1.2-24): others may have them."""
        now_ms = self._services.clock.now_ms()
        wanted: list[Ticket] = []
        for ticket in tickets:
            # Expired messages of an AMQP queue were dead-lettered before: they are not dropped here.
            if not self._is_of_queue and ticket.is_over(now_ms, None):
                ticket.acknowledge()
            else:
                wanted.append(ticket)
        if not wanted:
            return ()
        run, largest = self._encoded(wanted, now_ms), self._client.machine.max_packet_to_client
        if run.largest <= largest:
            self._services.hub.delivered += len(wanted)
            self._deliver(run, wanted)
            return ()
        untaken: list[Untaken] = []
        if sizes := [template.size for template in run.templates if template.size <= largest]:
            self._fit.note(max(sizes))
        for template, ticket in zip(run.templates, wanted, strict=True):
            if template.size <= largest:
                self._services.hub.delivered += 1
                self._deliver_one(template, ticket)
            else:
                reason = f"a PUBLISH of {template.size} bytes exceeds the client's Maximum Packet Size of {largest}"
                untaken.append(Untaken(ticket, reason, self._client.client_id))
        return untaken

    def can_take(self, ticket: Ticket) -> bool:
        """True unless the message is larger than the client's Maximum Packet Size."""
        run = self._encoded((ticket,), self._services.clock.now_ms())
        return run.largest <= self._client.machine.max_packet_to_client

    def _encoded(self, tickets: Sequence[Ticket], now_ms: int) -> Run:
        is_five = self._client.machine.version == 5
        return make_share_run(tickets, self._grant, is_five, now_ms, self._services.hub.incidents.unsaid)

    def _deliver(self, run: Run, tickets: Sequence[Ticket]) -> None:
        """Send messages, for which there is room and which fit the client, each with its ticket."""
        machine, session = self._client.machine, self._client.session
        is_kept = session is not None and session.persists
        self._fit.note(run.largest)
        if run.qos and not machine.has_aliases:
            first = machine.window.take_run(run.qos, len(tickets)) if run.qos == 1 or not is_kept else 0
            if first:
                machine.window.held.update(enumerate(tickets, first))
                machine.send(run.packets_from(first))
                return
        for template, ticket in zip(run.templates, tickets, strict=True):
            self._deliver_one(template, ticket)

    def _deliver_one(self, template: PublishTemplate, ticket: Ticket) -> None:
        """Send a shared message, for which there is room and which fits the client.

        A QoS 2 message belongs to this session from here on (4.8.2-4, -5).  Its ticket is acknowledged once the record
        has it.  In a session that ends with the connection, that is when the handshake or the connection ends."""
        client = self._client
        machine, session = client.machine, client.session
        if not template.qos:
            self._outbox.send_plain(template)
            ticket.acknowledge()
        elif template.qos == 2 and session is not None and session.persists:
            packet = self._outbox.take_kept(Waiting(template, ticket.message, "", False, (), False))
            assert packet is not None, "its size was checked before"
            packet_id = machine.window.next_id
            message = ticket.message
            machine.window.held[packet_id] = OutgoingRecord(
                packet_id, ticket.consumer.topic, message.queue_id, message.queue_offset, 2, is_shared=True
            )
            self._held_back[packet_id] = ticket
            session.after_durable(partial(self._release, packet_id, packet, ticket), window=True)
        else:
            packet = machine.deliver(template, ticket)
            assert packet is not None, "its size was checked before"
            machine.send(packet)
            client.messages_out += 1

    def _release(self, packet_id: int, packet: bytes, ticket: Ticket) -> None:
        if self._held_back.get(packet_id) is ticket:
            del self._held_back[packet_id]
            ticket.acknowledge()
            self._outbox.send_held(packet)

    def flush(self) -> None:
        self._client.flush()
