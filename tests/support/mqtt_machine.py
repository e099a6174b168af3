"""A connection machine with the least a frontend does for it: accept, grant, confirm."""

from __future__ import annotations

from protocols.mqtt.connection import (
    Closing,
    ConnectionLimits,
    Event,
    Publishes,
    ServerConnection,
    check_subscription,
)
from protocols.mqtt.decoder import Decoder
from protocols.mqtt.encoder import encode
from protocols.mqtt.packets import Connect, Packet, Subscribe, Unsubscribe
from protocols.mqtt.reason_codes import ReasonCode

LIMITS = ConnectionLimits(max_packet_size_bytes=2048, receive_maximum=3, max_inflight_messages=4)


class Machine:
    """`confirms`: whether publishes are confirmed at once, as by a store without a disk."""

    def __init__(self, limits: ConnectionLimits = LIMITS, now: float = 0.0, *, confirms: bool = True) -> None:
        self.connection = ServerConnection(limits, now)
        self.events: list[Event] = []
        self.filters: set[str] = set()
        self._confirms = confirms

    def feed(self, data: bytes, now: float = 0.0) -> bytes:
        """Give bytes of the client, deal with what they mean; returns what is to be sent."""
        for event in self.connection.receive_data(data, now):
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
            connection.accept(event, None if event.client_id else "assigned")
        elif isinstance(event, Publishes) and self._confirms:
            connection.confirm([packet.packet_id for packet in event.packets if packet.qos])
        elif isinstance(event, Subscribe):
            refusals = [check_subscription(wanted) for wanted in event.subscriptions]
            granted = [ReasonCode(min(wanted.qos, 1)) for wanted in event.subscriptions]
            pairs = list(zip(refusals, granted, event.subscriptions, strict=True))
            self.filters |= {wanted.filter for refusal, _, wanted in pairs if refusal is None}
            reasons = [grant if refusal is None else refusal for refusal, grant, _ in pairs]
            connection.suback(event.packet_id, reasons)
        elif isinstance(event, Unsubscribe):
            gone = ReasonCode.NO_SUBSCRIPTION_EXISTED
            known = [name in self.filters for name in event.filters]
            self.filters -= set(event.filters)
            connection.unsuback(event.packet_id, [ReasonCode.SUCCESS if was else gone for was in known])
