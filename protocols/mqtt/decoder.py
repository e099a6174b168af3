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

_REFUSED_FLAGS: Final = (-1, False, False)

_PUBLISH_FLAGS: Final[tuple[tuple[int, bool, bool], ...]] = tuple(
    # QoS 3 (MQTT-3.3.1-4) and DUP at QoS 0 (MQTT-3.3.1-2) are malformed
    _REFUSED_FLAGS if flags & 6 == 6 or flags & 14 == 8 else (flags >> 1 & 3, flags & 1 != 0, flags & 8 != 0)
    for flags in range(16)
)
"""QoS, RETAIN and DUP by the low four bits of PUBLISH's first byte (3.3.1)."""

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
        append, cached_topic, acks = items.append, _topics.get, _SHORT_ACKNOWLEDGEMENTS
        version, size, pos, needed = self.version, len(data), 0, 0
        most = self._max_connect_size
        limit = self.max_packet_size if version or most is None else most
        while size - pos > 1:
            first = data[pos]
            remaining = data[pos + 1]
            body = pos + 2
            if remaining > 127:
                if body < size and 0 < (high := data[body]) < 128:  # two bytes, the usual case
                    remaining += (high << 7) - 128
                    body += 1
                else:
                    remaining, body = read_varint_if_whole(data, pos + 1, size)
                    if body < 0:
                        break
            end = body + remaining
            if end - pos > limit:
                if not version:
                    self._note_version(data, first, body)
                raise MqttError(ReasonCode.PACKET_TOO_LARGE, f"{end - pos} bytes where {limit} are allowed")
            if end > size:
                _check_first_byte(first, version)
                needed = end - pos
                break
            if 0x30 <= first < 0x40 and version:
                qos, retain, dup = _PUBLISH_FLAGS[first & 15]
                if qos < 0 or remaining < 2:
                    raise malformed("PUBLISH with impossible flags or length")
                topic_end = body + 2 + (data[body] << 8 | data[body + 1])
                pos = topic_end + 2 if qos else topic_end
                if pos > end:
                    raise malformed("PUBLISH ends before its content does")
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
                end = pos + 4 * len(run.packet_ids)
            elif remaining == 2 and version and first in acks and (packet_id := data[body] << 8 | data[body + 1]):
                append(acks[first](packet_id))
            else:
                append(self._decode(data, first, body, end))
                if not version and most is not None:  # input after CONNECT waits for its answer
                    pos, needed = end, 1
                    break
                version = self.version
            pos = end
        return pos, needed or size - pos + 1

    def _note_version(self, data: bytes, first: int, body: int) -> None:
        """Note the version of a CONNECT that is too large, so that its refusal can be told."""
        with suppress(MqttError, IndexError):
            _check_first_byte(first, 0)
            self.version, _ = decode_protocol(data, body, len(data))

    def _decode(self, data: bytes, first: int, pos: int, end: int) -> Packet:
        """Decode a packet by its type; the first CONNECT sets the version, even one that is refused after its level."""
        _check_first_byte(first, self.version)
        packet_type = first >> 4
        if packet_type == PacketType.CONNECT and not self.version:
            self.version, _ = decode_protocol(data, pos, end)
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
        valid = _PUBLISH_FLAGS[flags][0] >= 0
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


def _publish_properties(data: bytes, pos: int, end: int, topic: str) -> tuple[Properties, int]:
    properties, pos = decode_properties(data, pos, end, PacketType.PUBLISH)
    if not topic and PropertyId.TOPIC_ALIAS not in properties:  # 3.3.2.1
        raise protocol_error("PUBLISH has neither a topic nor an alias for one")
    return properties, pos
