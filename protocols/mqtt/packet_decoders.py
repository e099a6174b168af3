"""Decoders of every packet but PUBLISH, which `decoder.py` reads in its loop.  Each gets the buffer, the span of the
packet's content and the version, and refuses bytes after the content."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from entrepot.domain.routing.topic_filter import is_valid_name
from entrepot.protocols.mqtt.errors import MqttError, malformed, protocol_error
from entrepot.protocols.mqtt.packet_types import PacketType
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
    Pubrec,
    Pubrel,
    Suback,
    Subscribe,
    Subscription,
    Unsuback,
    Unsubscribe,
    Will,
)
from entrepot.protocols.mqtt.properties import EMPTY, Properties, decode_properties
from entrepot.protocols.mqtt.reason_codes import REASONS_OF, ConnectReturnCode, ReasonCode
from entrepot.protocols.mqtt.wire import read_binary, read_byte, read_string, read_u16

PacketDecoder: TypeAlias = Callable[[bytes, int, int, int], Packet]

_PROTOCOLS: Final = {
    (b"MQIsdp", 3): 3,
    (b"MQTT", 4): 4,
    (b"MQTT", 5): 5,
    (b"MQIsdp", 3 | BRIDGE_BIT): 3,
    (b"MQTT", 4 | BRIDGE_BIT): 4,
}

_RESERVED, _CLEAN_START, _WILL, _WILL_QOS, _WILL_RETAIN, _PASSWORD, _USERNAME = 0x01, 0x02, 0x04, 0x18, 0x20, 0x40, 0x80
"""Connect flags (3.1.2.3)."""

_V3_RETURN_CODES: Final = {int(code): code for code in ConnectReturnCode}
_V3_GRANTED: Final = {code: ReasonCode(code) for code in (0x00, 0x01, 0x02, 0x80)}


def decode_protocol(buf: bytes, pos: int, end: int) -> tuple[int, int]:
    """Return the version of CONNECT's protocol name and level, and the position after them (3.1.2.1, 3.1.2.2)."""
    name, pos = read_binary(buf, pos, end)
    level, pos = read_byte(buf, pos, end)
    version = _PROTOCOLS.get((name, level))
    if version is None:
        raise MqttError(ReasonCode.UNSUPPORTED_PROTOCOL_VERSION, "neither MQTT 3.1 nor 3.1.1 nor 5.0")
    return version, pos


def decode_connect(buf: bytes, pos: int, end: int, _version: int) -> Connect:
    """Decode CONNECT (3.1) in the version that it names itself."""
    version, pos = decode_protocol(buf, pos, end)
    is_bridge = buf[pos - 1] & BRIDGE_BIT != 0
    flags, pos = read_byte(buf, pos, end)
    keep_alive, pos = read_u16(buf, pos, end)
    _check_connect_flags(flags, version)
    properties, pos = _properties(buf, pos, end, version, PacketType.CONNECT)
    client_id, pos = read_string(buf, pos, end)
    will: Will | None = None
    if flags & _WILL:
        will, pos = _decode_will(buf, pos, end, version, flags)
    username: str | None = None
    password: bytes | None = None
    # In 3.1 the length goes before the flags: announced fields may be missing at the end (3.1 of that version).
    if flags & _USERNAME and (version != 3 or pos < end):
        username, pos = read_string(buf, pos, end)
    if flags & _PASSWORD and (version != 3 or pos < end):
        password, pos = read_binary(buf, pos, end)
    _check_end(pos, end)
    is_clean = flags & _CLEAN_START != 0
    return Connect(client_id, version, is_clean, keep_alive, will, username, password, properties, is_bridge)


def _check_connect_flags(flags: int, version: int) -> None:
    if version != 3:  # 3.1 leaves the reserved bit open, and ignores will flags without a will
        if flags & _RESERVED:  # MQTT-3.1.2-3
            raise malformed("reserved connect flag is set")
        if not flags & _WILL and flags & (_WILL_QOS | _WILL_RETAIN):  # MQTT-3.1.2-11, -13
            raise malformed("will QoS or will retain without a will")
    if flags & _WILL_QOS == _WILL_QOS and (flags & _WILL or version != 3):  # MQTT-3.1.2-12
        raise malformed("will QoS 3")
    if version < 5 and flags & _PASSWORD and not flags & _USERNAME:  # 3.1.1: MQTT-3.1.2-22
        raise malformed("password without a user name")


def _decode_will(buf: bytes, pos: int, end: int, version: int, flags: int) -> tuple[Will, int]:
    """Decode the will in CONNECT's payload (3.1.3.2 to 3.1.3.4)."""
    properties, pos = _properties(buf, pos, end, version, PacketType.WILL)
    topic, pos = read_string(buf, pos, end)
    payload, pos = read_binary(buf, pos, end)
    if not topic:  # MQTT-4.7.3-1
        raise malformed("will topic is empty")
    if not is_valid_name(topic):
        raise MqttError(ReasonCode.TOPIC_NAME_INVALID, "will topic is not a topic name")
    return Will(topic, payload, (flags & _WILL_QOS) >> 3, flags & _WILL_RETAIN != 0, properties), pos


def _decode_connack(buf: bytes, pos: int, end: int, version: int) -> Connack:
    flags, pos = read_byte(buf, pos, end)
    code, pos = read_byte(buf, pos, end)
    if flags & 0xFE:  # 3.2.2.1
        raise malformed("reserved connect acknowledge flag is set")
    reason = _V3_RETURN_CODES.get(code) if version < 5 else REASONS_OF[PacketType.CONNACK].get(code)
    if reason is None:
        raise protocol_error(f"reason code 0x{code:02x} is not one of CONNACK")
    if flags and code:  # MQTT-3.2.2-6
        raise protocol_error("session present in a refusal")
    properties, pos = _properties(buf, pos, end, version, PacketType.CONNACK)
    _check_end(pos, end)
    return Connack(flags != 0, reason, properties)


def _acknowledgement_decoder(packet_type: PacketType, make: type[Acknowledgement]) -> PacketDecoder:
    """Return the decoder of PUBACK, PUBREC, PUBREL or PUBCOMP, which differ in their reason codes only (3.4 to 3.7)."""
    reasons = REASONS_OF[packet_type]

    def decode(buf: bytes, pos: int, end: int, version: int) -> Packet:
        packet_id, pos = _packet_id(buf, pos, end)
        if version < 5 or pos == end:
            _check_end(pos, end)
            return make(packet_id)
        reason = _reason(buf[pos], reasons, packet_type)
        pos += 1
        if pos == end:  # 3.4.2.2.1: without a property length there are no properties
            return make(packet_id, reason)
        properties, pos = decode_properties(buf, pos, end, packet_type)
        _check_end(pos, end)
        return make(packet_id, reason, properties)

    return decode


def _decode_subscribe(buf: bytes, pos: int, end: int, version: int) -> Subscribe:
    packet_id, pos = _packet_id(buf, pos, end)
    properties, pos = _properties(buf, pos, end, version, PacketType.SUBSCRIBE)
    if pos == end:  # MQTT-3.8.3-2
        raise protocol_error("SUBSCRIBE without a filter")
    reserved = 0xC0 if version == 5 else 0xFC  # MQTT-3.8.3-5; 3.1.1: MQTT-3-8.3-4
    subscriptions: list[Subscription] = []
    while pos < end:
        topic_filter, pos = _filter(buf, pos, end)
        options, pos = read_byte(buf, pos, end)
        if options & reserved or options & 0x03 == 0x03 or options & 0x30 == 0x30:  # 3.8.3.1
            raise malformed(f"subscription options 0x{options:02x}")
        subscriptions.append(
            Subscription(topic_filter, options & 0x03, options & 0x04 != 0, options & 0x08 != 0, options >> 4)
        )
    return Subscribe(packet_id, subscriptions, properties)


def _decode_suback(buf: bytes, pos: int, end: int, version: int) -> Suback:
    packet_id, pos = _packet_id(buf, pos, end)
    properties, pos = _properties(buf, pos, end, version, PacketType.SUBACK)
    valid = REASONS_OF[PacketType.SUBACK] if version == 5 else _V3_GRANTED
    return Suback(packet_id, [_reason(code, valid, PacketType.SUBACK) for code in buf[pos:end]], properties)


def _decode_unsubscribe(buf: bytes, pos: int, end: int, version: int) -> Unsubscribe:
    packet_id, pos = _packet_id(buf, pos, end)
    properties, pos = _properties(buf, pos, end, version, PacketType.UNSUBSCRIBE)
    if pos == end:  # MQTT-3.10.3-2
        raise protocol_error("UNSUBSCRIBE without a filter")
    filters: list[str] = []
    while pos < end:
        topic_filter, pos = _filter(buf, pos, end)
        filters.append(topic_filter)
    return Unsubscribe(packet_id, filters, properties)


def _decode_unsuback(buf: bytes, pos: int, end: int, version: int) -> Unsuback:
    packet_id, pos = _packet_id(buf, pos, end)
    if version < 5:  # no payload before version 5
        _check_end(pos, end)
        return Unsuback(packet_id, [])
    properties, pos = decode_properties(buf, pos, end, PacketType.UNSUBACK)
    valid = REASONS_OF[PacketType.UNSUBACK]
    return Unsuback(packet_id, [_reason(code, valid, PacketType.UNSUBACK) for code in buf[pos:end]], properties)


def _decode_pingreq(_buf: bytes, pos: int, end: int, _version: int) -> Pingreq:
    _check_end(pos, end)
    return Pingreq()


def _decode_pingresp(_buf: bytes, pos: int, end: int, _version: int) -> Pingresp:
    _check_end(pos, end)
    return Pingresp()


def _decode_disconnect(buf: bytes, pos: int, end: int, version: int) -> Disconnect:
    if version < 5 or pos == end:  # 3.14.2.1: without a reason code it is a normal disconnection
        _check_end(pos, end)
        return Disconnect()
    reason = _reason(buf[pos], REASONS_OF[PacketType.DISCONNECT], PacketType.DISCONNECT)
    pos += 1
    if pos == end:  # 3.14.2.2.1
        return Disconnect(reason)
    properties, pos = decode_properties(buf, pos, end, PacketType.DISCONNECT)
    _check_end(pos, end)
    return Disconnect(reason, properties)


def _decode_auth(buf: bytes, pos: int, end: int, version: int) -> Auth:
    if version < 5:
        raise malformed("packet type 15 is reserved before version 5")
    if pos == end:  # 3.15.2.1
        return Auth()
    reason = _reason(buf[pos], REASONS_OF[PacketType.AUTH], PacketType.AUTH)
    properties, pos = decode_properties(buf, pos + 1, end, PacketType.AUTH)
    _check_end(pos, end)
    return Auth(reason, properties)


def _packet_id(buf: bytes, pos: int, end: int) -> tuple[int, int]:
    packet_id, pos = read_u16(buf, pos, end)
    if not packet_id:  # MQTT-2.2.1-3
        raise malformed("packet identifier 0")
    return packet_id, pos


def _filter(buf: bytes, pos: int, end: int) -> tuple[str, int]:
    topic_filter, pos = read_string(buf, pos, end)
    if not topic_filter:  # MQTT-4.7.3-1
        raise malformed("a topic filter is empty")
    return topic_filter, pos


def _properties(buf: bytes, pos: int, end: int, version: int, packet_type: PacketType) -> tuple[Properties, int]:
    return decode_properties(buf, pos, end, packet_type) if version == 5 else (EMPTY, pos)


def _reason(code: int, valid: dict[int, ReasonCode], packet_type: PacketType) -> ReasonCode:
    reason = valid.get(code)
    if reason is None:  # 2.4: only the codes of that packet
        raise protocol_error(f"reason code 0x{code:02x} is not one of {packet_type.name}")
    return reason


def _check_end(pos: int, end: int) -> None:
    if pos != end:
        raise malformed(f"{end - pos} bytes after the packet's content")


PACKET_DECODERS: Final[dict[int, PacketDecoder]] = {
    PacketType.CONNECT: decode_connect,
    PacketType.CONNACK: _decode_connack,
    PacketType.PUBACK: _acknowledgement_decoder(PacketType.PUBACK, Puback),
    PacketType.PUBREC: _acknowledgement_decoder(PacketType.PUBREC, Pubrec),
    PacketType.PUBREL: _acknowledgement_decoder(PacketType.PUBREL, Pubrel),
    PacketType.PUBCOMP: _acknowledgement_decoder(PacketType.PUBCOMP, Pubcomp),
    PacketType.SUBSCRIBE: _decode_subscribe,
    PacketType.SUBACK: _decode_suback,
    PacketType.UNSUBSCRIBE: _decode_unsubscribe,
    PacketType.UNSUBACK: _decode_unsuback,
    PacketType.PINGREQ: _decode_pingreq,
    PacketType.PINGRESP: _decode_pingresp,
    PacketType.DISCONNECT: _decode_disconnect,
    PacketType.AUTH: _decode_auth,
}
