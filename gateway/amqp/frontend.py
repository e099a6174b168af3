"""AmqpFrontend: the AMQP connections of one gateway, and their shared objects.

ADR 23: an AMQP queue is a topic with one group. Invariant: a revoked user's connections are closed at once;
after any other change of rights consumers ask for theirs again.
"""

from __future__ import annotations

import asyncio
import platform
from collections.abc import Iterator
from typing import Final

import structlog

from entrepot.domain.clock import Clock
from entrepot.domain.descriptors import TOO_MANY, descriptors
from entrepot.gateway.amqp.connections.access import AmqpAccess
from entrepot.gateway.amqp.connections.client import ClientInfo
from entrepot.gateway.amqp.connections.conversation import AmqpConversation
from entrepot.gateway.amqp.connections.incomplete_bodies import IncompleteBodies
from entrepot.gateway.amqp.connections.login import MECHANISMS
from entrepot.gateway.amqp.connections.remembered_publishes import RememberedPublishes
from entrepot.gateway.amqp.connections.services import AmqpServices
from entrepot.gateway.amqp.virtual_hosts.virtual_hosts import VirtualHosts
from entrepot.gateway.messaging.send import Sender
from entrepot.gateway.security.security import PrincipalChange, Security
from entrepot.gateway.settings.amqp import AmqpSettings
from entrepot.protocols.amqp.connection import ServerConnection
from entrepot.protocols.amqp.connection_events import ConnectionLimits, Greeting
from entrepot.protocols.amqp.errors import AmqpError
from entrepot.protocols.amqp.reply_codes import ReplyCode

TIMEOUT_LOOK_SECONDS: Final = 5.0
"""Interval between checks for messages unacknowledged for too long, in seconds."""
FULL_SECONDS: Final = 1.0
"""Pause of publishers before a full store is tried again, in seconds."""

log = structlog.get_logger(__name__)


class AmqpFrontend:
    """The AMQP front end, over the virtual hosts that it shares with RabbitMQ's HTTP API."""

    def __init__(
        self,
        virtual_hosts: VirtualHosts,
        sender: Sender,
        security: Security,
        settings: AmqpSettings,
        clock: Clock,
        version: str,
    ) -> None:
        self.virtual_hosts, self._settings = virtual_hosts, settings
        most_incomplete = max(settings.max_incomplete_bytes, settings.max_message_bytes)
        self._limits = ConnectionLimits(
            channel_max=settings.max_channels,
            frame_max=settings.frame_max_bytes,
            heartbeat_seconds=settings.heartbeat_seconds,
            max_message_size_bytes=settings.max_message_bytes,
            max_assembly_bytes=most_incomplete,
            handshake_timeout_seconds=settings.handshake_timeout_seconds,
        )
        self._greeting = _greeting(settings, virtual_hosts.gateway, version)
        self._loop = asyncio.get_running_loop()
        self.services = AmqpServices(
            virtual_hosts,
            sender,
            security,
            settings,
            clock,
            self._loop,
            self._storage_full,
            AmqpAccess(security, virtual_hosts.parameters, checks_vhosts=settings.check_vhost_access),
            RememberedPublishes(virtual_hosts.definitions, security, virtual_hosts.store.topology),
            IncompleteBodies(most_incomplete, self._loop),
        )
        self.counters = self.services.counters
        self.conversations: set[AmqpConversation] = set()
        self._is_stopping = self.is_full = False
        self._looking: asyncio.TimerHandle | None = None
        security.watch_principals(self._rights_changed)
        virtual_hosts.on_declared_dead.append(self._fence)
        virtual_hosts.parameters.on_change.append(self.services.remembered.forget)

    async def start(self) -> None:
        """Load the definitions and follow them.  Raises what the store raises."""
        await self.virtual_hosts.start()
        self._looking = self._loop.call_later(TIMEOUT_LOOK_SECONDS, self._look_for_late)

    # -- connections ---------------------------------------------------------------------------------------------

    def converse(self) -> AmqpConversation:
        client = ClientInfo(self.virtual_hosts.gateway)
        machine = ServerConnection(self._limits, self._greeting, self._loop.time())
        return AmqpConversation(self.services, client, machine, self)

    def logged_in(self) -> Iterator[AmqpConversation]:
        """Return the open connections that have a virtual host."""
        found = tuple(self.conversations)
        return (each for each in found if each.client.vhost is not None and each.driver is not None)

    def opened(self, conversation: AmqpConversation) -> None:
        self.conversations.add(conversation)

    def closed(self, conversation: AmqpConversation) -> None:
        self.conversations.discard(conversation)

    def refusal(self) -> str | None:
        """The reason to refuse new connections now, or None."""
        if self._is_stopping:
            return "the server is shutting down"
        if len(self.conversations) > self._settings.max_connections:
            return "too many connections"
        return TOO_MANY if descriptors().are_scarce else None

    def _look_for_late(self) -> None:
        """End consumers that hold a message for too long, or their channels."""
        self._looking = self._loop.call_later(TIMEOUT_LOOK_SECONDS, self._look_for_late)
        may_tell = self._settings.consumer_timeout_response == "notify_consumer"
        for conversation in tuple(self.conversations):
            for channel in tuple(conversation.channels.values()):
                late = channel.consuming.late(self._loop.time(), self._settings.consumer_timeout_seconds)
                if late and not (may_tell and channel.consuming.cancel_late(late)):
                    text = f"delivery acknowledgement on channel {channel.out.number} timed out"
                    channel.fail(AmqpError(ReplyCode.PRECONDITION_FAILED, text))

    # -- a store that is full ------------------------------------------------------------------------------------

    def _storage_full(self) -> None:
        """Block all publishing connections for a while, because the store refuses messages."""
        if not self.is_full:
            self.is_full = True
            log.warning("publishing AMQP connections are blocked: the store is full")
            self._loop.call_later(FULL_SECONDS, self._look_for_room)
        for conversation in tuple(self.conversations):
            conversation.block("low on disk")

    def _look_for_room(self) -> None:
        """Unblock all connections; the next refusal blocks them again."""
        self.is_full = False
        for conversation in tuple(self.conversations):
            conversation.unblock()

    def _rights_changed(self, change: PrincipalChange) -> None:
        """Close connections of a revoked user; recheck the consumers of the others."""
        for conversation in tuple(self.conversations):
            if not change.is_of(conversation.client.principal):
                continue
            if change.is_revoked:
                conversation.close_connection(ReplyCode.CONNECTION_FORCED, "the user's rights were revoked")
            else:
                for channel in conversation.channels.values():
                    channel.consuming.ask_again()

    def _fence(self, owners: frozenset[str]) -> None:
        """Close the connections that owned exclusive queues: other gateways delete these."""
        for conversation in tuple(self.conversations):
            if conversation.client.identity in owners:
                conversation.close_connection(
                    ReplyCode.CONNECTION_FORCED, "this gateway was silent for too long: exclusive queues are gone"
                )

    # -- the end -------------------------------------------------------------------------------------------------

    def shut_down(self) -> None:
        """Close all connections."""
        self._is_stopping = True
        for conversation in tuple(self.conversations):
            conversation.close_connection(ReplyCode.CONNECTION_FORCED, "broker forced connection closure")

    async def close(self) -> None:
        """Requeue the consumers' unsettled messages, and stop."""
        self._is_stopping = True
        if self._looking is not None:
            self._looking.cancel()
        try:
            await self.virtual_hosts.close()
        finally:
            for conversation in tuple(self.conversations):
                if conversation.driver is not None:
                    conversation.driver.close()


def _greeting(settings: AmqpSettings, gateway: str, version: str) -> Greeting:
    capabilities = (
        "publisher_confirms",
        "exchange_exchange_bindings",
        "basic.nack",
        "consumer_cancel_notify",
        "connection.blocked",
        "consumer_priorities",
        "authentication_failure_close",
        "per_consumer_qos",
        "direct_reply_to",
    )
    return Greeting(
        {
            "capabilities": dict.fromkeys(capabilities, True),
            "cluster_name": f"entrepot@{gateway}",
            "copyright": "",
            "information": "Entrepôt speaks AMQP 0-9-1 as RabbitMQ does",
            "platform": f"Python {platform.python_version()}",
            "product": settings.product,
            "version": settings.product_version,
            "gateway_product": "Entrepôt",
            "gateway_version": version,
        },
        MECHANISMS,
    )
