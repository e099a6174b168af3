"""Decoder: bytes of one connection to packets.  A loop reads PUBLISH and acknowledgements in place, tables the rest."""

from __future__ import annotations

from contextlib import suppress
from struct import unpack_from
from typing import Final

from entrepot.domain.routing.topic_filter import is_valid_name
from entrepot.protocols.incremental import IncrementalDecoder
from entrepot.protocols.mqtt.encoder import MAX_PACKET_ID, PUBACK_WORD
from entrepot.protocols.mqtt.errors import MqttError, malformed, protocol_error
from entrepot.protocols.mqtt.packet_decoders import PACKET_DECODERS, decode_protocol
from entrepot.protocols.mqtt.packet_types import PacketType
from entrepot.protocols.mqtt.packets import Acknowledgement, Packet, Puback, Pubacks, Pubcomp, Publish, Pubrec, Pubrel
from entrepot.protocols.mqtt.properties import EMPTY, Properties, PropertyId, decode_properties
from entrepot.protocols.mqtt.reason_codes import ReasonCode
from entrepot.protocols.mqtt.wire import decode_text, read_varint_if_whole

TOPIC_CACHE_ENTRIES: Final = 4096
"""Size of the cache of validated topic names, shared by all connections; a full cache is cleared."""

TOPIC_CACHE_MAX_BYTES: Final = 256
"""Longest cached name, so that the cache stays within a few MiB for any input."""

_topics: Final[dict[bytes, str]] = {}

_PUBLISH_FLAGS: Final[tuple[tuple[int, bool, bool] | None, ...]] = tuple(
    # QoS 3 (MQTT-3.3.1-4) and DUP at QoS 0 (MQTT-3.3.1-2) are malformed
    None
    if first >> 4 != PacketType.PUBLISH or first & 6 == 6 or first & 14 == 8
    else (first >> 1 & 3, first & 1 != 0, first & 8 != 0)
    for first in range(256)
)
"""QoS, RETAIN and DUP by PUBLISH's first byte (3.3.1); None for other packets, and for flags that are malformed."""

_SHORT_ACKNOWLEDGEMENTS: Final[dict[int, type[Acknowledgement]]] = {
    0x40: Puback,
    0x50: Pubrec,
    0x62: Pubrel,
    0x70: Pubcomp,
}
"""Acknowledgements by first byte, with a content of two bytes, which in version 5 means success (3.4.2.1)."""

_FLAGS_0010: Final = frozenset((PacketType.PUBREL, PacketType.SUBSCRIBE, PacketType.UNSUBSCRIBE))
"""Packets whose flags are 0010 instead of 0000 (2.1.3)."""


class Decoder(IncrementalDecoder[Packet, MqttError]):
    """The decoder of one direction of one connection.

    `version` is 0 until CONNECT names it; give it to read a server's packets.  `gathers`: several successive PUBACKs of
    success become one `Pubacks`.  `max_connect_size`, for a server: limit of the first packet, which anybody may send.
    Input after that packet waits for the next `feed`.
    """

    __slots__ = ("_gathers", "_max_connect_size", "max_packet_size", "version")

    def __init__(
        self, max_packet_size: int, version: int = 0, *, gathers: bool = False, max_connect_size: int | None = None
    ) -> None:
        super().__init__(MqttError)
        self._gathers = gathers
        self.max_packet_size = max_packet_size
        self._max_connect_size = max_connect_size
        self.version = version

    @property
    def kept(self) -> int:
        """Bytes kept here: an incomplete packet, or unparsed input."""
        return 0 if self._partial is None else len(self._partial)

    def keep(self, data: bytes) -> None:
        """Keep bytes without parsing them; `feed` parses them."""
        if self._partial is None:
            self._partial, self._needed = bytearray(), 0
        self._partial += data

    def _parse(self, data: bytes, items: list[Packet]) -> tuple[int, int]:
        """A usual PUBLISH costs no call but its own."""
        pos, size = 0, len(data)
        if not self.version:
            pos, needed = self._parse_first(data, size, items)
            if needed:
                return pos, needed
        version, limit = self.version, self.max_packet_size
        append, cached_topic, acks = items.append, _topics.get, _SHORT_ACKNOWLEDGEMENTS
        while size - pos > 1:
            first, remaining, body = data[pos], data[pos + 1], pos + 2
            if remaining > 127:
                if body < size and 0 < (high := data[body]) < 128:  # two bytes, the usual case
                    remaining, body = remaining + (high << 7) - 128, body + 1
                else:
                    remaining, body = read_varint_if_whole(data, pos + 1, size)
                    if body < 0:
                        break
            end = body + remaining
            if end - pos > limit:
                raise _too_large(end - pos, limit)
            if end > size:
                _check_first_byte(first, version)
                return pos, end - pos
            if remaining > 1 and (flags := _PUBLISH_FLAGS[first]):
                qos, retain, dup = flags
                topic_end = body + 2 + (data[body] << 8 | data[body + 1])
                pos = topic_end + 2 if qos else topic_end
                if pos > end:
                    raise _cut_short()
                packet_id = data[topic_end] << 8 | data[topic_end + 1] if qos else 0
                if qos and not packet_id:
                    raise malformed("PUBLISH with packet identifier 0")  # MQTT-2.2.1-3
                topic = cached_topic(raw := data[body + 2 : topic_end]) or _topic(raw, version)
                properties = EMPTY
                if version == 5:
                    if topic and pos < end and not data[pos]:
                        pos += 1
                    else:
                        properties, pos = _publish_properties(data, pos, end, topic)
                append(Publish(topic, data[pos:end], qos, packet_id, retain, dup, properties))
            elif first == 0x40 and self._gathers and (run := _puback_run(data, pos, size)) is not None:
                append(run)
                end = size
            elif remaining == 2 and first in acks and (packet_id := data[body] << 8 | data[body + 1]):
                append(acks[first](packet_id))
            else:
                append(self._decode(data, first, body, end))
            pos = end
        return pos, size - pos + 1

    def _parse_first(self, data: bytes, size: int, items: list[Packet]) -> tuple[int, int]:
        """Parse CONNECT, within the limit of its own.  Returns as `_parse`, with the size 0 where that goes on."""
        most = self._max_connect_size
        limit = self.max_packet_size if most is None else most
        remaining, body = read_varint_if_whole(data, 1, size)
        if body < 0:
            return 0, size + 1
        first, end = data[0], body + remaining
        if end > limit:
            with suppress(MqttError, IndexError):  # its refusal is told in its version
                _check_first_byte(first, 0)
                self.version, _ = decode_protocol(data, body, size)
            raise _too_large(end, limit)
        if end > size:
            _check_first_byte(first, 0)
            return 0, end
        items.append(self._decode(data, first, body, end))
        return end, 0 if most is None else 1  # input after CONNECT waits for its answer

    def _decode(self, data: bytes, first: int, pos: int, end: int) -> Packet:
        """Decode a packet by its type; the first CONNECT sets the version, even one that is refused after its level."""
        _check_first_byte(first, self.version)
        packet_type = first >> 4
        if packet_type == PacketType.CONNECT and not self.version:
            self.version, _ = decode_protocol(data, pos, end)
        if packet_type == PacketType.PUBLISH:  # too short for the loop
            raise _cut_short()
        return PACKET_DECODERS[packet_type](data, pos, end, self.version)


def _puback_run(data: bytes, pos: int, size: int) -> Pubacks | None:
    """Return the PUBACKs of success from `pos` on, if there are several and nothing else is in `data`."""
    count = (size - pos) >> 2
    if count < 2 or (size - pos) & 3 or data[size - 4] != 0x40:
        return None
    words = unpack_from(f"!{count}I", data, pos)
    packet_ids = [word - PUBACK_WORD for word in words]
    return Pubacks(packet_ids) if min(packet_ids) > 0 and max(packet_ids) <= MAX_PACKET_ID else None


def _check_first_byte(first: int, version: int) -> None:
    """Check type and flags (2.1.2, 2.1.3), so that a bad packet is refused before its rest has come."""
    packet_type, flags = first >> 4, first & 15
    if not version and packet_type != PacketType.CONNECT:  # MQTT-3.1.0-1
        raise protocol_error("the first packet is not CONNECT")
    if packet_type == PacketType.PUBLISH:
        valid = _PUBLISH_FLAGS[first] is not None
    elif packet_type in _FLAGS_0010:
        valid = flags == 2 or (flags == 10 and version == 3)  # 3.1 sets DUP on packets sent again
    else:
        valid = not flags and packet_type in PACKET_DECODERS
    if not valid:
        raise malformed(f"first byte 0x{first:02x}")


def _topic(raw: bytes, version: int) -> str:
    """Validate a topic and cache it; empty only where an alias may stand for it."""
    if not raw:
        if version == 5:
            return ""
        raise malformed("PUBLISH topic is empty")  # 3.1.1: MQTT-4.7.3-1
    topic = decode_text(raw)
    if not is_valid_name(topic):  # MQTT-3.3.2-2
        raise MqttError(ReasonCode.TOPIC_NAME_INVALID, "PUBLISH topic is not a topic name")
    if len(raw) <= TOPIC_CACHE_MAX_BYTES:
        if len(_topics) >= TOPIC_CACHE_ENTRIES:
            _topics.clear()
        _topics[raw] = topic
    return topic


def _too_large(size: int, limit: int) -> MqttError:
    return MqttError(ReasonCode.PACKET_TOO_LARGE, f"{size} bytes where {limit} are allowed")


def _cut_short() -> MqttError:
    return malformed("PUBLISH ends before its content does")


def _publish_properties(data: bytes, pos: int, end: int, topic: str) -> tuple[Properties, int]:
    properties, pos = decode_properties(data, pos, end, PacketType.PUBLISH)
    if not topic and PropertyId.TOPIC_ALIAS not in properties:  # 3.3.2.1
        raise protocol_error("PUBLISH has neither a topic nor an alias for one")
    return properties, pos
