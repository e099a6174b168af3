"""Encoder: packets to bytes.  Raises ValueError for a packet that no peer could read."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, Final

from entrepot.protocols.mqtt.packets import (
    BRIDGE_BIT,
    Acknowledgement,
    Auth,
    Connack,
    Connect,
    Disconnect,
    Packet,
    Pingreq,
    Pingresp,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Suback,
    Subscribe,
    Unsuback,
    Unsubscribe,
)
from entrepot.protocols.mqtt.properties import EMPTY, Properties, PropertyId, encode_properties
from entrepot.protocols.mqtt.reason_codes import ConnectReturnCode, ReasonCode
from entrepot.protocols.mqtt.wire import MAX_FIELD_BYTES, write_binary, write_string, write_u16, write_varint

_FAILURE: Final = 0x80
"""First reason code that is a failure, and the only failure of SUBACK before version 5."""

MAX_PACKET_ID: Final = 65_535

_pack_u16: Final = struct.Struct("!H").pack
_pack_usual_head: Final = struct.Struct("!BBBH").pack
"""First byte, a remaining length of two bytes, length of the topic."""
_pack_ack: Final = struct.Struct("!HH").pack
_PUBACK_HEAD: Final = 0x4002

PUBACK_WORD: Final = 0x4002_0000
PUBREC_WORD: Final = 0x5002_0000
PUBREL_WORD: Final = 0x6202_0000
PUBCOMP_WORD: Final = 0x7002_0000
"""Words of acknowledgements of success, four bytes in every version (3.4.2.1); the identifier is added."""

PINGREQ: Final = b"\xc0\x00"
PINGRESP: Final = b"\xd0\x00"


class PublishTemplate:
    """A PUBLISH encoded once for many subscribers: only the packet identifier is spliced in for each.  Subscribers
    share it if version, QoS, RETAIN and properties are equal.  At QoS 0 `head` is the whole packet."""

    __slots__ = ("_aliasable", "head", "qos", "size", "tail")

    def __init__(
        self, head: bytes, tail: bytes, qos: int, aliasable: tuple[str, bytes, bool, Properties] | None = None
    ) -> None:
        self.head = head
        self.tail = tail
        self.qos = qos
        self.size = len(head) + len(tail) + (2 if qos else 0)
        """Bytes of the whole packet, to compare with a Maximum Packet Size."""
        self._aliasable = aliasable

    @property
    def topic(self) -> str:
        """The topic that an alias may replace; empty if none may."""
        return self._aliasable[0] if self._aliasable is not None else ""

    def with_alias(self, alias: int, *, is_known: bool) -> PublishTemplate:
        """Return it with a topic alias (3.3.2.3.4), and without the topic if the client knows the alias."""
        assert self._aliasable is not None
        topic, payload, retain, properties = self._aliasable
        more = {**properties, PropertyId.TOPIC_ALIAS: alias}
        return publish_template("" if is_known else topic, payload, self.qos, retain, more, 5)

    def packet(self, packet_id: int) -> bytes:
        """Return the packet for one subscriber; at QoS 0 the same bytes for all."""
        if not self.qos:
            return self.head
        return self.head + _pack_u16(packet_id) + self.tail

    def packet_again(self, packet_id: int) -> bytes:
        """Return the packet with DUP set, for sending it again (MQTT-3.3.1-1)."""
        packet = bytearray(self.packet(packet_id))
        packet[0] |= 0x08
        return bytes(packet)


def publish_template(
    topic: str,
    payload: bytes,
    qos: int = 0,
    retain: bool = False,
    properties: Properties = EMPTY,
    version: int = 5,
) -> PublishTemplate:
    """Return a PUBLISH to splice packet identifiers into (3.3)."""
    if not 0 <= qos <= 2:
        raise ValueError(f"QoS {qos}")
    name = _encode_name(topic)
    aliasable = None
    if version == 5:
        aliasable = (topic, payload, retain, properties)
        payload = (encode_properties(properties) if properties else b"\0") + payload
    first = 0x30 | qos << 1 | retain
    if not qos:
        return PublishTemplate(publish_head(first, name, len(payload)) + payload, b"", 0, aliasable)
    return PublishTemplate(publish_head(first, name, 2 + len(payload)), payload, qos, aliasable)


def publish_head(first: int, name: bytes, rest: int) -> bytes:
    """Return first byte, remaining length and topic name of a PUBLISH (3.3.1, 3.3.2.1).  `rest`: bytes after the
    name."""
    size = len(name)
    remaining = size + 2 + rest
    if 0x80 <= remaining < 0x4000:
        return _pack_usual_head(first, remaining & 0x7F | 0x80, remaining >> 7, size) + name
    return b"%c%b%b%b" % (first, write_varint(remaining), _pack_u16(size), name)


def _encode_name(topic: str) -> bytes:
    name = topic.encode()
    if len(name) > MAX_FIELD_BYTES or "\0" in topic:
        raise ValueError("topic is too long or contains NUL")
    return name


def encode_words(words: Sequence[int]) -> bytes:
    """Return acknowledgements of success in one piece: each is one of the words above with its identifier."""
    return struct.pack(f"!{len(words)}I", *words)


def encode(packet: Packet, version: int) -> bytes:
    """Encode any packet for a peer of that version.  Before version 5 properties and reasons that it lacks are left
    out."""
    return _ENCODERS[type(packet)](packet, version)


def _frame(first: int, body: bytes) -> bytes:
    return bytes((first,)) + write_varint(len(body)) + body


def _packet_id(packet_id: int) -> bytes:
    if not packet_id:
        raise ValueError("packet identifier 0")
    return write_u16(packet_id)


def _properties(properties: Properties, version: int) -> bytes:
    return encode_properties(properties) if version == 5 else b""


def _encode_connect(packet: Connect, _version: int) -> bytes:
    """Encode CONNECT (3.1) in the version that the packet itself asks for."""
    version, will = packet.version, packet.will
    if packet.is_bridge and version == 5:
        raise ValueError("version 5 has no bit for bridges")
    level = version | BRIDGE_BIT if packet.is_bridge else version
    flags = 0x02 if packet.clean_start else 0
    payload = [write_string(packet.client_id)]
    if will is not None:
        flags |= 0x04 | will.qos << 3 | (0x20 if will.retain else 0)
        payload += (_properties(will.properties, version), write_string(will.topic), write_binary(will.payload))
    if packet.username is not None:
        flags |= 0x80
        payload.append(write_string(packet.username))
    if packet.password is not None:
        if version < 5 and packet.username is None:
            raise ValueError("a password needs a user name before version 5")
        flags |= 0x40
        payload.append(write_binary(packet.password))
    head = write_binary(b"MQIsdp" if version == 3 else b"MQTT") + bytes((level, flags)) + write_u16(packet.keep_alive)
    return _frame(0x10, head + _properties(packet.properties, version) + b"".join(payload))


def _encode_connack(packet: Connack, version: int) -> bytes:
    if version < 5 and packet.reason > ConnectReturnCode.NOT_AUTHORIZED:
        raise ValueError(f"{packet.reason!r} is not a return code of MQTT 3")
    body = bytes((packet.session_present, packet.reason))
    return _frame(0x20, body + _properties(packet.properties, version))


def _encode_publish(packet: Publish, version: int) -> bytes:
    name, payload, middle = _encode_name(packet.topic), packet.payload, b""
    if packet.qos:
        if packet.qos > 2 or not 0 < packet.packet_id <= MAX_PACKET_ID:
            raise ValueError("QoS above 2, or above 0 without a packet identifier")
        middle = _pack_u16(packet.packet_id)
    if version == 5:
        middle += encode_properties(packet.properties) if packet.properties else b"\0"
    first = 0x30 | packet.qos << 1 | packet.retain | packet.dup << 3
    return publish_head(first, name, len(middle) + len(payload)) + middle + payload


def _acknowledgement_encoder(first: int) -> Callable[[Acknowledgement, int], bytes]:
    def encode_acknowledgement(packet: Acknowledgement, version: int) -> bytes:
        return _frame(first, _packet_id(packet.packet_id) + _outcome(packet.reason, packet.properties, version))

    return encode_acknowledgement


def _outcome(reason: ReasonCode, properties: Properties, version: int) -> bytes:
    """Return reason code and properties, each left out where its absence means the same (3.4.2, 3.14.2)."""
    if version < 5:
        return b""
    if properties:
        return bytes((reason,)) + encode_properties(properties)
    return bytes((reason,)) if reason else b""


def _encode_subscribe(packet: Subscribe, version: int) -> bytes:
    out = [_packet_id(packet.packet_id), _properties(packet.properties, version)]
    for wanted in packet.subscriptions:
        options = wanted.qos
        if version == 5:
            options |= wanted.no_local << 2 | wanted.retain_as_published << 3 | wanted.retain_handling << 4
        out += (write_string(wanted.filter), bytes((options,)))
    return _frame(0x82, b"".join(out))


def _encode_suback(packet: Suback, version: int) -> bytes:
    reasons = bytes(packet.reasons) if version == 5 else bytes([min(reason, _FAILURE) for reason in packet.reasons])
    return _frame(0x90, _packet_id(packet.packet_id) + _properties(packet.properties, version) + reasons)


def _encode_unsubscribe(packet: Unsubscribe, version: int) -> bytes:
    filters = b"".join(map(write_string, packet.filters))
    return _frame(0xA2, _packet_id(packet.packet_id) + _properties(packet.properties, version) + filters)


def _encode_unsuback(packet: Unsuback, version: int) -> bytes:
    payload = encode_properties(packet.properties) + bytes(packet.reasons) if version == 5 else b""
    return _frame(0xB0, _packet_id(packet.packet_id) + payload)


def _encode_pingreq(_packet: Pingreq, _version: int) -> bytes:
    return PINGREQ


def _encode_pingresp(_packet: Pingresp, _version: int) -> bytes:
    return PINGRESP


def _encode_disconnect(packet: Disconnect, version: int) -> bytes:
    return _frame(0xE0, _outcome(packet.reason, packet.properties, version))


def _encode_auth(packet: Auth, version: int) -> bytes:
    if version < 5:
        raise ValueError("AUTH before version 5")
    if not packet.reason and not packet.properties:
        return _frame(0xF0, b"")
    return _frame(0xF0, bytes((packet.reason,)) + encode_properties(packet.properties))


_ENCODERS: Final[dict[type[Any], Callable[[Any, int], bytes]]] = {
    Connect: _encode_connect,
    Connack: _encode_connack,
    Publish: _encode_publish,
    Puback: _acknowledgement_encoder(0x40),
    Pubrec: _acknowledgement_encoder(0x50),
    Pubrel: _acknowledgement_encoder(0x62),
    Pubcomp: _acknowledgement_encoder(0x70),
    Subscribe: _encode_subscribe,
    Suback: _encode_suback,
    Unsubscribe: _encode_unsubscribe,
    Unsuback: _encode_unsuback,
    Pingreq: _encode_pingreq,
    Pingresp: _encode_pingresp,
    Disconnect: _encode_disconnect,
    Auth: _encode_auth,
}
