"""ServerConnection: the server's side of one AMQP connection, without the socket.

`receive_data` takes bytes and yields events; methods call for answers; `data_to_send` returns the bytes due.  Bad input
queues the right goodbye and ends in a `Closing` event: `connection.close` from the tuning on, nothing before it, as in
RabbitMQ.  A fault of one channel only ends in `ChannelClosed`.  After either, further input is dropped until the other
side has acknowledged the end.

ADR 6: machines without I/O.  Invariant: events come in the order of the bytes.
"""

from __future__ import annotations

from collections.abc import Iterator

from entrepot.protocols.amqp.connection_channels import ConnectionChannels
from entrepot.protocols.amqp.connection_events import (
    EARLY_MAX_BYTES,
    EARLY_MAX_FRAMES,
    ChannelClosed,
    Closed,
    Closing,
    ConnectionLimits,
    Event,
    Greeting,
    Login,
    LoginContinues,
    Method,
    Open,
)
from entrepot.protocols.amqp.decoder import Decoder, Frame, Item
from entrepot.protocols.amqp.errors import AmqpError, unexpected_frame
from entrepot.protocols.amqp.frames import FRAME_HEAD_BYTES, FRAME_OVERHEAD, HEARTBEAT_FRAME, METHOD, PROTOCOL_HEADER
from entrepot.protocols.amqp.handshake import Capabilities, capabilities_of, negotiate, offer, start
from entrepot.protocols.amqp.method_codec import AmqpMethod, decode_method
from entrepot.protocols.amqp.methods_connection import (
    ConnectionBlocked,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionSecure,
    ConnectionSecureOk,
    ConnectionStartOk,
    ConnectionTuneOk,
    ConnectionUnblocked,
    ConnectionUpdateSecret,
)
from entrepot.protocols.amqp.reply_codes import ReplyCode, reply_text

WAITING, STARTED, DECIDING_LOGIN, CHALLENGED, TUNING, OPENING, DECIDING_HOST = range(7)
OPEN, CLOSING, CLOSE_OWED, CLOSED = range(7, 11)
"""`CLOSING`: the client's close-ok is awaited; `CLOSE_OWED`: ours is due."""


class ServerConnection(ConnectionChannels):
    """The server's side of a connection (see the module).  Times are seconds of one monotonic clock."""

    __slots__ = (
        "_closing_until",
        "_decoder",
        "_early",
        "_early_frames",
        "_handshake_until",
        "_now",
        "_state",
        "capabilities",
        "greeting",
    )

    def __init__(self, limits: ConnectionLimits, greeting: Greeting, now: float) -> None:
        super().__init__(limits, now)
        self._decoder = Decoder(limits.handshake_frame_max, limits.max_message_size_bytes)
        self._state = WAITING
        self._early_frames = 0
        self._early = bytearray()  # bytes that came before the connection was open, not parsed yet
        self._now = now
        self._handshake_until = now + limits.handshake_timeout_seconds
        self._closing_until: float | None = None
        self.greeting = greeting
        self.capabilities = Capabilities()

    @property
    def is_open(self) -> bool:
        """True if a virtual host is open, and nothing has ended the connection since."""
        return self._state == OPEN

    @property
    def is_deciding(self) -> bool:
        """True if the caller owes an answer to `Login`, `LoginContinues` or `Open`."""
        return self._state in (DECIDING_LOGIN, DECIDING_HOST)

    @property
    def is_closed(self) -> bool:
        """True if the socket may be shut."""
        return self._state == CLOSED

    # -- input ---------------------------------------------------------------------------------------------------

    def receive_data(self, data: bytes, now: float) -> Iterator[Event]:
        """Yield the events of the client's bytes, in order; handle each event before the next is asked for.  Bytes that
        come before the caller's decision are kept, for `go_on` or the next call."""
        if self._state == CLOSED or not data:
            return
        self._now = self._heartbeats.heard = now
        if self._state >= OPEN and not self._early:
            yield from self._take_all(self._decoder.feed(data))
            return
        self._early += data
        yield from self.go_on()
        if len(self._early) > EARLY_MAX_BYTES and self._state < OPEN:
            yield self._violation(AmqpError(ReplyCode.RESOURCE_ERROR, "too much came before the connection was open"))

    def go_on(self) -> Iterator[Event]:
        """Yield the events of the bytes kept until the caller's decision."""
        while self._state < OPEN and not self.is_deciding:
            early = self._take_early()
            if not early:
                return
            self._early_frames += 1
            if self._early_frames > EARLY_MAX_FRAMES:
                yield self._violation(
                    AmqpError(ReplyCode.RESOURCE_ERROR, "too much came before the connection was open")
                )
                return
            if self._state > WAITING:
                yield from self._take_all(self._decoder.feed(early))
            elif early == PROTOCOL_HEADER:
                self._state = STARTED
                self._send(0, start(self.greeting))
            else:
                self._out.append(PROTOCOL_HEADER)
                yield self._drop(ReplyCode.FRAME_ERROR, "the client speaks another protocol or version")
        if self._state >= OPEN and self._early:
            early = bytes(self._early)
            self._early.clear()
            yield from self._take_all(self._decoder.feed(early))

    def _take_early(self) -> bytes:
        """Take the protocol header, or one frame of the handshake: each may change the limits of the next.  Empty if it
        is incomplete; the decoder refuses a frame that is too large."""
        early = self._early
        size = len(PROTOCOL_HEADER)
        if self._state > WAITING and len(early) >= FRAME_HEAD_BYTES:
            length = int.from_bytes(early[3:7], "big")
            size = FRAME_OVERHEAD + (length if length <= self._decoder.frame_max else 0)
        if len(early) < size:
            return b""
        taken = bytes(early[:size])
        del early[:size]
        return taken

    def _take_all(self, items: list[Item]) -> Iterator[Event]:
        for item in items:
            if self._state == CLOSED:
                return
            try:
                if isinstance(item, Frame):
                    event = self._take_frame(item)
                else:
                    event = self._take_run(item) if self._is_in_place() else None
            except AmqpError as violation:
                event = self._answer(violation, item.channel)
            if event is not None:
                yield event
        error = self._decoder.error
        if error is not None and self._state < CLOSING:
            yield self._violation(error)

    def _take_frame(self, item: Frame) -> Event | None:
        kind, number, payload = item
        if number:
            return self._take_channels_frame(item) if self._is_in_place() else None
        if self._state in (CLOSING, CLOSE_OWED):
            return self._take_end(kind, payload)
        if kind != METHOD:
            raise unexpected_frame("expected method frame, got non method frame instead")
        return self._take_connections_method(decode_method(payload))

    def _is_in_place(self) -> bool:
        """True if channel frames count now: after a close they are dropped, before opening they are an error."""
        if self._state < OPEN:
            raise AmqpError(ReplyCode.CHANNEL_ERROR, "the connection is not open")
        return self._state == OPEN

    # -- the connection ------------------------------------------------------------------------------------------

    def _take_connections_method(self, method: AmqpMethod) -> Event | None:
        state = self._state
        if isinstance(method, ConnectionClose) and state >= STARTED:
            self._drop_channels()
            self._state = CLOSE_OWED
            self._closing_until = None
            return Closing(method.reply_code, method.reply_text, is_clients=True)
        if state == OPEN and isinstance(method, ConnectionUpdateSecret):
            return Method(0, method)
        if state == STARTED and isinstance(method, ConnectionStartOk):
            self._state = DECIDING_LOGIN
            self.capabilities = capabilities_of(method.client_properties)
            return Login(method.mechanism, method.response, method.client_properties, method.locale)
        if state == CHALLENGED and isinstance(method, ConnectionSecureOk):
            self._state = DECIDING_LOGIN
            return LoginContinues(method.response)
        if state == TUNING and isinstance(method, ConnectionTuneOk):
            self.tuned = negotiate(self._limits, method)
            self.frame_max = self._decoder.frame_max = self.tuned.frame_max
            self._heartbeats.start(self.tuned.heartbeat_seconds, self._now)
            self._state = OPENING
            return None
        if state == OPENING and isinstance(method, ConnectionOpen):
            self._state = DECIDING_HOST
            return Open(method.virtual_host)
        text = f"unexpected method {method.name} on channel 0"
        raise AmqpError(ReplyCode.CHANNEL_ERROR, text, method.class_id, method.method_id)

    def _take_end(self, kind: int, payload: bytes) -> Event | None:
        """Take a frame on channel 0 after a close: only the end counts.  If both closed at once, nobody waits."""
        if kind != METHOD or self._state == CLOSE_OWED:
            return None
        try:
            method = decode_method(payload)
        except AmqpError:
            return None
        if isinstance(method, ConnectionClose):
            self._send(0, ConnectionCloseOk())
        elif not isinstance(method, ConnectionCloseOk):
            return None
        self._state = CLOSED
        return Closed()

    def challenge(self, challenge: bytes) -> None:
        """Continue the mechanism's exchange with a challenge."""
        if self._state == DECIDING_LOGIN:
            self._send(0, ConnectionSecure(challenge))
            self._state = CHALLENGED

    def authenticated(self) -> None:
        """Accept the login, and negotiate limits."""
        if self._state == DECIDING_LOGIN:
            self._send(0, offer(self._limits))
            self._state = TUNING

    def refuse(self, text: str, code: ReplyCode = ReplyCode.ACCESS_REFUSED) -> Closing:
        """Refuse the login or virtual host.  The client is told if it understands a close before tuning."""
        if self._state == DECIDING_LOGIN and self.capabilities.authentication_failure_close:
            self._state = TUNING
        return self._violation(AmqpError(code, text))

    def opened(self) -> None:
        """Accept the virtual host."""
        if self._state == DECIDING_HOST:
            self._send(0, ConnectionOpenOk())
            self._state = OPEN

    def block(self, reason: str) -> None:
        """Tell the client that publishing is blocked, if it understands that."""
        if self._state == OPEN and self.capabilities.connection_blocked:
            self._send(0, ConnectionBlocked(reason))

    def unblock(self) -> None:
        """Tell the client that publishing goes on."""
        if self._state == OPEN and self.capabilities.connection_blocked:
            self._send(0, ConnectionUnblocked())

    def answer(self, method: AmqpMethod) -> None:
        """Send a method of the connection itself, such as update-secret-ok."""
        if self._state == OPEN:
            self._send(0, method)

    def close(self, code: ReplyCode, text: str, class_id: int = 0, method_id: int = 0) -> Closing:
        """Close the connection from the server's side."""
        return self._violation(AmqpError(code, text, class_id, method_id))

    def close_ok(self) -> None:
        """Answer the client's close, once its channels are cleaned up."""
        if self._state == CLOSE_OWED:
            self._send(0, ConnectionCloseOk())
            self._state = CLOSED

    def _answer(self, error: AmqpError, number: int) -> Event:
        if not error.is_connections and number and self._state == OPEN:
            self._close_channel(number, error)
            return ChannelClosed(number, False, error.code, error.text)
        return self._violation(error)

    def _violation(self, error: AmqpError) -> Closing:
        """Queue the goodbye that fits the state, and close."""
        if self._state >= CLOSING:
            return Closing(error.code, error.text, is_final=self._state == CLOSED)
        if self._state < TUNING:
            return self._drop(error.code, error.text)
        self._send(0, ConnectionClose(error.code, reply_text(error.code, error.text), error.class_id, error.method_id))
        self._drop_channels()
        self._state = CLOSING
        return Closing(error.code, error.text)

    def _drop(self, code: ReplyCode, text: str) -> Closing:
        self._state = CLOSED
        self._forget()
        return Closing(code, text, is_final=True)

    # -- time ----------------------------------------------------------------------------------------------------

    def deadline(self) -> float:
        """The time at which to call `handle_timeout`; infinity for never.  Input, output and closing change it."""
        if self._state == CLOSED:
            return float("inf")
        if self._state in (CLOSING, CLOSE_OWED):
            return self._now if self._closing_until is None else self._closing_until
        due = self._heartbeats.deadline()
        return due if self._state == OPEN else min(due, self._handshake_until)

    def handle_timeout(self, now: float) -> list[Event]:
        """Send a heartbeat, or give up a client that is silent, slow to log in or slow to close."""
        if now < self.deadline() or self._state == CLOSED:
            return []
        self._now = now
        if self._state in (CLOSING, CLOSE_OWED):
            if self._closing_until is None:
                self._closing_until = now + self._limits.closing_timeout_seconds
                return []
            self._state = CLOSED
            return [Closed()]
        if self._state != OPEN and now >= self._handshake_until:
            return [self._drop(ReplyCode.CONNECTION_FORCED, "the connection was not opened in time")]
        if now >= self._heartbeats.gone_at():
            text = f"missed heartbeats from client, timeout: {self.tuned.heartbeat_seconds}s"
            return [self._drop(ReplyCode.CONNECTION_FORCED, text)]
        if self._heartbeats.is_due(now):
            self._out.append(HEARTBEAT_FRAME)
        return []

    def lost(self) -> None:
        """Note that the socket is gone."""
        self._state = CLOSED
        self._forget()

    def _forget(self) -> None:
        self._early.clear()
        self._decoder.drop()
        self._drop_channels()

    def note_alive(self, now: float) -> None:
        """Do not count the silence against the client: the server had stopped reading."""
        self._heartbeats.heard = now
