"""Properties (MQTT 5.0 section 2.2.2), with one table of their types, ranges and packets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum, IntEnum
from typing import Any, Final, NamedTuple, TypeAlias

from entrepot.domain.routing.topic_filter import is_name
from entrepot.protocols.mqtt.errors import MqttError, malformed, protocol_error
from entrepot.protocols.mqtt.packet_types import PacketType
from entrepot.protocols.mqtt.reason_codes import ReasonCode
from entrepot.protocols.mqtt.wire import (
    MAX_VARINT,
    read_binary,
    read_byte,
    read_string,
    read_string_pair,
    read_u16,
    read_u32,
    read_varint,
    write_binary,
    write_byte,
    write_string,
    write_string_pair,
    write_u16,
    write_u32,
    write_varint,
)


class PropertyId(IntEnum):
    """Property identifiers (table 2-4)."""

    PAYLOAD_FORMAT_INDICATOR = 0x01
    MESSAGE_EXPIRY_INTERVAL = 0x02
    CONTENT_TYPE = 0x03
    RESPONSE_TOPIC = 0x08
    CORRELATION_DATA = 0x09
    SUBSCRIPTION_IDENTIFIER = 0x0B
    SESSION_EXPIRY_INTERVAL = 0x11
    ASSIGNED_CLIENT_IDENTIFIER = 0x12
    SERVER_KEEP_ALIVE = 0x13
    AUTHENTICATION_METHOD = 0x15
    AUTHENTICATION_DATA = 0x16
    REQUEST_PROBLEM_INFORMATION = 0x17
    WILL_DELAY_INTERVAL = 0x18
    REQUEST_RESPONSE_INFORMATION = 0x19
    RESPONSE_INFORMATION = 0x1A
    SERVER_REFERENCE = 0x1C
    REASON_STRING = 0x1F
    RECEIVE_MAXIMUM = 0x21
    TOPIC_ALIAS_MAXIMUM = 0x22
    TOPIC_ALIAS = 0x23
    MAXIMUM_QOS = 0x24
    RETAIN_AVAILABLE = 0x25
    USER_PROPERTY = 0x26
    MAXIMUM_PACKET_SIZE = 0x27
    WILDCARD_SUBSCRIPTION_AVAILABLE = 0x28
    SUBSCRIPTION_IDENTIFIER_AVAILABLE = 0x29
    SHARED_SUBSCRIPTION_AVAILABLE = 0x2A


Properties: TypeAlias = Mapping[PropertyId, Any]
"""Values by identifier: int, str or bytes as in `PROPERTY_TABLE`.  USER_PROPERTY is a list of (name, value), and
SUBSCRIPTION_IDENTIFIER a list of int, even for one.  Reading checks the table, so `Any` is safe."""


class _NoProperties(dict[PropertyId, Any]):
    """The empty properties: hashable, as a dataclass default must be (a mapping proxy is not before Python 3.12)."""

    __slots__ = ()

    def __hash__(self) -> int:  # type: ignore[override]
        return id(self)

    def __setitem__(self, key: PropertyId, value: Any) -> None:
        raise TypeError("the shared empty properties are read-only")


EMPTY: Final[Properties] = _NoProperties()
"""The shared empty properties of packets; read-only."""


class PropertyType(Enum):
    """Reader and writer of each type of value (1.5)."""

    BYTE = (read_byte, write_byte)
    U16 = (read_u16, write_u16)
    U32 = (read_u32, write_u32)
    VARINT = (read_varint, write_varint)
    STRING = (read_string, write_string)
    BINARY = (read_binary, write_binary)
    STRING_PAIR = (read_string_pair, write_string_pair)


class PropertySpec(NamedTuple):
    """One row of the table.  `least` and `most` bound integers, and are ignored for other types."""

    id: PropertyId
    type: PropertyType
    packets: tuple[PacketType, ...]
    least: int = 0
    most: int = 0xFFFF_FFFF
    multiple: bool = False
    refusal: ReasonCode = ReasonCode.PROTOCOL_ERROR


_P: Final = PropertyId
_T: Final = PropertyType
_WILL, _CONNECT, _CONNACK, _PUBLISH = PacketType.WILL, PacketType.CONNECT, PacketType.CONNACK, PacketType.PUBLISH
_DISCONNECT, _AUTH = PacketType.DISCONNECT, PacketType.AUTH
_MESSAGE: Final = (_PUBLISH, _WILL)
_ANSWERS: Final = (
    *(_CONNACK, PacketType.PUBACK, PacketType.PUBREC, PacketType.PUBREL, PacketType.PUBCOMP),
    *(PacketType.SUBACK, PacketType.UNSUBACK, _DISCONNECT, _AUTH),
)
_EVERYWHERE: Final = (*_ANSWERS, *_MESSAGE, _CONNECT, PacketType.SUBSCRIBE, PacketType.UNSUBSCRIBE)

PROPERTY_TABLE: Final = (
    PropertySpec(_P.PAYLOAD_FORMAT_INDICATOR, _T.BYTE, _MESSAGE, most=1),
    PropertySpec(_P.MESSAGE_EXPIRY_INTERVAL, _T.U32, _MESSAGE),
    PropertySpec(_P.CONTENT_TYPE, _T.STRING, _MESSAGE),
    PropertySpec(_P.RESPONSE_TOPIC, _T.STRING, _MESSAGE),
    PropertySpec(_P.CORRELATION_DATA, _T.BINARY, _MESSAGE),
    # Several only in PUBLISH (3.3.2.3.8); `_rows` makes the exception for SUBSCRIBE.
    PropertySpec(_P.SUBSCRIPTION_IDENTIFIER, _T.VARINT, (_PUBLISH, PacketType.SUBSCRIBE), 1, MAX_VARINT, multiple=True),
    PropertySpec(_P.SESSION_EXPIRY_INTERVAL, _T.U32, (_CONNECT, _CONNACK, _DISCONNECT)),
    PropertySpec(_P.ASSIGNED_CLIENT_IDENTIFIER, _T.STRING, (_CONNACK,)),
    PropertySpec(_P.SERVER_KEEP_ALIVE, _T.U16, (_CONNACK,)),
    PropertySpec(_P.AUTHENTICATION_METHOD, _T.STRING, (_CONNECT, _CONNACK, _AUTH)),
    PropertySpec(_P.AUTHENTICATION_DATA, _T.BINARY, (_CONNECT, _CONNACK, _AUTH)),
    PropertySpec(_P.REQUEST_PROBLEM_INFORMATION, _T.BYTE, (_CONNECT,), most=1),
    PropertySpec(_P.WILL_DELAY_INTERVAL, _T.U32, (_WILL,)),
    PropertySpec(_P.REQUEST_RESPONSE_INFORMATION, _T.BYTE, (_CONNECT,), most=1),
    PropertySpec(_P.RESPONSE_INFORMATION, _T.STRING, (_CONNACK,)),
    PropertySpec(_P.SERVER_REFERENCE, _T.STRING, (_CONNACK, _DISCONNECT)),
    PropertySpec(_P.REASON_STRING, _T.STRING, _ANSWERS),
    PropertySpec(_P.RECEIVE_MAXIMUM, _T.U16, (_CONNECT, _CONNACK), least=1),
    PropertySpec(_P.TOPIC_ALIAS_MAXIMUM, _T.U16, (_CONNECT, _CONNACK)),
    PropertySpec(_P.TOPIC_ALIAS, _T.U16, (_PUBLISH,), least=1, refusal=ReasonCode.TOPIC_ALIAS_INVALID),
    PropertySpec(_P.MAXIMUM_QOS, _T.BYTE, (_CONNACK,), most=1),
    PropertySpec(_P.RETAIN_AVAILABLE, _T.BYTE, (_CONNACK,), most=1),
    PropertySpec(_P.USER_PROPERTY, _T.STRING_PAIR, _EVERYWHERE, multiple=True),
    PropertySpec(_P.MAXIMUM_PACKET_SIZE, _T.U32, (_CONNECT, _CONNACK), least=1),
    PropertySpec(_P.WILDCARD_SUBSCRIPTION_AVAILABLE, _T.BYTE, (_CONNACK,), most=1),
    PropertySpec(_P.SUBSCRIPTION_IDENTIFIER_AVAILABLE, _T.BYTE, (_CONNACK,), most=1),
    PropertySpec(_P.SHARED_SUBSCRIPTION_AVAILABLE, _T.BYTE, (_CONNACK,), most=1),
)

Reader: TypeAlias = Callable[[bytes, int, int], tuple[Any, int]]


class _Row(NamedTuple):
    """A specification compiled for reading.  `several`: the packet may carry the property more than once."""

    id: PropertyId
    read: Reader
    is_list: bool
    several: bool
    check: Callable[[Any], None] | None


def _check_of(spec: PropertySpec) -> Callable[[Any], None] | None:
    """Return a check of values that the type allows and the property does not; None without such values."""
    if spec.id is PropertyId.RESPONSE_TOPIC:
        return _check_response_topic
    widest = {PropertyType.BYTE: 0xFF, PropertyType.U16: 0xFFFF, PropertyType.U32: 0xFFFF_FFFF}
    greatest = widest.get(spec.type, MAX_VARINT if spec.type is PropertyType.VARINT else None)
    if greatest is None or (spec.least == 0 and spec.most >= greatest):
        return None

    def check(value: int) -> None:
        if not spec.least <= value <= spec.most:
            raise MqttError(spec.refusal, f"{spec.id.name} may not be {value}")

    return check


def _check_response_topic(value: str) -> None:
    if not is_name(value):  # MQTT-3.3.2-14
        raise protocol_error("response topic is not a topic name")


def _rows(packet_type: PacketType) -> dict[int, _Row]:
    rows: dict[int, _Row] = {}
    for spec in PROPERTY_TABLE:
        if packet_type in spec.packets:
            once = spec.id is PropertyId.SUBSCRIPTION_IDENTIFIER and packet_type is PacketType.SUBSCRIBE  # 3.8.2.1.2
            rows[spec.id] = _Row(
                spec.id, spec.type.value[0], spec.multiple, spec.multiple and not once, _check_of(spec)
            )
    return rows


_ROWS: Final[dict[PacketType, dict[int, _Row]]] = {packet_type: _rows(packet_type) for packet_type in PacketType}
_WRITERS: Final[dict[int, tuple[bytes, Callable[[Any], bytes], bool]]] = {
    spec.id: (bytes((spec.id,)), spec.type.value[1], spec.multiple) for spec in PROPERTY_TABLE
}
_AUTHENTICATION_DATA, _AUTHENTICATION_METHOD = _P.AUTHENTICATION_DATA, _P.AUTHENTICATION_METHOD


def decode_properties(buf: bytes, pos: int, end: int, packet_type: PacketType) -> tuple[Properties, int]:
    """Return the property list at `pos`, which begins with its length and is checked for its packet, and its end."""
    length, pos = read_varint(buf, pos, end)
    stop = pos + length
    if stop > end:
        raise malformed("properties run past the end of their packet")
    if not length:
        return EMPTY, pos
    properties: dict[PropertyId, Any] = {}
    rows = _ROWS[packet_type]
    while pos < stop:
        row = rows.get(buf[pos])
        if row is None:
            raise _refusal(buf[pos], packet_type)
        key, read, is_list, several, check = row
        value, pos = read(buf, pos + 1, stop)
        if check is not None:
            check(value)
        if key not in properties:
            properties[key] = [value] if is_list else value
        elif several:
            properties[key].append(value)
        else:
            raise protocol_error(f"{key.name} is given twice")
    if _AUTHENTICATION_DATA in properties and _AUTHENTICATION_METHOD not in properties:
        raise protocol_error("authentication data without a method")  # 3.1.2.11.10
    return properties, pos


def _refusal(first: int, packet_type: PacketType) -> MqttError:
    """Return the error of a refused property.  All identifiers have one byte, so longer ones are unknown too
    (2.2.2.2)."""
    if first not in _WRITERS:
        return malformed(f"unknown property 0x{first:02x}")
    return protocol_error(f"{PropertyId(first).name} is not allowed in {packet_type.name}")


def encode_properties(properties: Properties) -> bytes:
    """Return the property list with its length, in the mapping's order."""
    if not properties:
        return b"\0"
    out: list[bytes] = []
    for key, value in properties.items():
        identifier, write, multiple = _WRITERS[key]
        for item in value if multiple else (value,):
            out.append(identifier)
            out.append(write(item))
    body = b"".join(out)
    return write_varint(len(body)) + body
