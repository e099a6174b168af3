"""Decoder: bytes of one connection to frames, with a fast path for messages and acknowledgements.

A publish whose method, header and one body are successive whole frames becomes a `Publish` at once, and a run of them
on one channel one `Publishes`; likewise acknowledgements.  Other input goes frame by frame to the channel, which
assembles it or reports its fault.
"""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple, TypeAlias

from entrepot.protocols.amqp.connection_events import ACK, NACK, REJECT, Acks, Publish, Publishes
from entrepot.protocols.amqp.content import received_header
from entrepot.protocols.amqp.errors import AmqpError, FrameError, unexpected_frame
from entrepot.protocols.amqp.frames import BODY, FRAME_END, FRAME_HEAD_BYTES, FRAME_OVERHEAD, HEADER, HEARTBEAT, METHOD
from entrepot.protocols.amqp.method_codec import decode_method
from entrepot.protocols.amqp.methods_basic import BasicPublish
from entrepot.protocols.amqp.reply_codes import ReplyCode
from entrepot.protocols.incremental import IncrementalDecoder

TARGET_CACHE_ENTRIES: Final = 4096
"""Size of the cache of decoded basic.publish arguments, shared by all connections; a full cache is cleared."""

TARGET_CACHE_MAX_BYTES: Final = 256
"""Longest cached arguments, so that the cache stays within a few MiB for any input."""

Target: TypeAlias = tuple[str, str, bool]
"""Exchange, routing key, mandatory."""

_targets: Final[dict[bytes, Target]] = {}

_BASIC_PUBLISH: Final = 60 << 16 | 40
_BASIC: Final = 60
_SETTLEMENTS: Final = frozenset((60 << 16 | ACK, 60 << 16 | REJECT, 60 << 16 | NACK))
_SETTLEMENT_SIZE: Final = 21
"""Size of a whole frame of ack, reject or nack."""

_head: Final = Struct(">BHI").unpack_from
_method_head: Final = Struct(">BHII").unpack_from
_content_head: Final = Struct(">BHIHHQ").unpack_from
_settlement: Final = Struct(">BHIIQBB").unpack_from
_u32: Final = Struct(">I").unpack_from

_LEAST_HEADER_FRAME: Final = 22
_KINDS: Final = frozenset((METHOD, HEADER, BODY, HEARTBEAT))


class Frame(NamedTuple):
    """A frame for the connection; heartbeats are not passed on."""

    kind: int
    channel: int
    payload: bytes


Item: TypeAlias = Frame | Publishes | Acks


class Decoder(IncrementalDecoder[Item, AmqpError]):
    """The decoder of a client's bytes after the protocol header.  `frame_max` may change between reads.
    `max_message_size_bytes`: larger messages go frame by frame."""

    __slots__ = ("_max_message", "frame_max")

    def __init__(self, frame_max: int, max_message_size_bytes: int) -> None:
        super().__init__(AmqpError)
        self.frame_max = frame_max
        self._max_message = max_message_size_bytes

    def _parse(self, data: bytes, items: list[Item]) -> tuple[int, int]:
        size, pos, limit = len(data), 0, self.frame_max
        while size - pos >= FRAME_OVERHEAD:
            kind, channel, length = _head(data, pos)
            if kind not in _KINDS:
                raise FrameError(f"unknown frame type {kind}")
            if length > limit:
                raise FrameError(f"a frame of {length + FRAME_OVERHEAD} bytes, frame_max is {limit}")
            end = pos + FRAME_HEAD_BYTES + length
            if end >= size:
                return pos, length + FRAME_OVERHEAD
            if data[end] != FRAME_END:
                raise FrameError(f"the frame end octet is 0x{data[end]:02x}")
            if kind == METHOD and length > 4 and channel:
                index = _u32(data, pos + FRAME_HEAD_BYTES)[0]
                before = pos
                if index == _BASIC_PUBLISH:
                    pos = self._take_publishes(data, pos, channel, items)
                elif index in _SETTLEMENTS:
                    pos = _take_settlements(data, pos, channel, items)
                if pos > before:
                    continue
            elif kind == HEARTBEAT:
                _check_heartbeat(channel, length)
                pos = end + 1
                continue
            items.append(Frame(kind, channel, data[pos + FRAME_HEAD_BYTES : end]))
            pos = end + 1
        return pos, FRAME_OVERHEAD

    def _take_publishes(self, data: bytes, pos: int, channel: int, items: list[Item]) -> int:
        """Append the run of whole messages at `pos`, if any; returns its end.  Invalid input ends the run, and is
        parsed again frame by frame."""
        size, limit, most = len(data), self.frame_max, self._max_message
        run: list[Publish] = []
        while size - pos > 11:
            kind, number, length, index = _method_head(data, pos)
            end = pos + 7 + length
            at = end + 1
            if index != _BASIC_PUBLISH or kind != METHOD or number != channel or size - at < _LEAST_HEADER_FRAME:
                break
            if length > limit or data[end] != FRAME_END:
                break
            kind, number, length, class_id, _, body_size = _content_head(data, at)
            header_end = at + 7 + length
            if kind != HEADER or number != channel or class_id != _BASIC or not 14 <= length <= limit:
                break
            if header_end >= size or data[header_end] != FRAME_END or body_size > most:
                break
            then = header_end + 1
            body = b""
            if body_size:
                if size - then < body_size + FRAME_OVERHEAD or body_size > limit:
                    break
                kind, number, length = _head(data, then)
                body_end = then + 7 + length
                if kind != BODY or number != channel or length != body_size or data[body_end] != FRAME_END:
                    break
                body = data[then + 7 : body_end]
                then = body_end + 1
            arguments = data[pos + 11 : end]
            try:
                exchange, routing_key, mandatory = _targets.get(arguments) or publish_target(arguments)
                header = received_header(data[at + 19 : header_end])
            except AmqpError:  # the channel finds it again, unless it is closed
                break
            if not run:
                items.append(Publishes(channel, run))
            run.append(Publish(exchange, routing_key, mandatory, header, body))
            pos = then
        return pos


def _take_settlements(data: bytes, pos: int, channel: int, items: list[Item]) -> int:
    """Append the run of acknowledgements at `pos`, if any; returns its end."""
    run: list[tuple[int, int, bool, bool]] = []
    last = len(data) - _SETTLEMENT_SIZE
    while pos <= last:
        kind, number, length, index, tag, bits, end = _settlement(data, pos)
        if kind != METHOD or number != channel or length != 13 or index not in _SETTLEMENTS or end != FRAME_END:
            break
        method_id = index & 0xFFFF
        if method_id == ACK:
            run.append((ACK, tag, bits & 1 == 1, False))
        elif method_id == NACK:
            run.append((NACK, tag, bits & 1 == 1, bits & 2 == 2))
        else:
            run.append((REJECT, tag, False, bits & 1 == 1))
        pos += _SETTLEMENT_SIZE
    if run:
        items.append(Acks(channel, run))
    return pos


def publish_target(arguments: bytes) -> Target:
    """Return exchange, routing key and mandatory of basic.publish.  NOT_IMPLEMENTED for `immediate`, as in RabbitMQ."""
    method = decode_method(b"\x00\x3c\x00\x28" + arguments)
    assert isinstance(method, BasicPublish)
    if method.immediate:
        raise AmqpError(ReplyCode.NOT_IMPLEMENTED, "immediate=true", method.class_id, method.method_id)
    target = (method.exchange, method.routing_key, method.mandatory)
    if len(arguments) <= TARGET_CACHE_MAX_BYTES:
        if len(_targets) >= TARGET_CACHE_ENTRIES:
            _targets.clear()
        _targets[arguments] = target
    return target


def _check_heartbeat(channel: int, length: int) -> None:
    if length:
        raise FrameError("a heartbeat with a payload")
    if channel:
        raise unexpected_frame(f"a heartbeat on channel {channel}")
