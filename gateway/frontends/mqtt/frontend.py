"""MqttFrontend: what all MQTT connections of a gateway share."""

from __future__ import annotations

import asyncio
import secrets

import structlog

from domain.clock import Clock
from domain.errors import EntrepotError
from domain.ports import Store
from gateway.delivery.hub import DeliveryHub
from gateway.frontends.mqtt.conversation import MqttConversation, session_refusal, will_refusal
from gateway.frontends.mqtt.routes import Routes
from gateway.messaging.send import Refusals, Sender, first_refusal
from gateway.messaging.topology import Topology
from gateway.settings import Settings
from protocols.mqtt.connection import ConnectionLimits
from protocols.mqtt.mapping import to_message, will_publish
from protocols.mqtt.packets import Connect, Will
from protocols.mqtt.reason_codes import ReasonCode

log = structlog.get_logger(__name__)

_SERVERS_NAMES = ("$SYS", "$share", "$replay", "$delayed", "$queue")
"""First levels that mean something to the server: clients do not publish to them."""


class MqttFrontend:
    """Makes a conversation per connection; knows them by client id."""

    def __init__(
        self, store: Store, sender: Sender, topology: Topology, hub: DeliveryHub, settings: Settings, clock: Clock
    ) -> None:
        mqtt = settings.mqtt
        self.store = store
        self.sender = sender
        self.hub = hub
        self.clock = clock
        self.routes = Routes(store, topology, settings.topics.rules)
        hub.any_level_topics = self.routes.rule_topics
        self.limits = ConnectionLimits(
            max_packet_size_bytes=mqtt.max_packet_size_bytes,
            receive_maximum=mqtt.receive_maximum,
            max_inflight_messages=mqtt.max_inflight_messages,
            keep_alive_max_seconds=mqtt.keep_alive_max_seconds,
            connect_timeout_seconds=mqtt.connect_timeout_seconds,
            max_subscriptions=mqtt.max_subscriptions_per_client,
        )
        self.max_queued_messages = mqtt.max_queued_messages
        self.dropped = 0
        self._max_connections = mqtt.max_connections
        self._conversations: set[MqttConversation] = set()
        self._by_client_id: dict[str, MqttConversation] = {}
        self._loop = asyncio.get_running_loop()
        self._is_stopping = False

    def converse(self) -> MqttConversation:
        """A conversation for a new connection."""
        return MqttConversation(self, self._loop.time())

    @property
    def connections(self) -> int:
        return len(self._conversations)

    def opened(self, conversation: MqttConversation) -> None:
        self._conversations.add(conversation)

    def closed(self, conversation: MqttConversation) -> None:
        self._conversations.discard(conversation)

    def refusal_of(self, connect: Connect) -> tuple[ReasonCode, str] | None:
        """Why a CONNECT is not accepted, or None."""
        if self._is_stopping:
            return ReasonCode.SERVER_UNAVAILABLE, "the server is shutting down"
        if len(self._conversations) > self._max_connections:
            return ReasonCode.QUOTA_EXCEEDED, "too many connections"
        return session_refusal(connect) or will_refusal(connect)

    def new_client_id(self) -> str:
        """An id for a client that has none (3.1.3-6)."""
        return f"entrepot-{secrets.token_hex(10)}"

    def register(self, conversation: MqttConversation) -> None:
        """The client id is this connection's now; an older one loses it."""
        older = self._by_client_id.get(conversation.client_id)
        self._by_client_id[conversation.client_id] = conversation
        if older is not None and older is not conversation:
            older.take_over()

    def unregister(self, conversation: MqttConversation) -> None:
        if self._by_client_id.get(conversation.client_id) is conversation:
            del self._by_client_id[conversation.client_id]

    def may_publish(self, name: str) -> bool:
        """Whether clients may publish to a name that starts with `$`."""
        return name.partition("/")[0] not in _SERVERS_NAMES

    def publish_will(self, will: Will) -> None:
        if will.topic.startswith("$") and not self.may_publish(will.topic):
            return
        topic, queue_id, filter_hash = self.routes.of(will.topic)
        message = to_message(will_publish(will), topic, queue_id, filter_hash, self.clock.now_ms())

        def sent(failure: EntrepotError | None, refusals: Refusals) -> None:
            problem = failure or first_refusal(refusals)
            if problem is not None:
                log.warning("a will was not kept", topic=will.topic, reason=problem.message)

        self.sender.send([message], sent)

    def shut_down(self) -> None:
        """Say goodbye to everybody."""
        self._is_stopping = True
        for conversation in tuple(self._conversations):
            conversation.shut_down()
