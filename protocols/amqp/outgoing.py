"""Outgoing: the output of one connection, in order of the calls.  Nothing is sent on a channel that is not open, so
callers need not know of a close a moment ago."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, cast

from entrepot.protocols.amqp.channel import OPEN, Channel
from entrepot.protocols.amqp.delivery import (
    ContentTemplate,
    content_pieces,
    deliver_frame,
    deliver_frames,
    get_ok_frame,
)
from entrepot.protocols.amqp.field_table import encode_short_string
from entrepot.protocols.amqp.frames import HEARTBEAT_FRAME, METHOD, frame, max_payload
from entrepot.protocols.amqp.heartbeats import Heartbeats
from entrepot.protocols.amqp.method_codec import AmqpMethod, encode_method
from entrepot.protocols.amqp.methods_basic import BasicReturn

SLICE_BYTES: Final = 1 << 20
"""Size of a slice of a large message, in bytes."""

CONSUMER_TAG_CACHE_ENTRIES: Final = 256
"""Size of the cache of encoded consumer tags of one connection; a full cache is cleared."""


class Outgoing:
    """The output of a connection (see the module)."""

    __slots__ = ("_channels", "_consumers", "_heartbeats", "_out", "frame_max", "is_slicing")

    def __init__(self, frame_max: int, now: float) -> None:
        self._out: list[bytes | memoryview] = []
        self.is_slicing = False
        """True while a large message is due: then `slice_to_send` gives its bytes."""
        self._channels: dict[int, Channel] = {}
        self._consumers: dict[str, bytes] = {}
        self._heartbeats = Heartbeats(now)
        self.frame_max = frame_max
        """The negotiated limit of whole frames."""

    def data_to_send(self) -> bytes:
        """Return the bytes due, maybe none."""
        out = self._out
        if not out:
            return b""
        data = out[0] if len(out) == 1 else b"".join(out)
        out.clear()
        self.is_slicing = False
        if data is not HEARTBEAT_FRAME:
            self._heartbeats.has_sent = True
        return cast("bytes", data)

    def slice_to_send(self) -> bytes:
        """Return about `SLICE_BYTES` of the bytes due."""
        size = count = 0
        while count < len(self._out) and size < SLICE_BYTES:
            size += len(self._out[count])
            count += 1
        data = b"".join(self._out[:count])
        del self._out[:count]
        self.is_slicing = bool(self._out)
        self._heartbeats.has_sent = True
        return data

    @property
    def pieces_due(self) -> int:
        """The number of pieces of output that are due: frames, or thirds of a large message's frames."""
        return len(self._out)

    def is_channel_open(self, channel: int) -> bool:
        """True if methods can be sent on the channel."""
        found = self._channels.get(channel)
        return found is not None and found.state == OPEN

    def send(self, channel: int, method: AmqpMethod) -> None:
        """Send a method without content.  Raises ValueError if it does not fit a frame."""
        if self.is_channel_open(channel):
            self._send(channel, method)

    def deliver_run(
        self, channel: int, consumer_tag: str, deliveries: Iterable[tuple[int, bool, ContentTemplate]]
    ) -> None:
        """Send messages to one consumer: delivery tag, redelivered and message of each.  Raises ValueError for
        properties beyond a frame; none of them is sent then."""
        if not self.is_channel_open(channel):
            return
        consumer = self._consumers.get(consumer_tag)
        if consumer is None:
            consumer = self._encode_consumer(consumer_tag)
        frame_max = self.frame_max
        self._out += [
            deliver_frames(channel, consumer, delivery_tag, redelivered, message, frame_max)
            for delivery_tag, redelivered, message in deliveries
        ]

    def deliver_large_run(
        self, channel: int, consumer_tag: str, deliveries: Iterable[tuple[int, bool, ContentTemplate]]
    ) -> None:
        """Send as `deliver_run` does, with large messages in slices."""
        for delivery_tag, redelivered, message in deliveries:
            if not message.is_large:
                self.deliver_run(channel, consumer_tag, ((delivery_tag, redelivered, message),))
            elif self.is_channel_open(channel):
                consumer = self._consumers.get(consumer_tag) or self._encode_consumer(consumer_tag)
                content = self._content(channel, message)
                self._out += (deliver_frame(channel, consumer, delivery_tag, redelivered, message), *content)

    def _content(self, channel: int, message: ContentTemplate) -> Sequence[bytes | memoryview]:
        """Return header and body frames.  Raises ValueError for properties beyond a frame."""
        if not message.is_large or not message.fits(self.frame_max):
            return (message.frames(channel, self.frame_max),)
        self.is_slicing = True
        return content_pieces(channel, message.properties, message.body, self.frame_max)

    def get_ok(
        self, channel: int, delivery_tag: int, redelivered: bool, message: ContentTemplate, message_count: int
    ) -> None:
        """Send the message of a basic.get; `message_count`: messages left."""
        if self.is_channel_open(channel):
            content = self._content(channel, message)
            self._out += (get_ok_frame(channel, delivery_tag, redelivered, message, message_count), *content)

    def return_(self, channel: int, reply_code: int, text: str, exchange: str, routing_key: str,
                message: ContentTemplate) -> None:  # fmt: skip
        """Return a mandatory message that could not be routed."""
        if self.is_channel_open(channel):
            content = self._content(channel, message)
            self._send(channel, BasicReturn(reply_code, text, exchange, routing_key))
            self._out += content

    def confirm(self, channel: int, tags: Sequence[int], *, is_nack: bool = False) -> None:
        """Confirm publishes of the channel, or nack lost ones.  Tags count from 1 since confirm.select, each once, in
        any order."""
        found = self._channels.get(channel)
        if found is not None and found.state == OPEN and tags:
            self._out.append(found.confirms.frames(channel, tags, is_nack=is_nack))

    def _encode_consumer(self, consumer_tag: str) -> bytes:
        if len(self._consumers) >= CONSUMER_TAG_CACHE_ENTRIES:
            self._consumers.clear()
        encoded = self._consumers[consumer_tag] = encode_short_string(consumer_tag)
        return encoded

    def _send(self, channel: int, method: AmqpMethod) -> None:
        payload = encode_method(method)
        if len(payload) > max_payload(self.frame_max):
            raise ValueError(f"{method.name} of {len(payload)} bytes in frames of {self.frame_max}")
        self._out.append(frame(METHOD, channel, payload))
