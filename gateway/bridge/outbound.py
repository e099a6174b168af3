"""Outbound: from the store to a remote.

Each rule is a consumer group, so the store knows its progress. A task per rule and topic pops what the window has room
for, publishes it, and passes on the remote's acknowledgements. An idle task waits in a pop for one message; so beyond
the window each topic holds at most one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

import structlog
from paho.mqtt.properties import Properties as PahoProperties

from entrepot.domain.clock import Clock
from entrepot.domain.definitions.consumer_group import EARLIEST, LATEST, MAX_INVISIBLE_SECONDS, ConsumerGroup
from entrepot.domain.errors import EntrepotError
from entrepot.domain.expression.filter import FilterExpression, FilterKind
from entrepot.domain.message import StoredMessage, SystemProperty
from entrepot.domain.names import NAMESPACE_SEPARATOR, is_hidden_topic
from entrepot.domain.ports import MAX_POP_MESSAGES, PopRequest, Store
from entrepot.domain.routing.topic_filter import MAX_TOPIC_BYTES
from entrepot.domain.timestamp import to_rfc3339
from entrepot.gateway.bridge.connection import MQTT_5, RemoteConnection
from entrepot.gateway.bridge.errors import RemoteError
from entrepot.gateway.bridge.leased import carry_topics
from entrepot.gateway.bridge.origin import has_come_by, mark_of
from entrepot.gateway.bridge.properties import to_paho
from entrepot.gateway.bridge.remapping import remote_name
from entrepot.gateway.bridge.status import BridgeCounters
from entrepot.gateway.bridge.window import Window
from entrepot.gateway.messaging.incidents import Incidents
from entrepot.gateway.messaging.leased_consumer import LeasedConsumer
from entrepot.gateway.messaging.ticket import Ticket
from entrepot.gateway.settings import BridgeRemote, BridgeRule
from entrepot.protocols.mqtt.mapping import is_expired, to_properties
from entrepot.protocols.mqtt.properties import PropertyId

PART: Final = "bridge"
WAIT_MS: Final = 20_000
"""Longest wait of one pop for messages."""
PUBACK_SECONDS: Final = 60.0
"""Time without an acknowledgement, in seconds, after which the remote counts as gone."""
AGAIN_MS: Final = 5_000
"""Pause before a message is tried again that the remote refused for now."""
LEASE_MS: Final = 30_000
"""Lease of held messages: those of a dead gateway stay hidden for so long."""
MAX_ATTEMPTS: Final = 1000
"""Deliveries of one message before it is a dead letter: every lost connection costs messages under way one."""
FAILURE: Final = 0x80
TOO_LARGE: Final = 0x95
UNSPEAKABLE: Final = 0x90
REFUSED_FOR_GOOD: Final = frozenset((0x87, UNSPEAKABLE, TOO_LARGE, 0x99))
"""Not authorized, topic name invalid, packet too large, payload format invalid (MQTT 5.0 table 3-4)."""
MAX_PACKET_BYTES: Final = 268_435_460
"""Largest PUBLISH (MQTT 5.0 1.5.5)."""
PACKET_OVERHEAD: Final = 16
"""Bytes of a PUBLISH besides name, payload and properties, at most."""

log = structlog.get_logger(__name__)


def group_name(remote: BridgeRemote, rule: BridgeRule) -> str:
    """The consumer group of a rule: `bridge-<name>-<n>`, counted from 1 over all rules of the remote."""
    return f"bridge-{remote.name}-{remote.rules.index(rule) + 1}"


async def ensure_groups(store: Store, remote: BridgeRemote, begun_ms: int) -> None:
    """Make the groups of new rules; `latest` is stored as the moment the gateway began, so that a topic made later is
    carried from its first message on."""
    for rule in remote.rules:
        name = group_name(remote, rule)
        if rule.is_out and store.topology.group(name) is None:
            start = EARLIEST if rule.start == EARLIEST else (to_rfc3339(begun_ms) or LATEST)
            invisible_seconds = min(LEASE_MS // 1000, MAX_INVISIBLE_SECONDS)
            await store.topology.put_group(ConsumerGroup(name, MAX_ATTEMPTS, invisible_seconds, start))


class Outbound:
    """The outgoing messages of one connection; names in `any_level_topics` may start with any level."""

    def __init__(
        self,
        remote: BridgeRemote,
        store: Store,
        clock: Clock,
        counters: BridgeCounters,
        any_level_topics: set[str],
        origin: str,
        incidents: Incidents,
    ) -> None:
        self._remote = remote
        self._rules = [rule for rule in remote.rules if rule.is_out]
        self._store = store
        self._clock = clock
        self._counters, self._incidents = counters, incidents
        self._any_level_topics = any_level_topics
        self._mark = mark_of(origin, remote.name)

    async def run(self, connection: RemoteConnection) -> None:
        """Carry until cancelled. Raises `RemoteError` when the connection ends."""
        if not self._rules:
            return
        window = Window(connection.window)

        def wanted() -> set[tuple[int, str]]:
            return {(n, topic) for n, rule in enumerate(self._rules) for topic in self._topics_of(rule)}

        async def carry(key: tuple[int, str]) -> None:
            await self._carry_topic(self._rules[key[0]], key[1], window, connection)

        await carry_topics(self._store.topology.watch_topics, wanted, carry)

    def _topics_of(self, rule: BridgeRule) -> list[str]:
        """The topics that may hold names of the rule: of the default namespace, without system topics."""
        level = rule.local_filter.partition("/")[0]
        return [
            topic.name
            for topic in self._store.topology.topics()
            if topic.permission.readable
            and NAMESPACE_SEPARATOR not in topic.name
            and not is_hidden_topic(topic.name)
            and (level in ("+", "#") or topic.name == level or topic.name in self._any_level_topics)
        ]

    async def _carry_topic(self, rule: BridgeRule, topic: str, window: Window, connection: RemoteConnection) -> None:
        """Carry all messages of a topic until the topic is gone."""
        group = group_name(self._remote, rule)
        consumer = f"bridge {self._remote.name}"
        leased = LeasedConsumer(self._store, self._clock, topic, group, lease_ms=LEASE_MS, consumer=consumer)
        try:
            while True:
                if await self._await_first(rule, leased, window, connection):
                    while await self._carry_some(rule, leased, window, connection):
                        pass
        except EntrepotError as gone:
            log.info("a bridge stopped carrying a topic", bridge=self._remote.name, topic=topic, reason=gone.message)
        finally:
            await leased.close()

    async def _await_first(
        self, rule: BridgeRule, leased: LeasedConsumer, window: Window, connection: RemoteConnection
    ) -> bool:
        """Wait for a message and carry it; False if there was none."""
        tickets = await leased.pop(_request(rule, leased, 1, WAIT_MS))
        if not tickets:
            return False
        taken = await window.take(1)
        try:
            await self._carry(rule, leased, tickets, connection)
        finally:
            window.give(taken)
        return True

    async def _carry_some(
        self, rule: BridgeRule, leased: LeasedConsumer, window: Window, connection: RemoteConnection
    ) -> bool:
        """Carry as many messages as the window has room for; False if there were none."""
        taken = await window.take(MAX_POP_MESSAGES)
        try:
            tickets = await leased.pop(_request(rule, leased, taken, 0))
            if len(tickets) < taken:
                window.give(taken - len(tickets))
                taken = len(tickets)
            if tickets:
                await self._carry(rule, leased, tickets, connection)
        finally:
            window.give(taken)
        return bool(tickets)

    async def _carry(
        self, rule: BridgeRule, leased: LeasedConsumer, tickets: Sequence[Ticket], connection: RemoteConnection
    ) -> None:
        answers = [self._published(rule, ticket.message, connection) for ticket in tickets]
        waiting = [answer for answer in answers if isinstance(answer, asyncio.Future)]
        if waiting:
            _, unanswered = await asyncio.wait(waiting, timeout=PUBACK_SECONDS)
            if unanswered:
                raise RemoteError(f"the remote has not acknowledged a message within {PUBACK_SECONDS:g} s")
        done: list[Ticket] = []
        refused: list[Ticket] = []
        again: list[Ticket] = []
        for ticket, answer in zip(tickets, answers, strict=True):
            code = answer if isinstance(answer, int) else answer.result()
            if code < FAILURE:
                done.append(ticket)
            else:
                (refused if code in REFUSED_FOR_GOOD else again).append(ticket)
                self._note_refused(rule, ticket.message, code)
        leased.acknowledge(done)
        leased.reject(refused)
        leased.release(again, AGAIN_MS, reason="the remote refused it for now")

    def _published(
        self, rule: BridgeRule, message: StoredMessage, connection: RemoteConnection
    ) -> asyncio.Future[int] | int:
        """Publish; a message whose handling fails becomes a dead letter, and the others go on."""
        try:
            return self._publish(rule, message, connection)
        except RemoteError:
            raise
        except Exception as fault:  # noqa: BLE001 - a fault of one message
            self._incidents.set_aside(PART, message, fault)
            return UNSPEAKABLE

    def _publish(
        self, rule: BridgeRule, message: StoredMessage, connection: RemoteConnection
    ) -> asyncio.Future[int] | int:
        """Return the reason code, now or later; 0 for a message that need not be published."""
        now_ms = self._clock.now_ms()
        name = remote_name(rule, message.sub_topic or message.topic)
        if name is None or is_expired(message, now_ms) or has_come_by(message, self._remote.name, self._mark):
            self._counters.ignored += 1
            return 0
        try:
            properties, size = self._properties(message, now_ms)
        except ValueError:
            return UNSPEAKABLE
        size += len(name.encode()) + len(message.body) + PACKET_OVERHEAD
        if size > min(connection.max_packet_bytes or MAX_PACKET_BYTES, MAX_PACKET_BYTES):
            return TOO_LARGE
        if len(name.encode()) > MAX_TOPIC_BYTES:
            return UNSPEAKABLE
        qos = min(rule.qos, message.qos, connection.maximum_qos)
        retain = connection.takes_retained and message.system_text(SystemProperty.RETAIN) == "1"
        answer = connection.publish(name, message.body, qos, retain, properties)
        answer.add_done_callback(self._count_sent)
        return answer

    def _properties(self, message: StoredMessage, now_ms: int) -> tuple[PahoProperties | None, int]:
        """Return a message's properties and their bytes. Raises ValueError where MQTT cannot express them."""
        if self._remote.version != MQTT_5:
            return None, 0
        carried = dict(to_properties(message, now_ms, self._incidents.unsaid))
        carried[PropertyId.USER_PROPERTY] = [*carried.get(PropertyId.USER_PROPERTY, ()), self._mark]
        return to_paho(carried)

    def _count_sent(self, answer: asyncio.Future[int]) -> None:
        if not answer.cancelled() and answer.exception() is None and answer.result() < FAILURE:
            self._counters.sent += 1

    def _note_refused(self, rule: BridgeRule, message: StoredMessage, code: int) -> None:
        is_for_good = code in REFUSED_FOR_GOOD
        self._counters.refused_out += is_for_good
        log.warning(
            "the remote refuses a message of a bridge",
            bridge=self._remote.name,
            filter=rule.local_filter,
            name=message.sub_topic or message.topic,
            reason_code=f"0x{code:02X}",
            becomes="a dead letter" if is_for_good else "tried again",
        )


def _request(rule: BridgeRule, leased: LeasedConsumer, at_most: int, wait_ms: int) -> PopRequest:
    wanted = FilterExpression(FilterKind.SUB_TOPIC, rule.local_filter)
    return PopRequest(leased.topic, leased.group, at_most, wait_ms, filter=wanted)
