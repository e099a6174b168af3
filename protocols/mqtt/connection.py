"""ServerConnection: the server's side of one MQTT connection, without the socket.

Bytes go in by `receive_data`, which yields what happened; answers are called for by methods; `data_to_send` gives the
bytes that are due.  Bad input queues the right goodbye (a DISCONNECT or CONNACK with its reason for version 5, nothing
for 3 and 4, as their specifications want) and ends in a `Closing` event, after which no more is read.

What is not available is refused by the protocol's own word and said in CONNACK: QoS 2, retained messages, shared
subscriptions, subscription identifiers, sessions that outlive the connection, topic aliases, enhanced
authentication, no-local subscriptions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from domain.routing.topic_filter import is_valid_filter
from protocols.mqtt.decoder import Decoder
from protocols.mqtt.encoder import PINGRESP, PublishTemplate, encode, encode_pubacks
from protocols.mqtt.errors import MqttError, protocol_error
from protocols.mqtt.packets import (
    Auth,
    Connack,
    Connect,
    Disconnect,
    Packet,
    Pingreq,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Suback,
    Subscribe,
    Subscription,
    Unsuback,
    Unsubscribe,
)
from protocols.mqtt.properties import Properties, PropertyId
from protocols.mqtt.reason_codes import ConnectReturnCode, ReasonCode

UNLIMITED_PACKET: Final = 268_435_460
"""The largest packet there can be: the client named no maximum (2.1.4)."""


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Named limits of a connection.  Times in seconds."""

    max_packet_size_bytes: int = 4_259_840
    receive_maximum: int = 1024
    max_inflight_messages: int = 1024
    keep_alive_max_seconds: int = 65_535
    connect_timeout_seconds: float = 10.0
    max_subscriptions: int = 1000


@dataclass(slots=True)
class Publishes:
    """A run of PUBLISH packets that came together."""

    packets: list[Publish]


@dataclass(slots=True)
class Acknowledged:
    """The client acknowledged deliveries: there is room in its window again."""

    count: int


@dataclass(slots=True)
class Closing:
    """The connection is over.  `publishes_will`: whether the will goes out (3.14.4-3: all but a normal DISCONNECT)."""

    reason: ReasonCode
    text: str
    publishes_will: bool = True
    is_clients: bool = False


Event = Connect | Publishes | Acknowledged | Subscribe | Unsubscribe | Closing

_RETURN_CODES: Final = {
    ReasonCode.UNSUPPORTED_PROTOCOL_VERSION: ConnectReturnCode.UNACCEPTABLE_PROTOCOL_VERSION,
    ReasonCode.CLIENT_IDENTIFIER_NOT_VALID: ConnectReturnCode.IDENTIFIER_REJECTED,
    ReasonCode.BAD_USER_NAME_OR_PASSWORD: ConnectReturnCode.BAD_USER_NAME_OR_PASSWORD,
    ReasonCode.NOT_AUTHORIZED: ConnectReturnCode.NOT_AUTHORIZED,
    ReasonCode.SERVER_UNAVAILABLE: ConnectReturnCode.SERVER_UNAVAILABLE,
    ReasonCode.SERVER_BUSY: ConnectReturnCode.SERVER_UNAVAILABLE,
    ReasonCode.QUOTA_EXCEEDED: ConnectReturnCode.SERVER_UNAVAILABLE,
}
"""What version 3 says where version 5 has these reasons; others close without a word."""

WAITING, DECIDING, OPEN, CLOSED = range(4)


class ServerConnection:
    """See the module.  Times are seconds of any one clock that does not go backwards."""

    __slots__ = (
        "_decoder",
        "_inflight",
        "_last_packet",
        "_limits",
        "_next_id",
        "_out",
        "_send_maximum",
        "_state",
        "_timeout",
        "max_packet_to_client",
        "unconfirmed",
    )

    def __init__(self, limits: ConnectionLimits, now: float) -> None:
        self._limits = limits
        self._decoder = Decoder(limits.max_packet_size_bytes)
        self._out: list[bytes] = []
        self._inflight: set[int] | None = None
        self._next_id = 0
        self._send_maximum = limits.max_inflight_messages
        self._state = WAITING
        self._last_packet = now
        self._timeout = limits.connect_timeout_seconds
        self.max_packet_to_client = UNLIMITED_PACKET
        self.unconfirmed = 0

    @property
    def version(self) -> int:
        """Protocol level: 3, 4 or 5; 0 before CONNECT."""
        return self._decoder.version

    @property
    def is_open(self) -> bool:
        """Whether CONNECT was accepted and nothing ended the connection since."""
        return self._state == OPEN

    @property
    def is_closed(self) -> bool:
        return self._state == CLOSED

    # -- what comes in -------------------------------------------------------------------------------------------

    def receive_data(self, data: bytes, now: float) -> Iterator[Event]:
        """What the client's bytes mean, in order.  Each event must be dealt with before the next is asked for: a
        client need not wait for CONNACK (3.1.4), and nothing is read behind what ends the connection."""
        if self._state == CLOSED:
            return
        packets = self._decoder.feed(data)
        if packets:
            self._last_packet = now
        run: list[Publish] = []
        acknowledged = 0
        error = self._decoder.error
        for packet in packets:
            try:
                if type(packet) is Publish and self._state == OPEN:
                    if packet.qos or packet.retain or packet.properties:
                        self._check_publish(packet)
                    run.append(packet)
                    continue
                if type(packet) is Puback and self._state == OPEN:
                    acknowledged += self._take_puback(packet)
                    continue
                if run:
                    yield Publishes(run)
                    run = []
                    if self.is_closed:
                        return
                event = self._take_other(packet)
            except MqttError as violation:
                error = violation
                break
            if event is not None:
                yield event
            if self.is_closed:
                return
        if run:
            yield Publishes(run)
        if acknowledged and not self.is_closed:
            yield Acknowledged(acknowledged)
        if error is not None and not self.is_closed:
            yield self._violation(error)

    def _take_other(self, packet: Packet) -> Event | None:
        if self._state == WAITING:
            if not isinstance(packet, Connect):
                raise protocol_error("the first packet must be CONNECT")  # 3.1.0-1
            self._state = DECIDING
            self._note_connect(packet)
            return packet
        if isinstance(packet, Connect):
            raise protocol_error("a second CONNECT")  # 3.1.0-2
        if isinstance(packet, Disconnect):
            return self._take_disconnect(packet)
        if self._state != OPEN:
            raise protocol_error(f"{type(packet).__name__.upper()} before the connection was accepted")
        if isinstance(packet, Pingreq):
            self._out.append(PINGRESP)
            return None
        if isinstance(packet, Subscribe):
            self._check_subscribe(packet)
            return packet
        if isinstance(packet, Unsubscribe):
            return packet
        if isinstance(packet, Pubrec | Pubrel | Pubcomp):
            raise protocol_error("packets of QoS 2, which is not available")
        if isinstance(packet, Auth):
            raise protocol_error("AUTH without an authentication method")  # 4.12.0-1
        raise protocol_error(f"{type(packet).__name__.upper()} is sent by servers only")

    def _take_puback(self, packet: Puback) -> bool:
        inflight = self._inflight
        if inflight is None or packet.packet_id not in inflight:
            return False
        inflight.discard(packet.packet_id)
        return True

    def _check_publish(self, packet: Publish) -> None:
        if packet.qos:
            if packet.qos == 2:
                raise MqttError(ReasonCode.QOS_NOT_SUPPORTED, "QoS 2 is not available")
            self.unconfirmed += 1
            if self.unconfirmed > self._limits.receive_maximum and self.version == 5:
                raise MqttError(ReasonCode.RECEIVE_MAXIMUM_EXCEEDED, "more unacknowledged publishes than allowed")
        if packet.retain:
            raise MqttError(ReasonCode.RETAIN_NOT_SUPPORTED, "retained messages are not available")
        if packet.properties:
            if PropertyId.TOPIC_ALIAS in packet.properties:
                raise MqttError(ReasonCode.TOPIC_ALIAS_INVALID, "topic aliases are not available")
            if PropertyId.SUBSCRIPTION_IDENTIFIER in packet.properties:
                raise protocol_error("a client's PUBLISH with a subscription identifier")  # 3.3.4-6

    def _check_subscribe(self, packet: Subscribe) -> None:
        if PropertyId.SUBSCRIPTION_IDENTIFIER in packet.properties:
            raise MqttError(
                ReasonCode.SUBSCRIPTION_IDENTIFIERS_NOT_SUPPORTED, "subscription identifiers are not available"
            )
        for subscription in packet.subscriptions:
            if subscription.no_local and subscription.filter.startswith("$share/"):
                raise protocol_error("No Local on a shared subscription")  # 3.8.3-4

    def _note_connect(self, packet: Connect) -> None:
        keep_alive = packet.keep_alive
        maximum = self._limits.keep_alive_max_seconds
        if self.version == 5 and (keep_alive == 0 or keep_alive > maximum) and maximum < 65_535:
            keep_alive = maximum
        self._timeout = keep_alive * 1.5 or float("inf")
        self.max_packet_to_client = packet.properties.get(PropertyId.MAXIMUM_PACKET_SIZE, UNLIMITED_PACKET)
        self._send_maximum = min(
            packet.properties.get(PropertyId.RECEIVE_MAXIMUM, 65_535), self._limits.max_inflight_messages
        )

    def _take_disconnect(self, packet: Disconnect) -> Closing:
        if packet.properties.get(PropertyId.SESSION_EXPIRY_INTERVAL):
            raise protocol_error("a session expiry where CONNECT had none")  # 3.14.2.2.2
        self._state = CLOSED
        keeps_will = packet.reason != ReasonCode.NORMAL_DISCONNECTION
        return Closing(packet.reason, "the client disconnected", publishes_will=keeps_will, is_clients=True)

    # -- what goes out -------------------------------------------------------------------------------------------

    def data_to_send(self) -> bytes:
        """The bytes that are due; empty if none."""
        if not self._out:
            return b""
        data = self._out[0] if len(self._out) == 1 else b"".join(self._out)
        self._out.clear()
        return data

    def accept(self, connect: Connect, assigned_client_id: str | None) -> None:
        """Answer CONNECT with what this server does and does not do (3.2.2.3)."""
        self._state = OPEN
        properties: dict[PropertyId, object] = {}
        if self.version == 5:
            limits = self._limits
            properties = {
                PropertyId.MAXIMUM_QOS: 1,
                PropertyId.RETAIN_AVAILABLE: 0,
                PropertyId.SUBSCRIPTION_IDENTIFIER_AVAILABLE: 0,
                PropertyId.SHARED_SUBSCRIPTION_AVAILABLE: 0,
                PropertyId.RECEIVE_MAXIMUM: limits.receive_maximum,
                PropertyId.MAXIMUM_PACKET_SIZE: limits.max_packet_size_bytes,
            }
            if assigned_client_id is not None:
                properties[PropertyId.ASSIGNED_CLIENT_IDENTIFIER] = assigned_client_id
            if connect.properties.get(PropertyId.SESSION_EXPIRY_INTERVAL):
                properties[PropertyId.SESSION_EXPIRY_INTERVAL] = 0
            if self._timeout != (connect.keep_alive * 1.5 or float("inf")):
                properties[PropertyId.SERVER_KEEP_ALIVE] = limits.keep_alive_max_seconds
        accepted = ReasonCode.SUCCESS if self.version == 5 else ConnectReturnCode.ACCEPTED
        self._send(Connack(False, accepted, properties))

    def refuse(self, reason: ReasonCode, text: str) -> Closing:
        """Answer CONNECT with a refusal; the connection is over."""
        return self._violation(MqttError(reason, text))

    def close(self, reason: ReasonCode, text: str) -> Closing:
        """End an open connection from the server's side."""
        return self._violation(MqttError(reason, text))

    def confirm(self, packet_ids: list[int], refused: Iterable[tuple[int, ReasonCode]] = ()) -> None:
        """PUBACKs for publishes that are durable, and for those that were refused (version 5 only)."""
        self.unconfirmed -= len(packet_ids)
        if self._state == CLOSED:
            return
        self._out.append(encode_pubacks(packet_ids))
        for packet_id, reason in refused:
            self.unconfirmed -= 1
            self._send(Puback(packet_id, reason))

    def suback(self, packet_id: int, reasons: list[ReasonCode]) -> None:
        if self.version < 5:
            reasons = [r if r < 0x80 else ReasonCode.UNSPECIFIED_ERROR for r in reasons]
        self._send(Suback(packet_id, reasons))

    def unsuback(self, packet_id: int, reasons: list[ReasonCode]) -> None:
        self._send(Unsuback(packet_id, reasons))

    @property
    def has_window(self) -> bool:
        """Whether another QoS 1 message may be sent (3.3.4-9)."""
        return self._inflight is None or len(self._inflight) < self._send_maximum

    def deliver(self, template: PublishTemplate) -> None:
        """Send a message; at QoS 1 there must be room in the window.  One too large for the client counts as sent
        (3.1.2-25)."""
        if template.size > self.max_packet_to_client:
            return
        if not template.qos:
            self._out.append(template.packet(0))
            return
        inflight = self._inflight
        if inflight is None:
            inflight = self._inflight = set()
        packet_id = self._next_id
        while True:
            packet_id = packet_id % 65_535 + 1
            if packet_id not in inflight:
                break
        self._next_id = packet_id
        inflight.add(packet_id)
        self._out.append(template.packet(packet_id))

    def _send(self, packet: Packet) -> None:
        self._out.append(encode(packet, self.version))

    # -- time ----------------------------------------------------------------------------------------------------

    def deadline(self) -> float:
        """When `handle_timeout` should be called; infinity for never."""
        return self._last_packet + self._timeout if self._state != CLOSED else float("inf")

    def handle_timeout(self, now: float) -> list[Event]:
        """CONNECT did not come in time, or nothing came for 1.5 times the keep alive (3.1.2-22)."""
        if self._state == CLOSED or now < self.deadline():
            return []
        if self._state == WAITING:
            self._state = CLOSED
            return [Closing(ReasonCode.MAXIMUM_CONNECT_TIME, "no CONNECT in time")]
        return [self._violation(MqttError(ReasonCode.KEEP_ALIVE_TIMEOUT, "nothing was heard for too long"))]

    def note_alive(self, now: float) -> None:
        """Not to be held against the client: the server had stopped reading."""
        self._last_packet = now

    # -- the end -------------------------------------------------------------------------------------------------

    def _violation(self, error: MqttError) -> Closing:
        """Queue the goodbye that fits the state and version, and close."""
        if self._state in (WAITING, DECIDING):
            self._say_connack(error)
        elif self._state == OPEN and self.version == 5:
            properties: Properties = {PropertyId.REASON_STRING: error.text}
            packet = encode(Disconnect(error.reason, properties), 5)
            if len(packet) > self.max_packet_to_client:
                packet = encode(Disconnect(error.reason), 5)
            self._out.append(packet)
        self._state = CLOSED
        return Closing(error.reason, error.text)

    def _say_connack(self, error: MqttError) -> None:
        if self.version == 5:
            properties: Properties = {PropertyId.REASON_STRING: error.text}
            self._out.append(encode(Connack(False, error.reason, properties), 5))
        elif error.reason == ReasonCode.UNSUPPORTED_PROTOCOL_VERSION and self.version == 0:
            # a client of an unknown version: both ways to say it, as the older one knows only the first (3.1.2-2)
            self._out.append(encode(Connack(False, ConnectReturnCode.UNACCEPTABLE_PROTOCOL_VERSION), 4))
        elif self.version in (3, 4) and error.reason in _RETURN_CODES:
            self._out.append(encode(Connack(False, _RETURN_CODES[error.reason]), 4))


def check_subscription(subscription: Subscription) -> ReasonCode | None:
    """Why a filter cannot be subscribed to, or None (3.9.3)."""
    topic_filter = subscription.filter
    if not is_valid_filter(topic_filter):
        return ReasonCode.TOPIC_FILTER_INVALID
    if topic_filter.startswith("$share/"):
        return ReasonCode.SHARED_SUBSCRIPTIONS_NOT_SUPPORTED
    if subscription.no_local or topic_filter.startswith(("$replay/", "$delayed/", "$SYS/")):
        return ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR
    return None
