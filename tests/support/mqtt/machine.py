"""A connection machine with the least a frontend does for it: accept, grant, confirm."""

from __future__ import annotations

from entrepot.domain.routing.topic_filter import is_valid_filter
from entrepot.protocols.mqtt.connection import ServerConnection
from entrepot.protocols.mqtt.connection_events import Closing, ConnectionLimits, Event, Publishes, Received, Released
from entrepot.protocols.mqtt.decoder import Decoder
from entrepot.protocols.mqtt.encoder import PUBACK_WORD, PUBREC_WORD, encode
from entrepot.protocols.mqtt.packets import Auth, Connect, Packet, Publish, Subscribe, Unsubscribe
from entrepot.protocols.mqtt.properties import PropertyId
from entrepot.protocols.mqtt.reason_codes import ReasonCode

LIMITS = ConnectionLimits(max_packet_size_bytes=2048, receive_maximum=3, max_inflight_messages=4, topic_alias_maximum=2)


def word_of(packet: Publish) -> int:
    """The answer to a publish above QoS 0 that is durable, as `ServerConnection.confirm` takes it."""
    return (PUBREC_WORD if packet.qos == 2 else PUBACK_WORD) | packet.packet_id


class Machine:
    """`confirms`: whether publishes are confirmed at once, as by a store without a disk; `accepts`: whether CONNECT is
    decided at once, if it has no authentication method, which takes an AUTH of the client with data "yes"."""

    def __init__(
        self,
        limits: ConnectionLimits = LIMITS,
        now: float = 0.0,
        *,
        confirms: bool = True,
        accepts: bool = True,
    ) -> None:
        self.connection = ServerConnection(limits, now)
        self.events: list[Event] = []
        self.filters: set[str] = set()
        self._confirms = confirms
        self._accepts = accepts
        self._connect: Connect | None = None

    def feed(self, data: bytes, now: float = 0.0) -> bytes:
        """Give bytes of the client, deal with what they mean; returns what is to be sent."""
        for event in self.connection.receive_data(data, now):
            self.events.append(event)
            self._handle(event)
        return self.connection.data_to_send()

    def accept(self) -> bytes:
        """CONNECT is accepted: go on with what came behind it."""
        assert self._connect is not None
        self.connection.accept(self._connect, False)
        for event in self.connection.go_on():
            self.events.append(event)
            self._handle(event)
        return self.connection.data_to_send()

    def say(self, *packets: Packet, now: float = 0.0) -> list[Packet]:
        """The same in packets."""
        version = self.connection.version
        wire = b""
        for packet in packets:
            version = packet.version if isinstance(packet, Connect) else version
            wire += encode(packet, version)
        return self.read(self.feed(wire, now))

    def read(self, data: bytes) -> list[Packet]:
        """What a client of the connection's version reads; before one is known, it speaks 3.1.1."""
        decoder = Decoder(1 << 28, self.connection.version or 4)
        packets = decoder.feed(data)
        assert decoder.error is None, (decoder.error, data.hex())
        assert decoder._partial is None, data.hex()
        return packets

    @property
    def closing(self) -> Closing | None:
        """How it ended, if it did."""
        last = self.events[-1] if self.events else None
        return last if isinstance(last, Closing) else None

    def _handle(self, event: Event) -> None:
        connection = self.connection
        if isinstance(event, Connect):
            self._connect = event
            if connection.method is not None:
                connection.challenge(b"who?")
            elif self._accepts:
                connection.accept(event, False)
        elif isinstance(event, Auth):
            self._authenticate(event)
        elif isinstance(event, Publishes) and self._confirms:
            words = [word_of(packet) for packet in event.packets if packet.qos]
            if words:
                connection.confirm(words)
        elif isinstance(event, Received):
            connection.send(connection.release(event.packet_ids))
        elif isinstance(event, Released):
            connection.send(connection.complete(event.packet_ids))
        elif isinstance(event, Subscribe):
            reasons = [
                ReasonCode(wanted.qos) if is_valid_filter(wanted.filter) else ReasonCode.TOPIC_FILTER_INVALID
                for wanted in event.subscriptions
            ]
            self.filters |= {wanted.filter for wanted in event.subscriptions if is_valid_filter(wanted.filter)}
            connection.suback(event.packet_id, reasons)
        elif isinstance(event, Unsubscribe):
            gone = ReasonCode.NO_SUBSCRIPTION_EXISTED
            known = [name in self.filters for name in event.filters]
            self.filters -= set(event.filters)
            connection.unsuback(event.packet_id, [ReasonCode.SUCCESS if was else gone for was in known])

    def _authenticate(self, packet: Auth) -> None:
        connection = self.connection
        is_first = connection.is_deciding
        if packet.properties.get(PropertyId.AUTHENTICATION_DATA) != b"yes":
            connection.challenge(b"who?")
        elif is_first:
            assert self._connect is not None
            connection.accept(self._connect, False)
        else:
            connection.authenticated_again(b"well")
