"""The channels of one connection, and the dispatch of their frames.  A channel closed by one side is kept until the
other side acknowledges it; its frames are dropped meanwhile."""

from __future__ import annotations

from typing import Final

from entrepot.protocols.amqp import channel as channels
from entrepot.protocols.amqp import methods_topology  # noqa: F401 - declares the methods that come as events
from entrepot.protocols.amqp.channel import Channel
from entrepot.protocols.amqp.connection_events import (
    Acks,
    ChannelClosed,
    ChannelOpened,
    ConnectionLimits,
    Event,
    Method,
    Publishes,
)
from entrepot.protocols.amqp.decoder import Frame, publish_target
from entrepot.protocols.amqp.errors import AmqpError
from entrepot.protocols.amqp.frames import METHOD
from entrepot.protocols.amqp.handshake import Tuned
from entrepot.protocols.amqp.method_codec import AmqpMethod, decode_method
from entrepot.protocols.amqp.methods_connection import ChannelClose, ChannelCloseOk, ChannelOpen, ChannelOpenOk
from entrepot.protocols.amqp.outgoing import Outgoing
from entrepot.protocols.amqp.reply_codes import ReplyCode, reply_text

_PUBLISH: Final = b"\x00\x3c\x00\x28"
_CHANNEL_OPEN: Final = b"\x00\x14\x00\x0a"
_CHANNEL_CLOSE: Final = b"\x00\x14\x00\x28"
_CHANNEL_CLOSE_OK: Final = b"\x00\x14\x00\x29"
_CONNECTION_CLASS: Final = 10
_CHANNEL_CLASS: Final = 20
_BASIC_CLASS: Final = 60


class ConnectionChannels(Outgoing):
    """The channels of a connection (see the module).  Errors are raised; the caller checks that the connection is
    open."""

    __slots__ = ("_limits", "incomplete_bytes", "tuned")

    def __init__(self, limits: ConnectionLimits, now: float) -> None:
        super().__init__(limits.frame_max, now)
        self._limits = limits
        self.incomplete_bytes = 0
        """Bytes of messages that have come in part, of all channels."""
        self.tuned = Tuned(limits.channel_max, limits.frame_max, 0)
        """The limits in force; the server's until the client has answered."""

    def _take_run(self, run: Publishes | Acks) -> Event | None:
        channel = self._channels.get(run.channel)
        if channel is None:
            raise _not_open(_BASIC_CLASS, 40 if isinstance(run, Publishes) else run.settlements[0][0])
        if channel.state != channels.OPEN:
            return None
        channel.check_idle()
        return run

    def _take_channels_frame(self, item: Frame) -> Event | None:
        kind, number, payload = item
        channel = self._channels.get(number)
        if channel is None:
            return self._open_channel(number, kind, payload)
        if channel.state != channels.OPEN:
            return self._take_of_closed(number, channel, payload if kind == METHOD else b"")
        if kind != METHOD:
            return self._take_content(number, channel, kind, payload)
        channel.check_idle()
        if payload.startswith(_PUBLISH):
            channel.begin(publish_target(payload[4:]))
            return None
        return self._take_channels_method(number, channel, decode_method(payload))

    def close_channel(self, channel: int, error: AmqpError) -> None:
        """Close a channel from the server's side: its further frames are dropped until the client knows."""
        if self.is_channel_open(channel):
            self._close_channel(channel, error)

    def close_channel_ok(self, channel: int) -> None:
        """Answer the client's close of a channel, once it is cleaned up: the number is free again."""
        found = self._channels.get(channel)
        if found is not None and found.state == channels.CLOSE_OWED:
            self._send(channel, ChannelCloseOk())
            del self._channels[channel]

    def _close_channel(self, number: int, error: AmqpError) -> None:
        self._end_channel(self._channels[number], channels.CLOSING)
        text = reply_text(error.code, error.text)
        self._send(number, ChannelClose(error.code, text, error.class_id, error.method_id))

    def _drop_channels(self) -> None:
        self._channels.clear()
        self.incomplete_bytes = 0

    def _end_channel(self, channel: Channel, state: int) -> None:
        self.incomplete_bytes -= channel.assembled
        channel.close(state)

    def _open_channel(self, number: int, kind: int, payload: bytes) -> Event | None:
        if kind != METHOD:
            raise _not_open(0)
        if not payload.startswith(_CHANNEL_OPEN):
            method = decode_method(payload)
            raise _not_open(method.class_id, method.method_id)
        decode_method(payload)
        most = self.tuned.channel_max
        if most and len(self._channels) >= most:
            text = f"number of channels opened ({most}) has reached the negotiated channel_max ({most})"
            raise AmqpError(ReplyCode.NOT_ALLOWED, text, _CHANNEL_CLASS, ChannelOpen.method_id)
        self._channels[number] = Channel()
        self._send(number, ChannelOpenOk())
        return ChannelOpened(number)

    def _take_of_closed(self, number: int, channel: Channel, payload: bytes) -> Event | None:
        """Take a frame of a closing channel: only its end counts."""
        if channel.state == channels.CLOSE_OWED:
            return None
        if payload.startswith(_CHANNEL_CLOSE_OK):
            del self._channels[number]
        elif payload.startswith(_CHANNEL_CLOSE):
            self._send(number, ChannelCloseOk())
            channel.state = channels.REOPENABLE
        elif payload.startswith(_CHANNEL_OPEN) and channel.state == channels.REOPENABLE:
            del self._channels[number]
            return self._open_channel(number, METHOD, payload)
        return None

    def _take_content(self, number: int, channel: Channel, kind: int, payload: bytes) -> Event | None:
        before = channel.assembled
        publish = channel.take_content(kind, payload, self._limits.max_message_size_bytes)
        self.incomplete_bytes += channel.assembled - before
        if self.incomplete_bytes > self._limits.max_assembly_bytes:
            raise AmqpError(ReplyCode.RESOURCE_ERROR, "too many messages have come in part", _BASIC_CLASS, 40)
        return None if publish is None else Publishes(number, [publish])

    def _take_channels_method(self, number: int, channel: Channel, method: AmqpMethod) -> Event | None:
        if isinstance(method, ChannelClose):
            self._end_channel(channel, channels.CLOSE_OWED)
            return ChannelClosed(number, True, method.reply_code, method.reply_text)
        if isinstance(method, ChannelOpen):
            text = "second 'channel.open' seen"
            raise AmqpError(ReplyCode.CHANNEL_ERROR, text, method.class_id, method.method_id)
        if method.class_id == _CONNECTION_CLASS or not method.is_clients or isinstance(method, ChannelCloseOk):
            raise AmqpError(ReplyCode.COMMAND_INVALID, "unimplemented method", method.class_id, method.method_id)
        return Method(number, method)


def _not_open(class_id: int, method_id: int = 0) -> AmqpError:
    return AmqpError(ReplyCode.CHANNEL_ERROR, "expected 'channel.open'", class_id, method_id)
