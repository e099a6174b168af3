"""MqttFrontend: what all MQTT connections of a gateway share."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from typing import Final

import structlog

from domain.clock import Clock
from domain.errors import Code, EntrepotError
from domain.message import StoredMessage, SystemProperty
from domain.ports import Store
from domain.shard import broker_of_queue
from gateway.background_tasks import BackgroundTasks
from gateway.messaging.routes import Routes
from gateway.messaging.send import Sender, first_refusal
from gateway.messaging.topology import Topology
from gateway.mqtt.connections.access import MqttAccess
from gateway.mqtt.connections.admission import Admission
from gateway.mqtt.connections.conversation import MqttConversation
from gateway.mqtt.connections.counters import MqttCounters
from gateway.mqtt.connections.listeners import Listeners
from gateway.mqtt.connections.names import DELAYED, parse_delayed
from gateway.mqtt.connections.traces import Traces
from gateway.mqtt.fan_out.hub import DeliveryHub
from gateway.mqtt.retained.retained import RetainedMessages
from gateway.mqtt.sessions.census import SessionCensus
from gateway.mqtt.sessions.lifecycle import depart
from gateway.mqtt.sessions.opening import Sessions
from gateway.mqtt.sessions.operating import SessionOperations
from gateway.mqtt.sessions.record import NEVER_EXPIRES, SessionRecord, WillRecord, client_name
from gateway.mqtt.sessions.session import Session
from gateway.mqtt.sessions.sweeper import Sweeper
from gateway.mqtt.shares.shares import Shares
from gateway.security.security import PrincipalChange, Security
from gateway.settings import Settings
from protocols.mqtt.connection_events import Closing, ConnectionLimits
from protocols.mqtt.mapping import to_message
from protocols.mqtt.packets import Connect, Publish
from protocols.mqtt.properties import PropertyId
from protocols.mqtt.reason_codes import ReasonCode

MAX_CLIENT_ID_BYTES: Final = 1024
FINDING_SECONDS: Final = 30.0
"""Longest time from the beginning of a gateway until it knows of every broker."""

log = structlog.get_logger(__name__)


class MqttFrontend:
    """Makes a conversation per connection; knows them by client id.  `is_alone`: no other gateway is on the store."""

    max_client_id_bytes = MAX_CLIENT_ID_BYTES

    def __init__(
        self,
        store: Store,
        sender: Sender,
        topology: Topology,
        hub: DeliveryHub,
        shares: Shares,
        retained: RetainedMessages,
        security: Security,
        settings: Settings,
        clock: Clock,
        *,
        is_alone: bool,
    ) -> None:
        mqtt = settings.mqtt
        self.store, self.sender, self.hub, self.clock = store, sender, hub, clock
        self.shares, self.retained = shares, retained
        self.access = MqttAccess(security, shares, clock)
        self.routes = Routes(store, topology, settings.topics.rules)
        hub.any_level_topics = self.routes.rule_topics
        self.limits = ConnectionLimits(
            max_packet_size_bytes=mqtt.max_packet_size_bytes,
            max_connect_size_bytes=min(mqtt.max_connect_size_bytes, mqtt.max_packet_size_bytes),
            receive_maximum=mqtt.receive_maximum,
            max_inflight_messages=mqtt.max_inflight_messages,
            keep_alive_max_seconds=mqtt.keep_alive_max_seconds,
            connect_timeout_seconds=mqtt.connect_timeout_seconds,
            max_subscriptions=mqtt.max_subscriptions_per_client,
            topic_alias_maximum=mqtt.topic_alias_maximum,
        )
        self.max_topic_levels = mqtt.max_topic_levels
        self.max_queued_messages, self.max_queued_bytes = mqtt.max_queued_messages, mqtt.max_queued_bytes
        self.max_session_expiry_seconds = mqtt.max_session_expiry_seconds or NEVER_EXPIRES
        self.checks_payload_format = mqtt.checks_payload_format
        self.response_topic_prefix = mqtt.response_topic_prefix
        self.server_reference = mqtt.server_reference
        self.listeners = Listeners(store, hub) if mqtt.tells_no_subscribers else None
        """Where publishers are told that nobody is subscribed."""
        self.sys_messages: Callable[[str], list[StoredMessage]] = lambda topic_filter: []
        self._conversations: set[MqttConversation] = set()
        self.counters = MqttCounters(self._conversations)
        self.traces = Traces(clock, lambda: self._conversations)
        gateway = secrets.token_hex(8)
        self.session_operations = SessionOperations(store, clock, self.publish_will)
        self.census = SessionCensus(store, mqtt.max_sessions)
        self.sessions = Sessions(store, clock, gateway, self.publish_will, self.census, is_alone=is_alone)
        self.sweeper = Sweeper(
            store,
            clock,
            gateway,
            self.publish_will,
            self._taken,
            self._declared_dead,
            self._kicked,
            is_alone=is_alone,
        )
        self._max_connections = mqtt.max_connections
        self._by_name: dict[str, MqttConversation] = {}
        self.tasks = BackgroundTasks("MQTT")
        self._loop = asyncio.get_running_loop()
        self.time, self.call_later = self._loop.time, self._loop.call_later
        self._began = self.time()
        self.admission = Admission(mqtt, self._began)
        self._is_stopping = False
        self.departed = MqttConversation(self, self._began)
        """A conversation that is over: what parts of others have when theirs is."""
        self.departed.machine.lost()
        security.watch_principals(self._rights_changed)

    async def start(self) -> None:
        """Look after sessions from here on.  Raises what the store raises."""
        try:
            await self.census.start()
            if self.listeners is not None:
                await self.listeners.start()
            await self.sweeper.start()
        except EntrepotError as error:
            if error.code is not Code.UNSUPPORTED:
                raise
            log.warning("sessions end with their connections: the store has no key-values", problem=error.message)
            self.sessions.are_kept = False
            self.max_session_expiry_seconds = 0

    def may_come(self, topic: str, queue_id: int) -> bool:
        """Whether a queue may only not be known yet: a gateway that has just begun may not have found its broker."""
        found = self.store.topology.topic(topic)
        if found is None or self.time() - self._began > FINDING_SECONDS:
            return False
        return broker_of_queue(queue_id) not in map(broker_of_queue, self.store.topology.queues(found).readable)

    def converse(self) -> MqttConversation:
        """A conversation for a new connection."""
        return MqttConversation(self, self._loop.time())

    def now(self) -> float:
        """Seconds of the loop's clock."""
        return self._loop.time()

    # -- connections -----------------------------------------------------------------------------------------------

    @property
    def connections(self) -> int:
        return len(self._conversations)

    @property
    def conversations(self) -> set[MqttConversation]:
        """Those there are, not accepted yet among them."""
        return self._conversations

    def conversation_of(self, client_id: str) -> MqttConversation | None:
        """The connection of a client, if it is here."""
        return self._by_name.get(client_name(client_id))

    def opened(self, conversation: MqttConversation) -> None:
        self._conversations.add(conversation)
        self.counters.sockets += 1

    def closed(self, conversation: MqttConversation) -> None:
        self._conversations.discard(conversation)
        self.counters.closed(conversation)

    def refusal_of(self, conversation: MqttConversation, connect: Connect) -> tuple[ReasonCode, str] | None:
        """Why a CONNECT is not accepted, or None."""
        elsewhere = ReasonCode.USE_ANOTHER_SERVER if self.server_reference else None
        if self._is_stopping:
            return elsewhere or ReasonCode.SERVER_UNAVAILABLE, "the server is shutting down"
        if len(self._conversations) > self._max_connections:
            return elsewhere or ReasonCode.QUOTA_EXCEEDED, "too many connections"
        host = conversation.driver.source.host if conversation.driver is not None else ""
        return self.admission.refusal_of(host, connect.client_id, self._loop.time())

    def new_client_id(self) -> str:
        """An id for a client that has none (3.1.3-6)."""
        return f"entrepot-{secrets.token_hex(10)}"

    def connected(self, client_id: str) -> MqttConversation | None:
        """Who has a client id on this gateway."""
        return self._by_name.get(client_name(client_id))

    async def claim(self, conversation: MqttConversation) -> None:
        """Have the client id on this gateway; whoever has it here gives it up first (3.1.4-3).

        Raises FORBIDDEN where that is somebody else.
        """
        name = client_name(conversation.client_id)
        while (older := self._by_name.get(name)) is not None and older is not conversation:
            if older.user != conversation.user:
                raise EntrepotError(Code.FORBIDDEN, "the session of this client id is another user's")
            gone = asyncio.Event()
            older.when_gone(gone.set)
            older.take_over()
            await gone.wait()
        self._by_name[name] = conversation

    def unregister(self, conversation: MqttConversation) -> None:
        self.admission.leave(conversation)
        name = client_name(conversation.client_id)
        if self._by_name.get(name) is conversation:
            del self._by_name[name]

    def admitted(self, conversation: MqttConversation) -> None:
        """A connection was accepted."""
        self.counters.connects[conversation.version, "accepted"] += 1
        conversation.pace = self.admission.pace_of(conversation.principal, self._loop.time())
        if conversation.driver is not None:
            conversation.driver.admitted()

    def count_dropped(self, conversation: MqttConversation, count: int) -> None:
        """Messages of QoS 0 that a slow subscriber misses."""
        self.counters.dropped += count
        conversation.dropped += count

    def count_refused(
        self, conversation: MqttConversation, name: str, why: str, reason: ReasonCode = ReasonCode.NOT_AUTHORIZED
    ) -> None:
        """A publish or subscription that was refused."""
        self.counters.refused[reason.name] += 1
        log.info("refused", seldom=f"mqtt {reason.name}", client_id=conversation.client_id, name=name[:120], reason=why)

    @property
    def dropped(self) -> int:
        return self.counters.dropped

    # -- the end of connections --------------------------------------------------------------------------------------

    def depart(
        self,
        conversation: MqttConversation,
        session: Session,
        closing: Closing,
        *,
        is_taken: bool,
        is_fenced: bool,
    ) -> None:
        """A connection is over: its session's record says so, or who takes it over goes on from there."""
        if is_fenced:
            conversation.gone()
        elif is_taken:
            self.tasks.spawn(self._hand_on(conversation, session))
        else:
            if closing.session_expiry is not None:
                session.record.expiry_seconds = min(closing.session_expiry, self.max_session_expiry_seconds)
            self.tasks.spawn(self._depart(conversation, session, keeps_will=closing.publishes_will))

    def depart_unseen(self, conversation: MqttConversation, session: Session) -> None:
        """The connection went while its session was opened."""
        self.tasks.spawn(self._depart(conversation, session, keeps_will=True))

    async def _hand_on(self, conversation: MqttConversation, session: Session) -> None:
        """Leave a session to the connection that takes it over."""
        await conversation.publishing.settle()
        session.end(conversation.gone, deletes=False)

    async def _depart(self, conversation: MqttConversation, session: Session, *, keeps_will: bool) -> None:
        await conversation.publishing.settle()
        record = session.record
        will = depart(record, self.clock.now_ms(), keeps_will=keeps_will)
        if will is None:
            session.end(conversation.gone, deletes=not record.expiry_seconds)
            return
        wills, ended = self.sessions.wills, asyncio.Event()
        moved = wills.moved(session.name, record, will)
        session.end(ended.set, deletes=not record.expiry_seconds, moved=moved)
        await ended.wait()
        try:
            if not session.is_kept:
                await self.publish_will(record, will)
            elif not session.is_fenced:  # else whoever has the session has the will
                await wills.publish(moved)
        finally:
            conversation.gone()

    async def publish_will(self, record: SessionRecord, will: WillRecord) -> None:
        """Publish a will.  What is refused is told of and dropped; there is nobody to tell."""
        properties = {PropertyId(key): value for key, value in will.properties.items()}
        delayed = parse_delayed(will.topic) if will.topic.startswith(DELAYED) else None
        name, now_ms = will.topic if delayed is None else delayed.topic, self.clock.now_ms()
        publish = Publish(name, will.payload, will.qos, 0, will.retain, False, properties)
        message = to_message(publish, *self.routes.of(name), now_ms)
        if will.retain and delayed is None:
            message.system = {**message.system, SystemProperty.RETAIN: "1"}
        if delayed is not None:
            message.system = {**message.system, SystemProperty.DELIVER_AT_MS: now_ms + delayed.seconds * 1000}
        try:
            if SystemProperty.RETAIN in message.system:  # first: who subscribes in between misses neither
                await self.retained.keep_and_wait([message])
            problem = first_refusal(await self.sender.send_and_wait([message]))
        except EntrepotError as error:
            problem = error
        if problem is not None:
            log.warning("a will was not kept", topic=will.topic, reason=problem.message)

    def _taken(self, name: str, epoch: int) -> Awaitable[None]:
        """Another gateway has a session that was ours."""
        conversation = self._by_name.get(name)
        if conversation is None:
            return asyncio.sleep(0)
        conversation.take_over(epoch)
        return conversation.publishing.settle()

    def _kicked(self, name: str, ends: bool) -> None:
        """An operator at another gateway wants a client of ours to go."""
        conversation = self._by_name.get(name)
        if conversation is not None:
            conversation.kick(ends_session=ends)

    def _declared_dead(self) -> str:
        """Others gave the sessions of this gateway up while it was silent: its clients have to come anew."""
        self.sessions.gateway = secrets.token_hex(8)
        for conversation in tuple(self._conversations):
            conversation.fenced()
        return self.sessions.gateway

    def _rights_changed(self, change: PrincipalChange) -> None:
        """Connections of who may nothing any more end; the others are asked again for what they are subscribed to."""
        for conversation in tuple(self._conversations):
            principal = conversation.principal
            if principal is None or (change.name is not None and principal.name != change.name):
                continue
            if change.is_revoked:
                conversation.close(ReasonCode.NOT_AUTHORIZED, "the client's rights were revoked")
            else:
                conversation.subscribing.ask_again()

    # -- stopping ------------------------------------------------------------------------------------------------

    def shut_down(self) -> None:
        """Say goodbye to everybody."""
        self._is_stopping = True
        for conversation in tuple(self._conversations):
            conversation.shut_down()

    async def settle(self) -> None:
        """Return when what ended connections leave behind is durable."""
        await self.tasks.settle()
        await self.sessions.journal.settle()

    async def close(self) -> None:
        """Stop looking after sessions."""
        await self.sweeper.close()
        await self.census.close()
        if self.listeners is not None:
            self.listeners.close()
        await self.tasks.cancel()
