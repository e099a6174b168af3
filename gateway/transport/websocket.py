"""WebSocketDriver: a conversation inside a WebSocket (RFC 6455; MQTT 5, section 6).

Invariant: the conversation sees the bytes of binary messages as one stream, whatever frames and messages they came in,
and never a byte of anything else.  Control frames are answered here: a ping is no sign of life to MQTT.
No extension is agreed on, so nothing is compressed.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import Final

import structlog
from wsproto.connection import Connection, ConnectionState, ConnectionType
from wsproto.events import (
    AcceptConnection,
    BytesMessage,
    CloseConnection,
    Ping,
    RejectConnection,
    Request,
    TextMessage,
)
from wsproto.frame_protocol import CloseReason
from wsproto.handshake import H11Handshake
from wsproto.utilities import LocalProtocolError, RemoteProtocolError

from gateway.driver import GOODBYE_SECONDS, Conversation, Driver
from gateway.transport.door import Door
from gateway.transport.intake import Place
from protocols.proxy import ProxyHeader

SUBPROTOCOLS: Final = ("mqtt", "mqttv3.1")
"""The first that a client offers is taken: MQTT's name since 3.1.1, and the one before."""
WRITE_FRAME_BYTES: Final = 64 * 1024
"""Largest frame sent: clients limit what they take as one."""
FAILED_SECONDS: Final = 1.0
"""How long a peer that broke the protocol may take to read why."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class WebSocketTerms:
    """What a listener asks of WebSocket clients."""

    path: str
    """What they must ask for; empty for anything."""
    origins: frozenset[str]
    """Origins whose pages may connect; empty for all.  Who sends none is no browser, and is not asked."""
    max_frame_bytes: int

    def refusal_of(self, request: Request) -> int:
        """The HTTP status of a refusal; 0 for none."""
        if self.path and request.target.partition("?")[0] != self.path:
            return 404
        if subprotocol_of(request) is None:
            return 400
        if self.origins:
            for name, value in request.extra_headers:
                if name == b"origin" and value.decode("latin-1").lower() not in self.origins:
                    return 403
        return 0


def subprotocol_of(request: Request) -> str | None:
    """The sub-protocol to speak with this client; None if it knows none of ours."""
    return next((name for name in SUBPROTOCOLS if name in request.subprotocols), None)


class WebSocketDriver(Driver):
    """One connection, from its HTTP request on."""

    __slots__ = ("_connection", "_frame_bytes", "_handshake", "_terms")

    def __init__(
        self,
        door: Door,
        terms: WebSocketTerms,
        conversation: Conversation,
        place: Place | None = None,
        header: ProxyHeader | None = None,
    ) -> None:
        super().__init__(door, conversation, place, header)
        self._terms = terms
        self._handshake: H11Handshake | None = H11Handshake(ConnectionType.SERVER)
        self._connection: Connection | None = None
        self._frame_bytes = 0

    def data_received(self, data: bytes) -> None:
        """Bytes from the socket: of the handshake first, then of frames."""
        if self._transport is None:
            return
        if self._connection is not None:
            self._take(self._connection, data)
        elif self._handshake is not None:
            self._shake_hands(self._handshake, data)

    # -- the handshake -------------------------------------------------------------------------------------------

    def _shake_hands(self, handshake: H11Handshake, data: bytes) -> None:
        try:
            handshake.receive_data(data)
        except RemoteProtocolError as error:
            hint = error.event_hint
            self._reject(handshake, hint if isinstance(hint, RejectConnection) else RejectConnection())
            return
        except ValueError:  # a host name that is none
            self._reject(handshake, RejectConnection(status_code=400))
            return
        for event in handshake.events():
            if isinstance(event, Request):
                self._answer(handshake, event)

    def _answer(self, handshake: H11Handshake, request: Request) -> None:
        status = self._terms.refusal_of(request)
        if status:
            self._reject(handshake, RejectConnection(status_code=status))
            return
        self._write(handshake.send(AcceptConnection(subprotocol=subprotocol_of(request))))
        self._connection = handshake.connection
        self._handshake = None  # several kilobytes that are not needed any more

    def _reject(self, handshake: H11Handshake, rejection: RejectConnection) -> None:
        rejection = replace(rejection, headers=[*rejection.headers, (b"connection", b"close")])
        self._handshake = None
        reason = f"WebSocket handshake refused with {rejection.status_code}"
        self._door.intake.refuse(reason, self.source.host, self._door.loop.time())
        try:
            self._write(handshake.send(rejection))
        except LocalProtocolError:  # what came was not HTTP at all
            self.abort()
            return
        super().close()

    # -- frames --------------------------------------------------------------------------------------------------

    def _take(self, connection: Connection, data: bytes) -> None:
        """The frames of one read: their data goes to the conversation as one piece."""
        is_open = connection.state is ConnectionState.OPEN
        if connection.state is ConnectionState.CLOSED:
            return
        connection.receive_data(data)
        parts: list[bytes] = []
        end: CloseConnection | None = None
        for event in connection.events():
            if isinstance(event, BytesMessage):
                self._frame_bytes += len(event.data)
                if self._frame_bytes > self._terms.max_frame_bytes:
                    end = CloseConnection(CloseReason.MESSAGE_TOO_BIG)
                    break
                if event.frame_finished:
                    self._frame_bytes = 0
                parts.append(bytes(event.data))
            elif isinstance(event, TextMessage):
                end = CloseConnection(CloseReason.UNSUPPORTED_DATA)
                break
            elif isinstance(event, Ping):
                if is_open and not self.is_congested:  # who does not read needs no pong
                    self._write(connection.send(event.response()))
            elif isinstance(event, CloseConnection):
                end = event
                break
        if is_open and parts and self._hand_over(b"".join(parts)):
            self.flush()
            self._look_at_unread()
        if end is not None:
            self._end(connection, end)

    def _end(self, connection: Connection, end: CloseConnection) -> None:
        """The peer closes, or has said what ends this connection at once."""
        if connection.state is ConnectionState.REMOTE_CLOSING:
            self._write(connection.send(end.response()))
        elif connection.state is ConnectionState.OPEN:
            self._write(connection.send(CloseConnection(end.code, end.reason)))
            self._connection = None  # what still comes is passed over: closing upon it would reset the connection
            self._door.loop.call_later(FAILED_SECONDS, self.abort)
            return
        super().close()

    # -- what conversations ask for ------------------------------------------------------------------------------

    def flush(self) -> None:
        """Write what is due, as binary messages."""
        data = self._conversation.data_to_send()
        connection = self._connection
        if not data or connection is None or connection.state is not ConnectionState.OPEN:
            return
        if len(data) <= WRITE_FRAME_BYTES:
            self._write(connection.send(BytesMessage(data)))
            return
        view = memoryview(data)
        pieces = (view[at : at + WRITE_FRAME_BYTES] for at in range(0, len(data), WRITE_FRAME_BYTES))
        self._write(b"".join(connection.send(BytesMessage(bytes(piece))) for piece in pieces))

    def close(self) -> None:
        """Write what is due, then the close frame; the peer's answer to it, or the time for it, ends the connection."""
        self.flush()
        connection, transport = self._connection, self._transport
        if transport is None:
            return
        if connection is None:
            super().close()
        elif connection.state is ConnectionState.OPEN:
            self._write(connection.send(CloseConnection(CloseReason.NORMAL_CLOSURE)))
            self.resume_reading()
            self._door.loop.call_later(GOODBYE_SECONDS, self.abort)

    def _write(self, data: bytes) -> None:
        if data and self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)


def upgraded(door: Door, terms: WebSocketTerms) -> type[asyncio.Protocol]:
    """What the HTTP door hands a connection over to that asks for WebSocket: called as uvicorn calls its own."""

    class Upgraded(WebSocketDriver):
        """It has its own place among the connections: uvicorn's state is none of its concern."""

        __slots__ = ()

        def __init__(self, **_of_uvicorn: object) -> None:
            super().__init__(door, terms, door.converse())

    return Upgraded
