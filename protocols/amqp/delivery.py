"""Messages to clients: method, header and body frames in one piece.  One format call makes the three frames of a
message of usual size."""

from __future__ import annotations

from struct import Struct
from typing import Final

from entrepot.protocols.amqp.field_table import encode_short_string
from entrepot.protocols.amqp.frames import BODY, CONTENT_HEAD_BYTES, FRAME_OVERHEAD, HEADER, frame, header_payload

_SMALL_HEAD: Final = Struct(">BHIHHQ").pack
_BODY_HEAD: Final = Struct(">BHI").pack
_DELIVER_HEAD: Final = Struct(">BHII").pack
_DELIVER_TAG: Final = Struct(">QB").pack
_DELIVER: Final = 60 << 16 | 60
_GET_OK: Final = 60 << 16 | 71
_GET_OK_TAIL: Final = Struct(">IB").pack


LARGE_BODY: Final = 1 << 20
"""Size of a body, in bytes, from which it leaves in slices."""

ROUTE_CACHE_ENTRIES: Final = 4096
"""Size of the cache of encoded exchanges and routing keys, shared by all connections; a full cache is cleared.  Each
entry has at most 513 bytes."""

_routes: Final[dict[tuple[str, str], bytes]] = {}


class ContentTemplate:
    """A message to a consumer.  `route_end`: exchange and routing key as arguments, with the end of a method frame.
    `properties`: the bytes of its `ContentHeader`."""

    __slots__ = ("body", "properties", "route_end")

    def __init__(self, route_end: bytes, properties: bytes, body: bytes) -> None:
        self.route_end = route_end
        self.properties = properties
        self.body = body

    def fits(self, frame_max: int) -> bool:
        """True if its header fits a frame; bodies are cut."""
        return len(self.properties) + CONTENT_HEAD_BYTES + FRAME_OVERHEAD <= frame_max

    @property
    def is_large(self) -> bool:
        """True if its body is to leave in slices."""
        return len(self.body) >= LARGE_BODY

    def frames(self, channel: int, frame_max: int) -> bytes:
        """Return header and body frames; bodies are cut to frame_max.  Raises as `content_frames`."""
        return content_frames(channel, self.properties, self.body, frame_max)


def content_template(exchange: str, routing_key: str, properties: bytes, body: bytes) -> ContentTemplate:
    """Return the template by names.  Raises ValueError for names above 255 bytes."""
    return ContentTemplate(route_end(exchange, routing_key), properties, body)


def route_end(exchange: str, routing_key: str) -> bytes:
    """Return `ContentTemplate.route_end` of names.  Raises ValueError for names above 255 bytes."""
    encoded = _routes.get((exchange, routing_key))
    if encoded is None:
        encoded = encode_short_string(exchange) + encode_short_string(routing_key) + b"\xce"
        if len(_routes) >= ROUTE_CACHE_ENTRIES:
            _routes.clear()
        _routes[exchange, routing_key] = encoded
    return encoded


def content_frames(channel: int, properties: bytes, body: bytes, frame_max: int) -> bytes:
    """Return header and body frames of a message.  Raises ValueError for properties beyond a frame, which cannot be
    cut."""
    size = len(body)
    most = frame_max - FRAME_OVERHEAD
    if len(properties) + CONTENT_HEAD_BYTES > most:
        raise ValueError(f"properties of {len(properties)} bytes in frames of {frame_max}")
    if 0 < size <= most:
        head = _SMALL_HEAD(HEADER, channel, len(properties) + CONTENT_HEAD_BYTES, 60, 0, size)
        return b"%b%b\xce%b%b\xce" % (head, properties, _BODY_HEAD(BODY, channel, size), body)
    return b"".join(content_pieces(channel, properties, body, frame_max))


def content_pieces(channel: int, properties: bytes, body: bytes, frame_max: int) -> list[bytes | memoryview]:
    """Return header and body frames in pieces that share the body's memory.  The caller knows that the header fits."""
    most, view = frame_max - FRAME_OVERHEAD, memoryview(body)
    pieces: list[bytes | memoryview] = [frame(HEADER, channel, header_payload(properties, len(body)))]
    for at in range(0, len(body), most):
        part = view[at : at + most]
        pieces += (_BODY_HEAD(BODY, channel, len(part)), part, b"\xce")
    return pieces


def deliver_frame(
    channel: int, consumer: bytes, delivery_tag: int, redelivered: bool, message: ContentTemplate
) -> bytes:
    """Return basic.deliver without its content."""
    head = _DELIVER_HEAD(1, channel, len(consumer) + len(message.route_end) + 12, _DELIVER)
    return b"%b%b%b%b" % (head, consumer, _DELIVER_TAG(delivery_tag, redelivered), message.route_end)


def deliver_frames(
    channel: int, consumer: bytes, delivery_tag: int, redelivered: bool, message: ContentTemplate, frame_max: int
) -> bytes:
    """Return basic.deliver and its content.  `consumer`: its tag as a short string.  Raises as `content_frames`."""
    end, properties, body = message.route_end, message.properties, message.body
    size = len(body)
    most = frame_max - FRAME_OVERHEAD
    if 0 < size <= most and len(properties) + CONTENT_HEAD_BYTES <= most:
        return b"%b%b%b%b%b%b\xce%b%b\xce" % (
            _DELIVER_HEAD(1, channel, len(consumer) + len(end) + 12, _DELIVER),
            consumer,
            _DELIVER_TAG(delivery_tag, redelivered),
            end,
            _SMALL_HEAD(HEADER, channel, len(properties) + CONTENT_HEAD_BYTES, 60, 0, size),
            properties,
            _BODY_HEAD(BODY, channel, size),
            body,
        )
    content = content_frames(channel, properties, body, frame_max)
    return deliver_frame(channel, consumer, delivery_tag, redelivered, message) + content


def get_ok_frame(
    channel: int, delivery_tag: int, redelivered: bool, message: ContentTemplate, message_count: int
) -> bytes:
    """Return basic.get-ok; `message_count`: messages left."""
    route = message.route_end[:-1]
    head = _DELIVER_HEAD(1, channel, len(route) + 17, _GET_OK)
    return head + _DELIVER_TAG(delivery_tag, redelivered) + route + _GET_OK_TAIL(message_count, 0xCE)
