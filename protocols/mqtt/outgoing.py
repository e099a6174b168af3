"""Outgoing: the output of one MQTT connection, in order of the calls.  Open handshakes of QoS 1 and 2 are in `window`
for messages to the client, in `incoming` for messages from it.  A session that outlives the connection restores them
there."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from entrepot.protocols.mqtt.decoder import Decoder
from entrepot.protocols.mqtt.delivery_window import DeliveryWindow
from entrepot.protocols.mqtt.encoder import (
    PUBCOMP_WORD,
    PUBREC_WORD,
    PUBREL_WORD,
    PublishTemplate,
    encode,
    encode_words,
)
from entrepot.protocols.mqtt.errors import MqttError
from entrepot.protocols.mqtt.packet_counts import PacketCounts
from entrepot.protocols.mqtt.packets import Auth, Packet, Puback, Pubcomp, Pubrec, Pubrel, Suback, Unsuback
from entrepot.protocols.mqtt.properties import PropertyId
from entrepot.protocols.mqtt.reason_codes import ReasonCode
from entrepot.protocols.mqtt.topic_aliases import ServersAliases

UNLIMITED_PACKET: Final = 268_435_460
"""Largest possible packet, for a client without a maximum (2.1.4)."""

WAITING, DECIDING, OPEN, CLOSED = range(4)


PENDING, ANSWERED, RESTORED = range(3)
"""States of a QoS 2 publish: PUBREC is due; PUBREC was sent; the identifier is known from an earlier connection."""

_NO_WINDOW: Final = DeliveryWindow(0)
"""Window before CONNECT, when nothing is sent; never written to."""


class Outgoing:
    """The output of a connection (see the module).  The states are those of the connection; `counts` are shared."""

    __slots__ = (
        "_aliases",
        "_counts",
        "_decoder",
        "_explains",
        "_out",
        "_state",
        "incoming",
        "max_packet_to_client",
        "method",
        "unconfirmed",
        "window",
    )

    def __init__(self, decoder: Decoder, counts: PacketCounts | None = None) -> None:
        self._decoder = decoder
        self._counts = PacketCounts() if counts is None else counts
        self._out: list[bytes] = []
        self._state = WAITING
        self._aliases: ServersAliases | None = None
        self._explains = True
        self.window = _NO_WINDOW
        self.incoming: dict[int, int] | None = None
        self.max_packet_to_client = UNLIMITED_PACKET
        self.method: str | None = None
        self.unconfirmed = 0

    @property
    def version(self) -> int:
        """Protocol level: 3, 4 or 5; 0 before CONNECT."""
        return self._decoder.version

    @property
    def is_open(self) -> bool:
        """True if CONNECT was accepted, and nothing has ended the connection since."""
        return self._state == OPEN

    @property
    def is_deciding(self) -> bool:
        """True if CONNECT came, and was neither accepted nor refused."""
        return self._state == DECIDING

    @property
    def is_closed(self) -> bool:
        return self._state == CLOSED

    def data_to_send(self) -> bytes:
        """Return the bytes due, maybe none."""
        if not self._out:
            return b""
        data = self._out[0] if len(self._out) == 1 else b"".join(self._out)
        self._out.clear()
        return data

    def send(self, data: bytes) -> None:
        """Send bytes that were made here before, and held back until now."""
        if self._state == OPEN:
            self._out.append(data)

    def challenge(self, data: bytes | None) -> bool:
        """Continue an exchange of enhanced authentication (4.12); False if the packet is too large for the client."""
        return self._send_auth(ReasonCode.CONTINUE_AUTHENTICATION, data)

    def authenticated_again(self, data: bytes | None) -> bool:
        """Confirm a re-authentication (4.12.1); False if the packet is too large for the client."""
        return self._send_auth(ReasonCode.SUCCESS, data)

    def _send_auth(self, reason: ReasonCode, data: bytes | None) -> bool:
        properties: dict[PropertyId, Any] = {PropertyId.AUTHENTICATION_METHOD: self.method}
        if data is not None:
            properties[PropertyId.AUTHENTICATION_DATA] = data
        return self._send_if_it_fits(Auth(reason, properties))

    def confirm(self, words: list[int]) -> None:
        """Send PUBACKs and PUBRECs of durable publishes, as words (`encoder`) with their identifiers."""
        if self._state == CLOSED:
            return
        incoming = self.incoming
        acknowledged = len(words)
        if incoming:
            for word in words:
                if word >= PUBREC_WORD:
                    incoming[word & 0xFFFF] = ANSWERED
                    acknowledged -= 1
            self._counts.sent[self.version, Pubrec] += len(words) - acknowledged
        self.unconfirmed -= acknowledged
        self._counts.sent[self.version, Puback] += acknowledged
        self._out.append(encode_words(words))

    def confirm_unheard(self, word: int) -> None:
        """Confirm a publish of version 5 that matches no subscription (3.4.2.1)."""
        packet_id, reason = word & 0xFFFF, ReasonCode.NO_MATCHING_SUBSCRIBERS
        if self._state == CLOSED:
            return
        if word < PUBREC_WORD:
            self.unconfirmed -= 1
            self._send(Puback(packet_id, reason))
        elif self.incoming is not None:
            self.incoming[packet_id] = ANSWERED
            self._send(Pubrec(packet_id, reason))

    def refuse_publish(self, packet_id: int, qos: int, reason: ReasonCode, text: str) -> None:
        """Send PUBACK or PUBREC with a reason, in version 5: the publish is over, and its identifier free (4.3.3-4)."""
        self.unconfirmed -= 1
        if qos == 2 and self.incoming is not None:
            self.incoming.pop(packet_id, None)
        answer = Pubrec if qos == 2 else Puback
        bare = answer(packet_id, reason)
        if self._explains:  # 3.1.2-29
            self._send_if_it_fits(answer(packet_id, reason, {PropertyId.REASON_STRING: text}), bare)
        else:
            self._send(bare)

    def release(self, packet_ids: Collection[int]) -> bytes:
        """Return PUBRELs, to be sent by the caller (`send`)."""
        self._counts.sent[self.version, Pubrel] += len(packet_ids)
        return encode_words([PUBREL_WORD | packet_id for packet_id in packet_ids])

    def complete(self, packet_ids: Collection[int]) -> bytes:
        """Return PUBCOMPs, to be sent by the caller."""
        self._counts.sent[self.version, Pubcomp] += len(packet_ids)
        return encode_words([PUBCOMP_WORD | packet_id for packet_id in packet_ids])

    def suback(self, packet_id: int, reasons: list[ReasonCode]) -> None:
        if self.version < 5:
            reasons = [r if r < 0x80 else ReasonCode.UNSPECIFIED_ERROR for r in reasons]
        self._send(Suback(packet_id, reasons))

    def unsuback(self, packet_id: int, reasons: list[ReasonCode]) -> None:
        self._send(Unsuback(packet_id, reasons))

    def _check_room_for_answer(self, reasons: int) -> None:
        """Refuse a request whose answer would not fit: SUBACK and UNSUBACK have nothing to leave out."""
        if self.version == 5 and len(encode(Suback(1, [ReasonCode.SUCCESS] * reasons), 5)) > self.max_packet_to_client:
            raise MqttError(ReasonCode.PACKET_TOO_LARGE, "the answer would be larger than the client takes")

    @property
    def has_aliases(self) -> bool:
        """True if packets depend on earlier ones, and cannot be shared with other clients."""
        return self._aliases is not None

    def deliver(self, template: PublishTemplate, held: object = None, *, is_sent_next: bool = True) -> bytes | None:
        """Return a message's packet, to be sent by the caller; above QoS 0 the window must have room.  None for one too
        large for the client, which counts as sent (3.1.2-25).  `is_sent_next`: it is sent before any later packet, and
        so may introduce a topic alias."""
        if template.size > self.max_packet_to_client:
            return None
        if self._aliases is not None and template.topic:
            template = self._aliases.shorten(template, self.max_packet_to_client, may_tell=is_sent_next)
        return template.packet(self.window.take(template.qos, held) if template.qos else 0)

    def _send(self, packet: Packet) -> None:
        """Send a packet that fits any client that a CONNACK fits, or whose size was checked before."""
        self._counts.sent[self.version, type(packet)] += 1
        self._out.append(encode(packet, self.version))

    def _send_if_it_fits(self, *forms: Packet) -> bool:
        """Send the first form of a packet that fits the client (3.1.2-24); False if none does."""
        for packet in forms:
            data = encode(packet, self.version)
            if len(data) <= self.max_packet_to_client:
                self._counts.sent[self.version, type(packet)] += 1
                self._out.append(data)
                return True
        return False
