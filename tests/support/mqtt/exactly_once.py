"""What a client has to remember for QoS 2 (MQTT 5.0, 4.3.3), kept through its connections: the test's own bookkeeping
of what was sent and what was received."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from entrepot.protocols.mqtt.packets import Packet, Pubcomp, Publish, Pubrec, Pubrel
from entrepot.protocols.mqtt.reason_codes import ReasonCode

MAX_PACKET_ID = 65_535


@dataclass(slots=True)
class ExactlyOnceReceiver:
    """`received`: every message once, in order, as an application would get it."""

    received: list[bytes] = field(default_factory=list)
    _open: set[int] = field(default_factory=set)

    def take(self, publish: Publish) -> Pubrec:
        """A PUBLISH of QoS 2; the answer to it."""
        assert publish.qos == 2, publish
        if publish.packet_id not in self._open:
            self._open.add(publish.packet_id)
            self.received.append(publish.payload)
        return Pubrec(publish.packet_id)

    def release(self, pubrel: Pubrel) -> Pubcomp:
        self._open.discard(pubrel.packet_id)
        return Pubcomp(pubrel.packet_id)


@dataclass(slots=True)
class ExactlyOnceSender:
    """`unfinished` in the order of sending: the payload, or None once PUBREC came for it."""

    topic: str
    unfinished: dict[int, bytes | None] = field(default_factory=dict)
    finished: int = 0
    _last_id: int = 0

    def begin(self, payloads: Iterable[bytes]) -> list[Packet]:
        """PUBLISHes of new messages."""
        packets: list[Packet] = []
        for payload in payloads:
            self._last_id = self._last_id % MAX_PACKET_ID + 1
            assert self._last_id not in self.unfinished
            self.unfinished[self._last_id] = payload
            packets.append(Publish(self.topic, payload, 2, self._last_id))
        return packets

    def again(self) -> list[Packet]:
        """What is to be said when the session goes on (4.4.0-1)."""
        return [
            Pubrel(packet_id) if payload is None else Publish(self.topic, payload, 2, packet_id, dup=True)
            for packet_id, payload in self.unfinished.items()
        ]

    def answered(self, packet: Pubrec | Pubcomp) -> Pubrel | None:
        """An answer came; what is to be said to it."""
        if isinstance(packet, Pubrec):
            assert packet.reason == ReasonCode.SUCCESS, packet
            if packet.packet_id not in self.unfinished:
                return Pubrel(packet.packet_id, ReasonCode.PACKET_IDENTIFIER_NOT_FOUND)
            self.unfinished[packet.packet_id] = None
            return Pubrel(packet.packet_id)
        assert packet.reason in (ReasonCode.SUCCESS, ReasonCode.PACKET_IDENTIFIER_NOT_FOUND), packet
        if self.unfinished.pop(packet.packet_id, b"") is None:
            self.finished += 1
        return None
