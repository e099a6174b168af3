"""The two ends of a connection, without sockets.

`receive_data(data) -> list of events`, `data_to_send() -> bytes`.  A breach of the rules raises `RemotingError`, and
`data_to_send` has the goodbye.

Back-pressure is credit.  The server's welcome grants a number of bytes of unanswered requests; the client holds further
ones until answers come.  A stream has credit of its own, granted by the client as it consumes.

Invariants: `Answered` and `Refused` belong to requests that were sent and not cancelled; an id recurs only after four
thousand million others; nothing but greetings passes before both have greeted.

ADR 15: the wire between our own processes.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from entrepot.domain.errors import Code, EntrepotError
from entrepot.protocols.wire.authentication import ClusterSecret, Role
from entrepot.protocols.wire.frames import (
    HEADER_SIZE,
    MAX_GREETING_BYTES,
    MAX_PAYLOAD_BYTES,
    USUAL_MAX_PAYLOAD_BYTES,
    VERSION,
    FrameKind,
    FrameReader,
    Hello,
    RemotingError,
    Welcome,
    frame,
    frame_parts,
    too_large,
)
from entrepot.protocols.wire.handshake import ClientHandshake, ServerHandshake
from entrepot.protocols.wire.values import error_of

MAX_OPEN_REQUESTS: Final = 100_000
"""Most open requests and streams of one connection."""
REQUEST_OVERHEAD: Final = 64
"""Bytes that a request counts for beyond its payload."""


class _End:
    """The common part of both ends: bytes that are due, open requests and streams."""

    def __init__(self) -> None:
        self._reader = FrameReader(MAX_GREETING_BYTES)
        self._out: list[bytes] = []
        self._open: dict[int, int] = {}  # id -> bytes it counts for
        self._unanswered = 0
        self._most = USUAL_MAX_PAYLOAD_BYTES  # that the other end takes in a frame

    def _greeted_by(self, peer: Hello | Welcome) -> None:
        self._most = min(peer.max_payload_bytes, MAX_PAYLOAD_BYTES)
        self._reader.max_payload_bytes = MAX_PAYLOAD_BYTES

    def goodbye(self, text: str) -> None:
        self._out.append(frame(FrameKind.GOODBYE, 0, text.encode()))

    def data_to_send(self) -> bytes:
        data = b"".join(self._out)
        self._out.clear()
        return data


@dataclass(slots=True)
class Welcomed:
    """The server's greeting: requests flow."""

    welcome: Welcome


@dataclass(slots=True)
class Answered:
    """The answer of a request."""

    id: int
    payload: bytes


@dataclass(slots=True)
class AnsweredLate:
    """The answer of a request that was cancelled while it was on its way."""

    id: int
    payload: bytes


@dataclass(slots=True)
class Refused:
    """The refusal of a request, or the end of a stream."""

    id: int
    error: EntrepotError


@dataclass(slots=True)
class ItemCame:
    """An item of a stream; `size` is its share of the credit."""

    id: int
    payload: bytes
    size: int


@dataclass(slots=True)
class Ponged:
    """The answer of a ping."""


@dataclass(slots=True)
class Goodbye:
    """The other end's reason to end the connection."""

    text: str


ClientEvent = Welcomed | Answered | AnsweredLate | Refused | ItemCame | Ponged | Goodbye


class ClientConnection(_End):
    """The client's end, which makes requests.  `secret`, `channel`, `may_be_without`: as `ClientHandshake` has them."""

    def __init__(
        self, hello: Hello, secret: ClusterSecret | None = None, channel: bytes = b"", *, may_be_without: bool = False
    ) -> None:
        super().__init__()
        self._handshake = ClientHandshake(hello, secret, channel, may_be_without=may_be_without)
        self._out.append(self._handshake.first)
        self._last_id = 0
        self._window = 0
        self._is_welcome = False
        self._held: OrderedDict[int, tuple[tuple[bytes, bytes], int]] = OrderedDict()
        self.held_bytes = 0

    @property
    def is_congested(self) -> bool:
        """True if requests are held for lack of credit."""
        return bool(self._held)

    def request(self, operation: int, payload: bytes, amount: int = 0) -> int:
        """Make a request; returns its id.  Raises TOO_MANY_REQUESTS beyond the limit, MESSAGE_BODY_TOO_LARGE beyond a
        frame."""
        if len(payload) > self._most:
            raise too_large(len(payload), self._most)
        if len(self._open) >= MAX_OPEN_REQUESTS:
            raise EntrepotError(Code.TOO_MANY_REQUESTS, f"{len(self._open)} requests wait for the broker's answer")
        id_ = self._next_id()
        size = len(payload) + REQUEST_OVERHEAD
        self._open[id_] = size
        data = frame_parts(FrameKind.REQUEST, id_, payload, operation=operation, amount=amount)
        if self._is_welcome and not self._held and self._has_credit(size):
            self._unanswered += size
            self._out += data
        else:
            self._held[id_] = (data, size)
            self.held_bytes += size
        return id_

    def _has_credit(self, size: int) -> bool:
        """True if the request fits the credit; a single one may always be under way, however large."""
        return self._unanswered + size <= self._window or not self._unanswered

    def _next_id(self) -> int:
        while True:
            self._last_id = self._last_id % 0xFFFFFFFF + 1
            if self._last_id not in self._open:
                return self._last_id

    def cancel(self, id_: int) -> bool:
        """Cancel a request or stream.  Returns True if it had been sent."""
        size = self._open.pop(id_, None)
        if size is None:
            return False
        if self._held.pop(id_, None) is not None:
            self.held_bytes -= size
            self._send_held()  # a smaller one after it may go now
            return False
        self._out.append(frame(FrameKind.CANCEL, id_))
        self._unanswered -= size
        self._send_held()
        return True

    def was_sent(self, id_: int) -> bool:
        """True if an open request has left this end."""
        return id_ in self._open and id_ not in self._held

    def held_ids(self) -> set[int]:
        """Return the open requests that are held."""
        return set(self._held)

    def grant(self, id_: int, size: int) -> None:
        """Give a stream more credit."""
        if id_ in self._open:
            self._out.append(frame(FrameKind.CREDIT, id_, amount=size))

    def begin_item_stream(self, id_: int) -> None:
        """Give back the size of a request that became a stream, and waits for no answer."""
        self._unanswered -= self._open.get(id_, 0)
        self._open[id_] = 0

    def ping(self) -> None:
        self._out.append(frame(FrameKind.PING))

    def receive_data(self, data: bytes) -> list[ClientEvent]:
        """Return the events in the server's bytes.  Raises RemotingError."""
        events: list[ClientEvent] = []
        for received in self._reader.read(data):
            event = self._event(received.kind, received.id, received.amount, received.payload)
            if event is not None:
                events.append(event)
        return events

    def _event(self, kind: int, id_: int, amount: int, payload: bytes) -> ClientEvent | None:
        if kind == FrameKind.GOODBYE:
            return Goodbye(payload.decode("utf-8", "replace"))
        if not self._is_welcome:
            return self._welcomed(kind, payload)
        if id_ in self._held:
            raise RemotingError(f"{FrameKind(kind).name} to request {id_}, which was not sent")
        if kind == FrameKind.ITEM:
            if id_ not in self._open:
                return None  # it was cancelled while this was on its way
            if self._open[id_]:
                self.begin_item_stream(id_)
                self._send_held()
            return ItemCame(id_, payload, HEADER_SIZE + len(payload))
        if kind in (FrameKind.ANSWER, FrameKind.REFUSAL):
            size = self._open.pop(id_, None)
            if size is None:
                return AnsweredLate(id_, payload) if kind == FrameKind.ANSWER else None
            self._unanswered -= size
            self._send_held()
            if kind == FrameKind.ANSWER:
                return Answered(id_, payload)
            return Refused(id_, error_of(amount, payload.decode("utf-8", "replace")))
        if kind == FrameKind.PONG:
            return Ponged()
        raise RemotingError(f"a server does not send {FrameKind(kind).name}")

    def _welcomed(self, kind: int, payload: bytes) -> Welcomed | None:
        said, welcome = self._handshake.receive(kind, payload)
        self._out.append(said)
        if welcome is None:
            return None
        self._is_welcome = True
        self._window = welcome.window_bytes
        self._greeted_by(welcome)
        self._send_held()
        return Welcomed(welcome)

    def _send_held(self) -> None:
        while self._is_welcome and self._held:
            id_, (data, size) = next(iter(self._held.items()))
            if not self._has_credit(size):
                return
            del self._held[id_]
            self.held_bytes -= size
            self._unanswered += size
            self._out += data


@dataclass(slots=True)
class Greeted:
    """The client has greeted, and was welcomed."""

    hello: Hello


@dataclass(slots=True)
class Requested:
    """A request.  `amount`: milliseconds until its deadline (0 = none), or the credit of its stream."""

    id: int
    operation: int
    amount: int
    payload: bytes


@dataclass(slots=True)
class Cancelled:
    id: int


@dataclass(slots=True)
class Credited:
    """More credit for a stream, in bytes."""

    id: int
    size: int


ServerEvent = Greeted | Requested | Cancelled | Credited | Goodbye


class ServerConnection(_End):
    """The server's end, which answers.  `secret` and what follows: as `ServerHandshake` has them."""

    def __init__(
        self,
        who: str,
        window_bytes: int,
        cluster: str = "",
        secret: ClusterSecret | None = None,
        nonce: bytes = b"",
        channel: bytes = b"",
        *,
        may_be_without: bool = False,
    ) -> None:
        super().__init__()
        welcome = Welcome(VERSION, who, window_bytes, cluster, MAX_PAYLOAD_BYTES)
        self._handshake = ServerHandshake(welcome, secret, nonce, channel, may_be_without=may_be_without)
        self._window = window_bytes
        self.hello: Hello | None = None
        self.role: Role | None = None
        """The part that the client has proved to be; None where the cluster has no secret."""

    def answer(self, id_: int, payload: bytes) -> None:
        """Answer a request, unless it was cancelled meanwhile."""
        if len(payload) > self._most:
            self.refuse(id_, too_large(len(payload), self._most))
        elif self._close(id_):
            self._out += frame_parts(FrameKind.ANSWER, id_, payload)

    def refuse(self, id_: int, error: EntrepotError) -> None:
        """Refuse a request, or end a stream."""
        if self._close(id_):
            text = error.message.encode("utf-8", "backslashreplace")[:65536]
            self._out.append(frame(FrameKind.REFUSAL, id_, text, amount=error.code))

    def item(self, id_: int, payload: bytes) -> None:
        """Send an item of a stream."""
        size = self._open.get(id_)
        if size is None:
            return
        if size:  # a stream waits for no answer
            self._unanswered -= size
            self._open[id_] = 0
        self._out += frame_parts(FrameKind.ITEM, id_, payload)

    def _close(self, id_: int) -> bool:
        size = self._open.pop(id_, None)
        if size is None:
            return False
        self._unanswered -= size
        return True

    def receive_data(self, data: bytes) -> list[ServerEvent]:
        """Return the events in the client's bytes.  Raises RemotingError, with the goodbye queued."""
        events: list[ServerEvent] = []
        try:
            for received in self._reader.read(data):
                event = self._event(received.kind, received.id, received.amount, received.payload, received.operation)
                if event is not None:
                    events.append(event)
        except RemotingError as error:
            self.goodbye(str(error))
            raise
        return events

    def _event(self, kind: int, id_: int, amount: int, payload: bytes, operation: int) -> ServerEvent | None:
        if kind == FrameKind.GOODBYE:
            return Goodbye(payload.decode("utf-8", "replace"))
        if self.hello is None:
            return self._greeted(kind, payload)
        if kind == FrameKind.REQUEST:
            return self._requested(id_, amount, payload, operation)
        if kind == FrameKind.CANCEL:
            return Cancelled(id_) if self._close(id_) else None
        if kind == FrameKind.CREDIT:
            return Credited(id_, amount) if id_ in self._open else None
        if kind == FrameKind.PING:
            self._out.append(frame(FrameKind.PONG))
            return None
        raise RemotingError(f"a client does not send {FrameKind(kind).name}")

    def _requested(self, id_: int, amount: int, payload: bytes, operation: int) -> Requested:
        size = len(payload) + REQUEST_OVERHEAD
        if not id_ or id_ in self._open:
            raise RemotingError(f"request id {id_} is in use")
        if self._unanswered and self._unanswered + size > self._window:
            raise RemotingError(f"more than the {self._window} bytes of requests that were granted")
        if len(self._open) >= MAX_OPEN_REQUESTS:
            raise RemotingError(f"more than {MAX_OPEN_REQUESTS} requests at a time")
        self._open[id_] = size
        self._unanswered += size
        return Requested(id_, operation, amount, payload)

    def _greeted(self, kind: int, payload: bytes) -> Greeted | None:
        said, hello = self._handshake.receive(kind, payload)
        self._out.append(said)
        if hello is None:
            return None
        self.hello, self.role = hello, self._handshake.role
        self._greeted_by(hello)
        return Greeted(hello)
