"""MqttConversation: one MQTT connection's side of things.

A run of publishes becomes one `send`; its PUBACKs are written when the store confirms, in order, with one write.
Deliveries come from the hub; what the client has no room for waits here up to a limit, and beyond it in the log.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import structlog

from domain.errors import EntrepotError
from domain.message import Message
from domain.routing.topic_filter import is_valid_name
from gateway.driver import Driver
from gateway.messaging.send import Refusals
from protocols.mqtt import mapping
from protocols.mqtt.connection import (
    Acknowledged,
    Closing,
    Event,
    Publishes,
    ServerConnection,
    check_subscription,
)
from protocols.mqtt.encoder import PublishTemplate
from protocols.mqtt.errors import REASON_OF_CODE
from protocols.mqtt.packets import Connect, Publish, Subscribe, Unsubscribe, Will
from protocols.mqtt.properties import PropertyId
from protocols.mqtt.reason_codes import ReasonCode

if TYPE_CHECKING:
    from gateway.frontends.mqtt.frontend import MqttFrontend

log = structlog.get_logger(__name__)


class MqttConversation:
    """Implements `gateway.driver.Conversation` and `gateway.delivery.hub.Subscriber`."""

    __slots__ = (
        "_backlog",
        "_first",
        "_frontend",
        "_is_relief_asked",
        "_last",
        "_machine",
        "_will",
        "client_id",
        "driver",
        "filters",
        "lagging",
    )

    def __init__(self, frontend: MqttFrontend, now: float) -> None:
        self._frontend = frontend
        self._machine = ServerConnection(frontend.limits, now)
        self._backlog: deque[PublishTemplate] | None = None
        self._will: Will | None = None
        self._first: _Awaited | None = None
        self._last: _Awaited | None = None
        self._is_relief_asked = False
        self.driver: Driver | None = None
        self.client_id = ""
        self.filters: dict[str, int] | None = None
        self.lagging: dict[tuple[str, int], int] | None = None

    # -- from the driver -----------------------------------------------------------------------------------------

    def connected(self, driver: Driver) -> None:
        self.driver = driver
        self._frontend.opened(self)

    def received(self, data: bytes, now: float) -> None:
        for event in self._machine.receive_data(data, now):
            self._handle(event)

    def data_to_send(self) -> bytes:
        return self._machine.data_to_send()

    def deadline(self) -> float:
        return float("inf") if self.driver is not None and self.driver.is_paused else self._machine.deadline()

    def timed_out(self, now: float) -> None:
        for event in self._machine.handle_timeout(now):
            self._handle(event)

    def resumed(self, now: float) -> None:
        self._machine.note_alive(now)

    def writable(self) -> None:
        self._drain()

    def lost(self) -> None:
        if not self._machine.is_closed:
            self._end(Closing(ReasonCode.UNSPECIFIED_ERROR, "the connection was lost", is_clients=True))
        self._frontend.closed(self)
        self.driver = None

    def shut_down(self) -> None:
        """The server stops."""
        self._close(ReasonCode.SERVER_SHUTTING_DOWN, "the server is shutting down")

    def take_over(self) -> None:
        """Another connection has this client id now (3.1.4-3)."""
        self._close(ReasonCode.SESSION_TAKEN_OVER, "another connection took this client id")

    # -- events --------------------------------------------------------------------------------------------------

    def _handle(self, event: Event) -> None:
        if type(event) is Publishes:
            self._publish(event.packets)
        elif isinstance(event, Acknowledged):
            self._drain()
        elif isinstance(event, Connect):
            self._connect(event)
        elif isinstance(event, Subscribe):
            self._subscribe(event)
        elif isinstance(event, Unsubscribe):
            self._unsubscribe(event)
        elif isinstance(event, Closing):
            self._end(event)

    def _connect(self, connect: Connect) -> None:
        refusal = self._frontend.refusal_of(connect)
        if refusal is not None:
            self._end(self._machine.refuse(*refusal))
            return
        self.client_id = connect.client_id or self._frontend.new_client_id()
        self._will = connect.will
        self._machine.accept(connect, None if connect.client_id else self.client_id)
        self._frontend.register(self)
        if self.driver is not None:
            self.driver.deadline_moved()

    def _publish(self, packets: list[Publish]) -> None:
        frontend = self._frontend
        route_of, now_ms, to_message = frontend.routes.of, frontend.clock.now_ms(), mapping.to_message
        messages: list[Message] = []
        packet_ids: list[int] = []
        for packet in packets:
            name = packet.topic
            if name[0] == "$" and not frontend.may_publish(name):
                if messages:  # the refusal has its place in the order of PUBACKs (4.6.0-2)
                    frontend.sender.send(messages, self._in_turn(_Sent(self, packet_ids)))
                    messages, packet_ids = [], []
                frontend.sender.send((), self._in_turn(_Refused(self, packet)))
                continue
            topic, queue_id, filter_hash = route_of(name)
            messages.append(to_message(packet, topic, queue_id, filter_hash, now_ms))
            packet_ids.append(packet.packet_id)
        if messages:
            frontend.sender.send(messages, self._in_turn(_Sent(self, packet_ids)))
        if frontend.sender.backlogged and self.driver is not None:
            self.driver.pause_reading()
            if not self._is_relief_asked:
                self._is_relief_asked = True
                frontend.sender.when_relieved(self._relieved)

    def _in_turn(self, sent: _Awaited) -> _Awaited:
        """Whatever is told of it, and whenever: PUBACKs have the order of the publishes (4.6.0-2)."""
        if self._last is None:
            self._first = sent
        else:
            self._last.following = sent
        self._last = sent
        return sent

    def tell_in_turn(self) -> None:
        """Tell the client what is known, as far as nothing before it is unknown."""
        while self._first is not None and self._first.outcome is not None:
            sent = self._first
            self._first = sent.following
            if self._first is None:
                self._last = None
            sent.tell()

    def _relieved(self) -> None:
        self._is_relief_asked = False
        if self.driver is not None:
            self.driver.resume_reading()

    def refuse(self, packet: Publish) -> None:
        """A name that clients may not publish to: PUBACK with the reason, or the end where there is no such word."""
        if self.driver is None:
            return
        if packet.qos and self._machine.version == 5:
            self._machine.confirm([], [(packet.packet_id, ReasonCode.NOT_AUTHORIZED)])
            self.driver.flush()
        else:
            self._close(ReasonCode.NOT_AUTHORIZED, f"{packet.topic[:80]!r} cannot be published to")

    def confirmed(self, packet_ids: list[int], failure: EntrepotError | None, refusals: Refusals) -> None:
        """The store's answer to one run of publishes."""
        if self.driver is None:
            return
        if failure is not None:
            self._close(ReasonCode.UNSPECIFIED_ERROR, failure.message)
            return
        if refusals is None:
            taken = packet_ids if all(packet_ids) else [packet_id for packet_id in packet_ids if packet_id]
            if taken:
                self._machine.confirm(taken)
        else:
            self._confirm_with_refusals(packet_ids, refusals)
        self.driver.flush()

    def _confirm_with_refusals(self, packet_ids: list[int], refusals: Sequence[EntrepotError | None]) -> None:
        first = next(refusal for refusal in refusals if refusal is not None)
        log.info("publishes refused", client_id=self.client_id, reason=first.message)
        for packet_id, refusal in zip(packet_ids, refusals, strict=True):
            if refusal is None:
                if packet_id:
                    self._machine.confirm([packet_id])
            elif self._machine.version != 5:  # no word for a refusal: never confirm what was not kept
                self._close(REASON_OF_CODE[refusal.code], refusal.message)
                return
            elif packet_id:
                self._machine.confirm([], [(packet_id, REASON_OF_CODE[refusal.code])])

    def _subscribe(self, packet: Subscribe) -> None:
        filters = self.filters
        if filters is None:
            filters = self.filters = {}
        reasons: list[ReasonCode] = []
        for subscription in packet.subscriptions:
            refusal = check_subscription(subscription)
            is_new = subscription.filter not in filters
            if refusal is None and is_new and len(filters) >= self._frontend.limits.max_subscriptions:
                refusal = ReasonCode.QUOTA_EXCEEDED
            if refusal is not None:
                reasons.append(refusal)
                continue
            qos = min(subscription.qos, 1)
            filters[subscription.filter] = qos
            self._frontend.hub.subscribe(self, subscription.filter, qos, is_new=is_new)
            reasons.append(ReasonCode(qos))
        self._frontend.hub.when_following(partial(self._subscribed, packet.packet_id, reasons))

    def _subscribed(self, packet_id: int, reasons: list[ReasonCode]) -> None:
        if self._machine.is_open:
            self._machine.suback(packet_id, reasons)
            self.flush()

    def _unsubscribe(self, packet: Unsubscribe) -> None:
        reasons: list[ReasonCode] = []
        for topic_filter in packet.filters:
            if self.filters is not None and self.filters.pop(topic_filter, None) is not None:
                self._frontend.hub.unsubscribe(self, topic_filter)
                reasons.append(ReasonCode.SUCCESS)
            else:
                reasons.append(ReasonCode.NO_SUBSCRIPTION_EXISTED)
        self._machine.unsuback(packet.packet_id, reasons)

    # -- deliveries ----------------------------------------------------------------------------------------------

    @property
    def version(self) -> int:
        return self._machine.version

    @property
    def has_backlog(self) -> bool:
        return bool(self._backlog)

    def deliver(self, template: PublishTemplate) -> bool:
        """Send or queue a message; False if there is no room for one that must not be lost (QoS 1)."""
        machine, driver = self._machine, self.driver
        if driver is None or not machine.is_open:
            return True
        if not self._backlog and not driver.is_congested and (not template.qos or machine.has_window):
            machine.deliver(template)
            return True
        if not template.qos and driver.is_congested:
            self._frontend.dropped += 1
            return True
        backlog = self._backlog
        if backlog is None:
            backlog = self._backlog = deque()
        if len(backlog) >= self._frontend.max_queued_messages:
            if template.qos:
                return False
            self._frontend.dropped += 1
            return True
        backlog.append(template)
        return True

    def _drain(self) -> None:
        """Send what waited, as far as there is room now."""
        backlog, machine, driver = self._backlog, self._machine, self.driver
        if driver is None or not machine.is_open:
            return
        while backlog and not driver.is_congested and (not backlog[0].qos or machine.has_window):
            machine.deliver(backlog.popleft())
        if not backlog:
            self._backlog = None
            if self.lagging:
                self._frontend.hub.catch_up(self)

    def flush(self) -> None:
        if self.driver is not None:
            self.driver.flush()

    # -- the end -------------------------------------------------------------------------------------------------

    def _close(self, reason: ReasonCode, text: str) -> None:
        if not self._machine.is_closed:
            self._end(self._machine.close(reason, text))

    def _end(self, closing: Closing) -> None:
        """Publish the will if it is due, forget the subscriptions, close."""
        will, self._will = self._will, None
        self._frontend.unregister(self)
        if self.filters:
            for topic_filter in self.filters:
                self._frontend.hub.unsubscribe(self, topic_filter)
        self.filters = self.lagging = self._backlog = None
        if will is not None and closing.publishes_will:
            self._frontend.publish_will(will)
        if not closing.is_clients:
            log.info(
                "connection closed by the server",
                protocol="mqtt",
                client_id=self.client_id,
                peer=self.driver.peer if self.driver is not None else "",
                reason=closing.reason.name,
                text=closing.text,
            )
        if self.driver is not None:
            self.driver.close()


class _Awaited:
    """Publishes whose outcome is awaited: one small object per run, a list of them per connection."""

    __slots__ = ("_conversation", "following", "outcome")

    def __init__(self, conversation: MqttConversation) -> None:
        self._conversation = conversation
        self.following: _Awaited | None = None
        self.outcome: tuple[EntrepotError | None, Refusals] | None = None

    def __call__(self, failure: EntrepotError | None, refusals: Refusals) -> None:
        self.outcome = (failure, refusals)
        self._conversation.tell_in_turn()

    def tell(self) -> None:
        """Its turn has come, and its outcome is known."""
        raise NotImplementedError


class _Sent(_Awaited):
    """A run of publishes that were sent."""

    __slots__ = ("_packet_ids",)

    def __init__(self, conversation: MqttConversation, packet_ids: list[int]) -> None:
        super().__init__(conversation)
        self._packet_ids = packet_ids

    def tell(self) -> None:
        assert self.outcome is not None
        self._conversation.confirmed(self._packet_ids, *self.outcome)


class _Refused(_Awaited):
    """A publish that nobody may make."""

    __slots__ = ("_packet",)

    def __init__(self, conversation: MqttConversation, packet: Publish) -> None:
        super().__init__(conversation)
        self._packet = packet

    def tell(self) -> None:
        self._conversation.refuse(self._packet)


def will_refusal(connect: Connect) -> tuple[ReasonCode, str] | None:
    """Why a will cannot be taken, or None (3.2.2-12 and 3.2.2.3.5)."""
    will = connect.will
    if will is None:
        return None
    if will.qos == 2:
        return ReasonCode.QOS_NOT_SUPPORTED, "a will of QoS 2 is not available"
    if will.retain:
        return ReasonCode.RETAIN_NOT_SUPPORTED, "a retained will is not available"
    if not is_valid_name(will.topic):
        return ReasonCode.TOPIC_NAME_INVALID, "the will's topic is not a topic name"
    return None


def session_refusal(connect: Connect) -> tuple[ReasonCode, str] | None:
    """Why the wish for a session cannot be met, or None: version 5 learns from CONNACK that it ends with the
    connection; 3 and 4 have no way to be told, so a session that must stay is refused."""
    if connect.version < 5 and not connect.clean_start:
        if not connect.client_id:
            return ReasonCode.CLIENT_IDENTIFIER_NOT_VALID, "an empty client id needs a clean session"  # 3.1.3-8
        return ReasonCode.NOT_AUTHORIZED, "sessions that outlive the connection are not available: connect clean"
    if connect.version == 3 and not connect.client_id:
        return ReasonCode.CLIENT_IDENTIFIER_NOT_VALID, "MQTT 3.1 needs a client id"
    if connect.properties.get(PropertyId.AUTHENTICATION_METHOD) is not None:
        return ReasonCode.BAD_AUTHENTICATION_METHOD, "enhanced authentication is not available"
    return None
