"""WebSocketDriver: a conversation inside a WebSocket (RFC 6455; MQTT 5, section 6).

Invariant: the conversation sees the bytes of binary messages as one stream, whatever their frames, and never any other
byte. Control frames are answered here: a ping is not a sign of life to MQTT. No extension is agreed on, so nothing is
compressed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Final

import h11
import structlog
from wsproto.connection import Connection, ConnectionState, ConnectionType
from wsproto.events import (
    AcceptConnection,
    BytesMessage,
    CloseConnection,
    Event,
    Ping,
    RejectConnection,
    Request,
    TextMessage,
)
from wsproto.frame_protocol import CloseReason
from wsproto.handshake import H11Handshake
from wsproto.utilities import LocalProtocolError, RemoteProtocolError

from entrepot.gateway.transport.driver import GOODBYE_SECONDS, Conversation, Driver, ListenerTerms
from entrepot.gateway.transport.http_requests import authority_and_target, websocket_headers, with_host
from entrepot.gateway.transport.intake import Place
from entrepot.gateway.transport.source import PROXY_HEADER
from entrepot.gateway.transport.web_origin import WebOrigins
from entrepot.protocols.proxy import ProxyHeader

SUBPROTOCOLS: Final = ("mqtt", "mqttv3.1")
"""Sub-protocols, of which the client's first is taken: MQTT's name since 3.1.1, and the one before."""
WRITE_FRAME_BYTES: Final = 64 * 1024
"""Largest frame sent: clients limit the size of one."""
FRAMES_PER_TURN: Final = 64
"""Frames of one connection taken before others have their turn: one costs about 30 us, however small."""
EARLY_MAX_FRAMES: Final = 2048
"""Frames before the login: a CONNECT may come in many pieces, but not in empty ones for ever."""
FAILED_SECONDS: Final = 1.0
"""Longest time for a peer that broke the protocol to read why."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class WebSocketTerms:
    """A listener's conditions for WebSocket clients."""

    path: str
    """Path to ask for; empty for any."""
    origins: WebOrigins
    max_frame_bytes: int
    takes_anonymous: Callable[[str], bool] = lambda source: True
    """True if clients from an address may come in without a user: then they must ask by a name of ours."""

    def refusal_of(self, request: Request, source: str) -> int:
        """The HTTP status of a refusal, or 0; `source` is the client's address."""
        if self.path and request.target.partition("?")[0] != self.path:
            return 404
        if subprotocol_of(request) is None:
            return 400
        headers = [(b"host", request.host.encode("latin-1", "replace")), *request.extra_headers]
        if self.origins.foreign_page(headers) is not None:
            return 403
        if self.takes_anonymous(source) and not self.origins.knows_host(headers):
            return 421
        return 0


def forget_frames(connection: Connection) -> None:
    """Free a partial frame after the socket is gone: wsproto's parser is a reference cycle, which would wait for a
    garbage collection."""
    connection._proto._parse_more.close()


def subprotocol_of(request: Request) -> str | None:
    """The sub-protocol to speak with this client; None if it knows none of ours."""
    return next((name for name in SUBPROTOCOLS if name in request.subprotocols), None)


class Handshake(H11Handshake):
    """The server's side of a handshake, strict on what may ask for a WebSocket."""

    @property
    def has_early_frames(self) -> bool:
        """True if bytes came after the request: a client must wait for the answer (RFC 6455 4.1)."""
        return bool(self._h11_connection.trailing_data[0])

    def _process_connection_request(self, event: h11.Request) -> Request:
        """Take a request. Raises RemoteProtocolError with the refusal."""
        headers = websocket_headers(event.method, event.http_version.decode(), event.headers)
        if headers is None:
            raise RemoteProtocolError("This is not a request for a WebSocket", event_hint=RejectConnection())
        target = event.target
        found = authority_and_target(target)
        if found is not None:
            headers, target = with_host(headers, found[0]), found[1]
        return super()._process_connection_request(h11.Request(method=event.method, target=target, headers=headers))


class WebSocketDriver(Driver):
    """One connection, from its HTTP request on."""

    __slots__ = ("_connection", "_early_frames", "_frame_bytes", "_handshake", "_websocket")

    def __init__(
        self,
        terms: ListenerTerms,
        websocket: WebSocketTerms,
        conversation: Conversation,
        place: Place | None = None,
        header: ProxyHeader | None = None,
    ) -> None:
        super().__init__(terms, conversation, place, header)
        self._websocket = websocket
        self._handshake: Handshake | None = Handshake(ConnectionType.SERVER)
        self._connection: Connection | None = None
        self._frame_bytes = self._early_frames = 0

    def connection_lost(self, exc: Exception | None) -> None:
        if self._connection is not None:
            forget_frames(self._connection)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take bytes from the socket: the handshake first, then frames."""
        if self._transport is None or (self._connection is None and self._handshake is None):
            return  # over, but waiting for the peer to see that
        if self._early >= 0 and not self._takes_early(len(data)):
            return
        if self._connection is not None:
            self._take(self._connection, data)
        elif self._handshake is not None:
            self._shake_hands(self._handshake, data)

    # -- the handshake -------------------------------------------------------------------------------------------

    def _shake_hands(self, handshake: Handshake, data: bytes) -> None:
        try:
            handshake.receive_data(data)
        except RemoteProtocolError as error:
            hint = error.event_hint
            self._reject(handshake, hint if isinstance(hint, RejectConnection) else RejectConnection())
            return
        except ValueError:  # an invalid host name
            self._reject(handshake, RejectConnection(status_code=400))
            return
        for event in handshake.events():
            if isinstance(event, Request):
                self._answer(handshake, event)

    def _answer(self, handshake: Handshake, request: Request) -> None:
        status = 400 if handshake.has_early_frames else self._websocket.refusal_of(request, self.source.host)
        if status:
            self._reject(handshake, RejectConnection(status_code=status))
            return
        self._write(handshake.send(AcceptConnection(subprotocol=subprotocol_of(request))))
        self._connection = handshake.connection
        self._handshake = None  # frees several kilobytes

    def _reject(self, handshake: Handshake, rejection: RejectConnection) -> None:
        rejection = replace(rejection, headers=[*rejection.headers, (b"connection", b"close")])
        self._handshake = None
        reason = f"WebSocket handshake refused with {rejection.status_code}"
        self._terms.intake.refuse(reason, self.source.host)
        try:
            self._write(handshake.send(rejection))
        except LocalProtocolError:  # not HTTP at all
            self.abort()
            return
        super().close()

    # -- frames --------------------------------------------------------------------------------------------------

    def _take(self, connection: Connection, data: bytes) -> None:
        if connection.state is ConnectionState.CLOSED:
            return
        connection.receive_data(data)
        if not self._is_behind:
            self._take_frames()

    def _take_frames(self) -> None:
        """Take the frames of one turn of the loop, with their data as one piece; the rest comes after others' turns."""
        connection = self._connection
        if connection is None or self._transport is None or connection.state is ConnectionState.CLOSED:
            return
        is_open = connection.state is ConnectionState.OPEN
        parts: list[bytes] = []
        end: CloseConnection | None = None
        count = 0
        for event in islice(connection.events(), FRAMES_PER_TURN):
            count += 1
            end = self._take_event(connection, event, parts, answers=is_open)
            if end is not None:
                break
        if self._early >= 0 and end is None:
            self._early_frames += count
            if self._early_frames > EARLY_MAX_FRAMES:
                end = CloseConnection(CloseReason.POLICY_VIOLATION, "too many frames before the login")
        if is_open and parts and self._hand_over(b"".join(parts)):
            self.flush()
            self._look_at_unread()
        self._go_on_later(is_behind=end is None and count == FRAMES_PER_TURN)
        if end is not None:
            self._end(connection, end)

    def _go_on_later(self, *, is_behind: bool) -> None:
        """Stop reading until the pending data are taken, a part in each turn."""
        if self._transport is None:
            return
        if is_behind != self._is_behind:
            self._is_behind = is_behind
            self._look_at_reading()
        if is_behind:
            self._terms.loop.call_soon(self._take_frames)

    def _take_event(
        self, connection: Connection, event: Event, parts: list[bytes], *, answers: bool
    ) -> CloseConnection | None:
        """Take one frame: add its data to `parts`, or return the end of the connection."""
        if isinstance(event, BytesMessage):
            self._frame_bytes += len(event.data)
            if self._frame_bytes > self._websocket.max_frame_bytes:
                return CloseConnection(CloseReason.MESSAGE_TOO_BIG)
            if event.frame_finished:
                self._frame_bytes = 0
            parts.append(bytes(event.data))
        elif isinstance(event, TextMessage):
            return CloseConnection(CloseReason.UNSUPPORTED_DATA)
        elif isinstance(event, Ping):
            if answers and not self.is_congested:  # a peer that does not read needs no pong
                self._write(connection.send(event.response()))
        elif isinstance(event, CloseConnection):
            return event
        return None

    def _end(self, connection: Connection, end: CloseConnection) -> None:
        """Answer the peer's close, or close after a fault."""
        if connection.state is ConnectionState.REMOTE_CLOSING:
            self._write(connection.send(end.response()))
        elif connection.state is ConnectionState.OPEN:
            self._write(connection.send(CloseConnection(end.code, end.reason)))
            self._connection = None  # later data are ignored: closing upon them would reset the connection
            self._end_later(FAILED_SECONDS, self.abort)
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
        """Write what is due, then the close frame; the peer's answer, or a time-out, ends the connection."""
        self.flush()
        connection, transport = self._connection, self._transport
        if transport is None:
            return
        if connection is None:
            super().close()
        elif connection.state is ConnectionState.OPEN:
            self._write(connection.send(CloseConnection(CloseReason.NORMAL_CLOSURE)))
            self._pauses = frozenset()  # the peer's close frame is to come
            self._look_at_reading()
            self._end_later(GOODBYE_SECONDS, self.abort)

    def _write(self, data: bytes) -> None:
        if data and self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)


def upgraded(terms: ListenerTerms, websocket: WebSocketTerms) -> type[asyncio.Protocol]:
    """Return the protocol class for the HTTP listener's WebSocket connections, called as uvicorn calls its own."""

    class Upgraded(WebSocketDriver):
        """A connection with its own place; uvicorn's state does not matter to it."""

        __slots__ = ()

        def __init__(self, *, app_state: Mapping[str, Any], **_of_uvicorn: object) -> None:
            super().__init__(terms, websocket, terms.converse(), None, app_state.get(PROXY_HEADER))

    return Upgraded
