"""ServerConnection: the server's side of one MQTT connection, without the socket.

`receive_data` takes bytes and yields events; methods call for answers; `data_to_send` returns the bytes due.  Bad input
queues the right goodbye and ends in a `Closing` event, after which no more is read.  The goodbye is a DISCONNECT or
CONNACK with its reason for version 5, nothing for 3 and 4, as their specifications want.

ADR 6.  Invariant: after the goodbye no byte is decoded.  `outgoing` has the output and open handshakes of QoS 1 and 2.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Final

from entrepot.protocols.mqtt.connection_events import (
    Acknowledged,
    Closing,
    ConnectionLimits,
    Event,
    Publishes,
    Received,
    Released,
)
from entrepot.protocols.mqtt.decoder import Decoder
from entrepot.protocols.mqtt.delivery_window import DeliveryWindow
from entrepot.protocols.mqtt.encoder import PINGRESP, PUBREC_WORD, encode, encode_words
from entrepot.protocols.mqtt.errors import MqttError, protocol_error
from entrepot.protocols.mqtt.goodbyes import CLIENTS_GOODBYES, connack_forms, goodbye_forms, refusals
from entrepot.protocols.mqtt.outgoing import (
    ANSWERED,
    CLOSED,
    DECIDING,
    OPEN,
    PENDING,
    UNLIMITED_PACKET,
    WAITING,
    Outgoing,
)
from entrepot.protocols.mqtt.packet_counts import PacketCounts
from entrepot.protocols.mqtt.packets import (
    Auth,
    Connack,
    Connect,
    Disconnect,
    Packet,
    Pingreq,
    Pingresp,
    Puback,
    Pubacks,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Subscribe,
    Unsubscribe,
)
from entrepot.protocols.mqtt.properties import EMPTY, Properties, PropertyId
from entrepot.protocols.mqtt.reason_codes import ConnectReturnCode, ReasonCode
from entrepot.protocols.mqtt.topic_aliases import ClientsAliases, ServersAliases

_ACCEPTED: Final = tuple(encode(Connack(present, ConnectReturnCode.ACCEPTED), 4) for present in (False, True))
"""CONNACK of versions 3 and 4 without and with a session, which always fits."""

_ENDINGS: Final = frozenset((Puback, Pubacks, Pubcomp))
"""Packets that end a delivery to the client."""


class ServerConnection(Outgoing):
    """The server's side of a connection (see the module).  Times are seconds of one monotonic clock.  `counts` are
    shared with other connections.  `observe`, if set, is called with incoming packets.  `heard_at`: time of the
    client's last packet."""

    __slots__ = (
        "_clients_aliases",
        "_has_session_expiry",
        "heard_at",
        "_limits",
        "_timeout",
        "observe",
    )

    def __init__(self, limits: ConnectionLimits, now: float, counts: PacketCounts | None = None) -> None:
        most, first = limits.max_packet_size_bytes, limits.max_connect_size_bytes
        super().__init__(Decoder(most, gathers=True, max_connect_size=first), counts)
        self._limits = limits
        self.heard_at = now
        self._timeout = limits.connect_timeout_seconds
        self._clients_aliases: ClientsAliases | None = None
        self._has_session_expiry = False
        self.observe: Callable[[list[Packet]], None] | None = None

    @property
    def waiting(self) -> int:
        """Bytes that came after a CONNECT that is not decided yet."""
        return self._decoder.kept if self._is_put_off else 0

    @property
    def _is_put_off(self) -> bool:
        """True while input must wait for the decision; in an exchange of AUTH it belongs to that (3.1.2-30)."""
        return self._state == DECIDING and self.method is None

    # -- input ---------------------------------------------------------------------------------------------------

    def receive_data(self, data: bytes, now: float) -> Iterator[Event]:
        """Yield the events of the client's bytes, in order; handle each event before the next is asked for.  Nothing is
        read after the end of the connection.  A client need not wait for CONNACK (3.1.4): input before the decision on
        CONNECT is kept for `go_on`."""
        if self._state == CLOSED:
            return
        if self._is_put_off:
            self._decoder.keep(data)
            return
        is_first = self._state == WAITING
        packets = self._decoder.feed(data)
        if packets:
            self.heard_at = now
            if self.observe is not None:
                self.observe(packets)
        yield from self._take_all(packets)
        if is_first and self._state != WAITING and not self._is_put_off:
            yield from self.go_on()

    def go_on(self) -> Iterator[Event]:
        """Yield the events of the input kept until the decision on CONNECT."""
        if self._state != CLOSED and self._decoder.kept:
            packets = self._decoder.feed(b"")
            if packets and self.observe is not None:
                self.observe(packets)
            yield from self._take_all(packets)

    def _take_all(self, packets: list[Packet]) -> Iterator[Event]:
        run: list[Publish] = []
        released: list[int] = []
        held: list[object] = []
        error, received = self._decoder.error, self._counts.received_of(self._decoder.version)
        for packet in packets:
            try:
                if type(packet) is Publish and self._state == OPEN:
                    if released:
                        yield Released(released)
                        released = []
                    if (packet.qos or packet.properties) and not self._takes_publish(packet):
                        received[Publish] += 1
                    else:
                        run.append(packet)
                    continue
                if type(packet) in _ENDINGS and self._state == OPEN:
                    self._take_ending(packet, received, held)
                    continue
                received[type(packet)] += 1
                if run:
                    received[Publish] += len(run)
                    yield Publishes(run)
                    run = []
                if type(packet) is Pubrel and self._state == OPEN:
                    released += self._take_pubrel(packet)
                    continue
                if released:
                    yield Released(released)
                    released = []
                if held:  # acknowledgements come before the end of their subscription or connection
                    yield Acknowledged(held)
                    held = []
                event = self._take_other(packet)
            except MqttError as violation:
                error = violation
                break
            if event is not None:
                yield event
            if self._state == CLOSED:
                return
        if run:
            received[Publish] += len(run)
            yield Publishes(run)
        if released:
            yield Released(released)
        if held and not self.is_closed:
            yield Acknowledged(held)
        if error is not None and not self.is_closed:
            yield self._violation(error)

    def _take_ending(self, packet: Packet, received: Counter[type[Packet]], ended: list[object]) -> None:
        """Take PUBACK or PUBCOMP, the last packet of a delivery (4.3.2, 4.3.3)."""
        if type(packet) is Puback:
            received[Puback] += 1
            self.window.acknowledge(packet.packet_id, ended)
        elif type(packet) is Pubacks:
            received[Puback] += len(packet.packet_ids)
            self.window.acknowledge_run(packet.packet_ids, ended)
        elif type(packet) is Pubcomp:
            received[Pubcomp] += 1
            self.window.complete(packet.packet_id, ended)

    def _take_other(self, packet: Packet) -> Event | None:
        if self._state == CLOSED:
            return None
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
        if isinstance(packet, Auth):
            return self._take_auth(packet)
        if self._state != OPEN:
            raise protocol_error(f"{type(packet).__name__.upper()} before the connection was accepted")
        if isinstance(packet, Pingreq):
            self._out.append(PINGRESP)
            self._counts.sent[self.version, Pingresp] += 1
            return None
        if isinstance(packet, Pubrec):
            return self._take_pubrec(packet)
        if isinstance(packet, Subscribe):
            for subscription in packet.subscriptions:
                if subscription.no_local and subscription.filter.startswith("$share/"):
                    raise protocol_error("No Local on a shared subscription")  # 3.8.3-4
            self._check_room_for_answer(len(packet.subscriptions))
            return packet
        if isinstance(packet, Unsubscribe):
            self._check_room_for_answer(len(packet.filters))
            return packet
        raise protocol_error(f"{type(packet).__name__.upper()} is sent by servers only")

    def _takes_publish(self, packet: Publish) -> bool:
        """Check and complete a PUBLISH; False for a repeated one, which is only answered again (4.3.3-10)."""
        if packet.properties:
            if PropertyId.SUBSCRIPTION_IDENTIFIER in packet.properties:
                raise protocol_error("a client's PUBLISH with a subscription identifier")  # 3.3.4-6
            if PropertyId.TOPIC_ALIAS in packet.properties:
                if self._clients_aliases is None:
                    self._clients_aliases = ClientsAliases(self._limits.topic_alias_maximum)
                self._clients_aliases.resolve(packet)
        if not packet.qos:
            return True
        if packet.qos == 2:
            incoming = self.incoming
            if incoming is None:
                incoming = self.incoming = {}
            state = incoming.get(packet.packet_id)
            if state == ANSWERED:
                self._out.append(encode_words([PUBREC_WORD | packet.packet_id]))
                self._counts.sent[self.version, Pubrec] += 1
            if state in (PENDING, ANSWERED):
                return False
            incoming[packet.packet_id] = PENDING
            if len(incoming) > self._limits.receive_maximum and self.version < 5:  # it cannot be told the limit
                raise MqttError(ReasonCode.RECEIVE_MAXIMUM_EXCEEDED, "too many half-done handshakes of QoS 2")
        self.unconfirmed += 1
        if self.unconfirmed > self._limits.receive_maximum and self.version == 5:
            raise MqttError(ReasonCode.RECEIVE_MAXIMUM_EXCEEDED, "more unacknowledged publishes than allowed")
        return True

    def _take_pubrel(self, packet: Pubrel) -> list[int]:
        incoming = self.incoming
        if incoming is not None and incoming.get(packet.packet_id, PENDING) != PENDING:
            if incoming.pop(packet.packet_id) == ANSWERED and self.unconfirmed:
                self.unconfirmed -= 1
            return [packet.packet_id]
        self._send(Pubcomp(packet.packet_id, ReasonCode.PACKET_IDENTIFIER_NOT_FOUND))  # 3.7.2.1
        return []

    def _take_pubrec(self, packet: Pubrec) -> Event | None:
        window = self.window
        packet_id = packet.packet_id
        is_first = window.receive(packet_id)
        if packet.reason >= ReasonCode.UNSPECIFIED_ERROR:  # 4.3.3: it is over, and never sent again
            return Acknowledged([window.finish(packet_id)]) if is_first else None
        if is_first:
            return Received([packet_id])
        known = packet_id in window.released
        self._send(Pubrel(packet_id, ReasonCode.SUCCESS if known else ReasonCode.PACKET_IDENTIFIER_NOT_FOUND))
        return None

    def _take_auth(self, packet: Auth) -> Event:
        given = packet.properties.get(PropertyId.AUTHENTICATION_METHOD)
        wanted = ReasonCode.CONTINUE_AUTHENTICATION if self._state == DECIDING else ReasonCode.RE_AUTHENTICATE
        if self.method is None or given != self.method:  # 4.12.0-1, 4.12.1-1
            raise protocol_error("AUTH without the authentication method of CONNECT")
        if packet.reason not in (wanted, ReasonCode.CONTINUE_AUTHENTICATION):
            raise protocol_error(f"AUTH with the reason {packet.reason.name}")
        return packet

    def _note_connect(self, packet: Connect) -> None:
        keep_alive = packet.keep_alive
        maximum = self._limits.keep_alive_max_seconds
        if self.version == 5 and (keep_alive == 0 or keep_alive > maximum) and maximum < 65_535:
            keep_alive = maximum
        self._timeout = keep_alive * 1.5 or float("inf")
        given = packet.properties
        self.max_packet_to_client = given.get(PropertyId.MAXIMUM_PACKET_SIZE, UNLIMITED_PACKET)
        self.window = DeliveryWindow(
            min(given.get(PropertyId.RECEIVE_MAXIMUM, 65_535), self._limits.max_inflight_messages)
        )
        self.method = given.get(PropertyId.AUTHENTICATION_METHOD)
        self._has_session_expiry = bool(given.get(PropertyId.SESSION_EXPIRY_INTERVAL))
        self._explains = given.get(PropertyId.REQUEST_PROBLEM_INFORMATION, 1) == 1
        aliases = min(given.get(PropertyId.TOPIC_ALIAS_MAXIMUM, 0), self._limits.topic_alias_maximum)
        if aliases:
            self._aliases = ServersAliases(aliases)

    def _take_disconnect(self, packet: Disconnect) -> Closing:
        if self.version == 5 and packet.reason not in CLIENTS_GOODBYES:
            raise protocol_error(f"DISCONNECT with the reason {packet.reason.name}, which only servers give")
        if PropertyId.SERVER_REFERENCE in packet.properties:
            raise protocol_error("a server reference from a client")
        expiry = packet.properties.get(PropertyId.SESSION_EXPIRY_INTERVAL)
        if expiry and not self._has_session_expiry:
            raise protocol_error("a session expiry where CONNECT had none")  # 3.14.2.2.2
        self._state = CLOSED
        keeps_will = packet.reason != ReasonCode.NORMAL_DISCONNECTION
        return Closing(packet.reason, "the client disconnected", keeps_will, is_clients=True, session_expiry=expiry)

    # -- output --------------------------------------------------------------------------------------------------

    def accept(self, connect: Connect, is_session_present: bool, granted: Properties = EMPTY) -> Closing | None:
        """Answer CONNECT (3.2).  `granted`: the server's properties of CONNACK, for version 5.  Returns the end of the
        connection if the client does not accept a packet of that size."""
        if self.version < 5:
            self._counts.sent[self.version, Connack] += 1
            self._out.append(_ACCEPTED[is_session_present])
            self._state = OPEN
            return None
        limits = self._limits
        properties: dict[PropertyId, Any] = {PropertyId.RECEIVE_MAXIMUM: limits.receive_maximum, **granted}
        if limits.max_packet_size_bytes < UNLIMITED_PACKET:
            properties[PropertyId.MAXIMUM_PACKET_SIZE] = limits.max_packet_size_bytes
        if limits.topic_alias_maximum:
            properties[PropertyId.TOPIC_ALIAS_MAXIMUM] = limits.topic_alias_maximum
        if self._timeout != (connect.keep_alive * 1.5 or float("inf")):
            properties[PropertyId.SERVER_KEEP_ALIVE] = limits.keep_alive_max_seconds
        if self.method is not None:
            properties[PropertyId.AUTHENTICATION_METHOD] = self.method
        forms = connack_forms(properties)
        if not self._send_if_it_fits(*(Connack(is_session_present, ReasonCode.SUCCESS, form) for form in forms)):
            return self._violation(MqttError(ReasonCode.PACKET_TOO_LARGE, "CONNACK is larger than the client takes"))
        self._state = OPEN
        return None

    def refuse(self, reason: ReasonCode, text: str, server_reference: str = "") -> Closing:
        """Answer CONNECT with a refusal; the connection is over.  `server_reference`: another server to use (4.11)."""
        return self._violation(MqttError(reason, text), server_reference)

    def close(self, reason: ReasonCode, text: str, server_reference: str = "") -> Closing:
        """Close an open connection from the server's side."""
        return self._violation(MqttError(reason, text), server_reference)

    # -- time ----------------------------------------------------------------------------------------------------

    def deadline(self) -> float:
        """Return the time at which to call `handle_timeout`; infinity for never."""
        if self._state == DECIDING:
            return self.heard_at + self._limits.connect_timeout_seconds
        return self.heard_at + self._timeout if self._state != CLOSED else float("inf")

    def handle_timeout(self, now: float) -> list[Event]:
        """Close if CONNECT did not come in time, or nothing came for 1.5 times the keep alive (3.1.2-22)."""
        if self._state == CLOSED or now < self.deadline():
            return []
        if self._state == WAITING:
            self._state = CLOSED
            return [Closing(ReasonCode.MAXIMUM_CONNECT_TIME, "no CONNECT in time")]
        if self._state == DECIDING:
            return [self._violation(MqttError(ReasonCode.SERVER_UNAVAILABLE, "CONNECT could not be decided in time"))]
        return [self._violation(MqttError(ReasonCode.KEEP_ALIVE_TIMEOUT, "nothing was heard for too long"))]

    def note_alive(self, now: float) -> None:
        """Do not count the silence against the client: the server had stopped reading."""
        self.heard_at = now

    # -- the end -------------------------------------------------------------------------------------------------

    def lost(self) -> None:
        """Note that the socket is gone."""
        self._state = CLOSED
        self._decoder.drop()
        self._out.clear()

    def _violation(self, error: MqttError, server_reference: str = "") -> Closing:
        """Queue the goodbye that fits the state and version, and close."""
        properties: dict[PropertyId, Any] = {PropertyId.REASON_STRING: error.text}
        if server_reference:
            properties[PropertyId.SERVER_REFERENCE] = server_reference
        if self._state in (WAITING, DECIDING):
            self._send_if_it_fits(*refusals(self.version, error.reason, properties))
        elif self._state == OPEN and self.version == 5:
            if error.reason == ReasonCode.UNSUPPORTED_PROTOCOL_VERSION:  # not a reason of DISCONNECT
                error = MqttError(ReasonCode.PROTOCOL_ERROR, error.text)
            self._send_if_it_fits(*(Disconnect(error.reason, form) for form in goodbye_forms(properties)))
        self._state = CLOSED
        self._decoder.drop()
        return Closing(error.reason, error.text)
