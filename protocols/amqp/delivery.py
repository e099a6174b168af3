"""Messages on their way to clients: method, header and body frames in one piece.

A `ContentTemplate` is made once for each message.  The frames behind the method are the same for every consumer whose
channel and frame_max are: in a fan-out nearly all, so they are made once and handed out again.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from protocols.amqp.field_table import encode_short_string
from protocols.amqp.frames import BODY, FRAME_OVERHEAD, HEADER, frame, header_payload

_SMALL_HEAD: Final = Struct(">BHIHHQ").pack
_BODY_HEAD: Final = Struct(">BHI").pack
_DELIVER_HEAD: Final = Struct(">BHII").pack
_DELIVER_TAG: Final = Struct(">QB").pack
_DELIVER: Final = 60 << 16 | 60
_GET_OK: Final = 60 << 16 | 71
_GET_OK_TAIL: Final = Struct(">IB").pack


ROUTE_CACHE_ENTRIES: Final = 4096
"""Exchanges with routing keys that are kept encoded, by all connections together; all are forgotten when there is no
room.  Each has at most 513 bytes."""

_routes: Final[dict[tuple[str, str], bytes]] = {}


class ContentTemplate:
    """A message encoded once for many consumers.  `properties`: the bytes of its `ContentHeader`.  ValueError for names
    above 255 bytes."""

    __slots__ = ("_channel", "_frame_max", "_frames", "_properties", "body", "route_end")

    def __init__(self, exchange: str, routing_key: str, properties: bytes, body: bytes) -> None:
        self.route_end = _routes.get((exchange, routing_key)) or _encode_route(exchange, routing_key)
        """Exchange and routing key as arguments, and the end of a method frame behind them."""
        self._properties = properties
        self.body = body
        self._channel = -1
        self._frame_max = 0
        self._frames = b""

    def frames(self, channel: int, frame_max: int) -> bytes:
        """Header and bodies; bodies are cut where frame_max wants it.  ValueError as `content_frames`."""
        if channel == self._channel and frame_max == self._frame_max:
            return self._frames
        self._frames = content_frames(channel, self._properties, self.body, frame_max)
        self._channel, self._frame_max = channel, frame_max
        return self._frames


def _encode_route(exchange: str, routing_key: str) -> bytes:
    encoded = encode_short_string(exchange) + encode_short_string(routing_key) + b"\xce"
    if len(_routes) >= ROUTE_CACHE_ENTRIES:
        _routes.clear()
    _routes[exchange, routing_key] = encoded
    return encoded


def content_frames(channel: int, properties: bytes, body: bytes, frame_max: int) -> bytes:
    """Header and body frames of one message.  ValueError where the properties are beyond a frame: nothing cuts them."""
    size = len(body)
    most = frame_max - FRAME_OVERHEAD
    if len(properties) + 12 > most:
        raise ValueError(f"properties of {len(properties)} bytes in frames of {frame_max}")
    if 0 < size <= most:
        head = _SMALL_HEAD(HEADER, channel, len(properties) + 12, 60, 0, size)
        return b"%b%b\xce%b%b\xce" % (head, properties, _BODY_HEAD(BODY, channel, size), body)
    out = [frame(HEADER, channel, header_payload(properties, size))]
    out += [frame(BODY, channel, body[at : at + most]) for at in range(0, size, most)]
    return b"".join(out)


def deliver_frame(
    channel: int, consumer: bytes, delivery_tag: int, redelivered: bool, message: ContentTemplate
) -> bytes:
    """basic.deliver; `consumer`: the consumer tag as a short string."""
    end = message.route_end
    head = _DELIVER_HEAD(1, channel, len(consumer) + len(end) + 12, _DELIVER)
    return b"%b%b%b%b" % (head, consumer, _DELIVER_TAG(delivery_tag, redelivered), end)


def get_ok_frame(
    channel: int, delivery_tag: int, redelivered: bool, message: ContentTemplate, message_count: int
) -> bytes:
    """basic.get-ok; `message_count`: how many are left."""
    route = message.route_end[:-1]
    head = _DELIVER_HEAD(1, channel, len(route) + 17, _GET_OK)
    return head + _DELIVER_TAG(delivery_tag, redelivered) + route + _GET_OK_TAIL(message_count, 0xCE)
