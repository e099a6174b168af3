"""MqttFrontend: the MQTT connections of one gateway, and their shared objects.

ADR 21: sessions are cursors in key-values. Invariant: once other gateways have taken over its sessions, all its
connections are closed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterator
from functools import partial

import structlog

from entrepot.domain.descriptors import TOO_MANY, descriptors
from entrepot.gateway.door.parts import Parts
from entrepot.gateway.mqtt.connections.access import MqttAccess
from entrepot.gateway.mqtt.connections.admission import Admission
from entrepot.gateway.mqtt.connections.client import MqttClient
from entrepot.gateway.mqtt.connections.conversation import MqttConversation
from entrepot.gateway.mqtt.connections.counters import MqttCounters
from entrepot.gateway.mqtt.connections.history import ClientHistory
from entrepot.gateway.mqtt.connections.registry import ClientRegistry
from entrepot.gateway.mqtt.connections.services import MqttServices
from entrepot.gateway.mqtt.connections.subscriber_presence import SubscriberPresence
from entrepot.gateway.mqtt.connections.traces import Traces
from entrepot.gateway.mqtt.fan_out.hub import DeliveryHub
from entrepot.gateway.mqtt.sessions.census import SessionCensus
from entrepot.gateway.mqtt.sessions.opening import Sessions
from entrepot.gateway.mqtt.sessions.operating import SessionOperations
from entrepot.gateway.mqtt.sessions.record import NEVER_EXPIRES
from entrepot.gateway.mqtt.sessions.shared_filters import shared_filters
from entrepot.gateway.mqtt.sessions.sweeper import Sweeper
from entrepot.gateway.mqtt.sessions.will_publishing import WillPublishing
from entrepot.gateway.mqtt.sessions.wills import PublishWill
from entrepot.gateway.mqtt.shares.shares import Shares
from entrepot.gateway.mqtt.shares.unused_groups import UnusedGroups
from entrepot.gateway.security.security import PrincipalChange
from entrepot.gateway.settings import MqttSettings
from entrepot.gateway.work.background_tasks import BackgroundTasks
from entrepot.protocols.mqtt.connection_events import ConnectionLimits
from entrepot.protocols.mqtt.packets import Connect
from entrepot.protocols.mqtt.reason_codes import ReasonCode

log = structlog.get_logger(__name__)


class MqttFrontend:
    """The MQTT front end: a conversation per connection, by client id."""

    def __init__(self, parts: Parts, hub: DeliveryHub, shares: Shares) -> None:
        store, sender, routes, retained = parts.store, parts.sender, parts.routes, parts.retained
        mqtt, clock, loop = parts.settings.mqtt, parts.clock, asyncio.get_running_loop()
        self._member, identity = parts.member, parts.member.identity
        self.registry: ClientRegistry[MqttConversation] = ClientRegistry()
        self.conversations: set[MqttConversation] = set()
        """All conversations, unaccepted ones included."""
        self.history, self.traces = ClientHistory(clock), Traces(clock, self._clients)
        self.counters = MqttCounters(self._clients, self.history, sender.incidents, clock)
        hub.any_level_topics = routes.rule_topics
        publish_will = WillPublishing(routes, retained, sender, clock).publish
        self.session_operations = SessionOperations(store, clock, publish_will, sender.incidents)
        self.census = SessionCensus(store, mqtt.max_sessions)
        self.sweeper = self._make_sweeper(parts, publish_will)
        life = mqtt.share_group_expiry_seconds
        self.unused_groups = UnusedGroups(store, clock, life, shares.groups_in_use, partial(shared_filters, store))
        shares.groups.on_made, shares.on_used = self.unused_groups.made, self.unused_groups.used
        self.services = MqttServices(
            store,
            sender,
            hub,
            shares,
            retained,
            routes,
            MqttAccess(parts.security, shares, clock),
            Admission(mqtt, loop.time()),
            self.counters,
            self.traces,
            self.history,
            Sessions(
                store,
                clock,
                lambda: identity.incarnation,
                publish_will,
                self.census,
                sender.incidents,
                is_alone=self._member.is_alone,
            ),
            SubscriberPresence(store, hub) if mqtt.tells_no_subscribers else None,
            mqtt,
            _limits(mqtt),
            mqtt.max_session_expiry_seconds or NEVER_EXPIRES,
            clock,
            loop,
            loop.time(),
            BackgroundTasks("MQTT"),
        )
        self._is_stopping = False
        identity.on_renewed.append(self._declared_dead)
        parts.security.watch_principals(self._rights_changed)

    def _make_sweeper(self, parts: Parts, publish_will: PublishWill) -> Sweeper:
        return Sweeper(
            parts.store,
            parts.clock,
            parts.member,
            publish_will,
            parts.sender.incidents,
            self._taken,
            self._kicked,
        )

    async def start(self) -> None:
        """Begin to manage sessions.  Raises what the store raises."""
        if not self._member.is_kept:
            log.warning("sessions end with their connections: the store has no key-values")
            self.services.sessions.are_kept = False
            self.services.max_session_expiry_seconds = 0
            return
        await self.census.start()
        if self.services.presence is not None:
            await self.services.presence.start()
        self.sweeper.start()
        self.unused_groups.start()

    def converse(self) -> MqttConversation:
        """Return a conversation for a new connection."""
        return MqttConversation(self.services, self)

    # -- connections -----------------------------------------------------------------------------------------------

    def _clients(self) -> Iterator[MqttClient]:
        return (conversation.client for conversation in tuple(self.conversations))

    def accepted(self) -> Iterator[MqttConversation]:
        """Return the open connections whose CONNECT was accepted."""
        return (each for each in self.conversations if each.client.session is not None and each.machine.is_open)

    def opened(self, conversation: MqttConversation) -> None:
        self.conversations.add(conversation)
        self.counters.sockets += 1

    def closed(self, conversation: MqttConversation) -> None:
        self.conversations.discard(conversation)
        self.counters.closed(conversation.client)

    def refusal(self, client: MqttClient, connect: Connect) -> tuple[ReasonCode, str] | None:
        """The reason to refuse a CONNECT, or None."""
        settings, services = self.services.settings, self.services
        elsewhere = ReasonCode.USE_ANOTHER_SERVER if settings.server_reference else None
        if self._is_stopping:
            return elsewhere or ReasonCode.SERVER_UNAVAILABLE, "the server is shutting down"
        if len(self.conversations) > settings.max_connections:
            return elsewhere or ReasonCode.QUOTA_EXCEEDED, "too many connections"
        if descriptors().are_scarce:
            return elsewhere or ReasonCode.SERVER_BUSY, TOO_MANY
        return services.admission.refusal_of(client.host, connect.client_id, services.loop.time())

    def _taken(self, name: str, epoch: int) -> Awaitable[None]:
        conversation = self.registry.of_name(name)
        if conversation is None:
            return asyncio.sleep(0)
        conversation.take_over(epoch)
        return conversation.publishing.settle()

    def _kicked(self, name: str, ends: bool) -> None:
        """Disconnect a client by order of an operator at another gateway."""
        conversation = self.registry.of_name(name)
        if conversation is not None:
            conversation.kick(ends_session=ends)

    def _declared_dead(self, before: str) -> None:
        """Close all connections, because other gateways took over the sessions of this silent gateway."""
        for conversation in tuple(self.conversations):
            conversation.fenced()

    def _rights_changed(self, change: PrincipalChange) -> None:
        """Close connections of a revoked user; recheck the subscriptions of the others."""
        for conversation in tuple(self.conversations):
            if not change.is_of(conversation.client.principal):
                continue
            if change.is_revoked:
                conversation.close(ReasonCode.NOT_AUTHORIZED, "the client's rights were revoked")
            else:
                conversation.subscribing.ask_again()

    # -- stopping ------------------------------------------------------------------------------------------------

    def shut_down(self) -> None:
        """Disconnect all clients."""
        self._is_stopping = True
        for conversation in tuple(self.conversations):
            conversation.shut_down()

    async def settle(self) -> None:
        """Wait until the ended connections' last writes are durable."""
        await self.services.tasks.settle()
        await self.services.sessions.journal.settle()

    async def close(self) -> None:
        """Stop managing sessions."""
        await self.unused_groups.close()
        await self.sweeper.close()
        await self.census.close()
        if self.services.presence is not None:
            self.services.presence.close()
        await self.services.tasks.cancel()


def _limits(settings: MqttSettings) -> ConnectionLimits:
    return ConnectionLimits(
        max_packet_size_bytes=settings.max_packet_size_bytes,
        max_connect_size_bytes=min(settings.max_connect_size_bytes, settings.max_packet_size_bytes),
        receive_maximum=settings.receive_maximum,
        max_inflight_messages=settings.max_inflight_messages,
        keep_alive_max_seconds=settings.keep_alive_max_seconds,
        connect_timeout_seconds=settings.connect_timeout_seconds,
        max_subscriptions=settings.max_subscriptions_per_client,
        topic_alias_maximum=settings.topic_alias_maximum,
    )
