"""GrpcConversation: one connection of a gRPC client.

ADR 6: the machine decodes, the conversation decides, the driver acts.  Invariant: the bytes that are kept of requests
are bounded for each connection.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final, Protocol

import structlog

from entrepot.gateway.rocketmq.grpc.answers import Answers
from entrepot.gateway.rocketmq.grpc.call import Call, Conversing
from entrepot.gateway.rocketmq.grpc.terms import GrpcTerms
from entrepot.gateway.transport.driver import Driver
from entrepot.gateway.transport.source import Source
from entrepot.protocols.grpc.head import CallRefusedError, NotGrpcError, call_head
from entrepot.protocols.grpc.messages import MessageError, MessageReader
from entrepot.protocols.grpc.status import HEAD, Status, http_head, trailers
from entrepot.protocols.http2.events import Closing, DataReceived, Drained, Event, RequestReceived, StreamReset
from entrepot.protocols.http2.frames import ErrorCode

ADMITTED_REQUESTS: Final = 4
"""Largest requests that one known client's connection keeps in memory before their calls take them."""
ADMITTED_ANSWERS: Final = 16
"""Write buffers of answers that may wait for windows of a known client: a call that is not read stops no other soon."""
INBOX_BYTES: Final = 64 * 1024
"""Bytes of one call's requests that wait; beyond them its client gets no room for more."""
LIVE_PING_SECONDS: Final = 1.0
"""Longest wait for a client's answer to the first goodbye, before the streams are counted."""

log = structlog.get_logger(__name__)


class Connections(Protocol):
    """A connection's view of its server."""

    def opened(self, conversation: GrpcConversation) -> str | None:
        """Note an open connection; return the reason to refuse it, or None."""

    def closed(self, conversation: GrpcConversation) -> None:
        """Note the end of a connection."""


class GrpcConversation(Answers):
    """One connection.  Implements `gateway.transport.driver.Conversation`."""

    __slots__ = ("_foreign", "_is_admitted", "_login_until", "_refusal", "_connections", "source")

    source: Source
    """The client's address; set from `connected` on."""

    def __init__(self, terms: GrpcTerms, connections: Connections) -> None:
        super().__init__(terms)
        self._connections = connections
        self._login_until = self.now() + terms.request_seconds
        self._foreign: dict[int, NotGrpcError] = {}
        """Requests that are not gRPC's, by their stream: they are answered once they are whole."""
        self._is_admitted = False
        self._refusal: str | None = None

    # -- the driver's side ---------------------------------------------------------------------------------------------

    def connected(self, driver: Driver) -> None:
        self._driver, self.source = driver, driver.source
        self._machine.allow(self._terms.write_limit)
        self._refusal = self._connections.opened(self)

    def received(self, data: bytes, now: float) -> None:
        if self._refusal is not None:
            self._take((self._machine.close(ErrorCode.ENHANCE_YOUR_CALM, self._refusal),), now)
            self._refusal = None
        else:
            self._take(self._machine.receive_data(data, now), now)

    def data_to_send(self) -> bytes:
        data = self._machine.data_to_send()
        if self._machine.room * 2 < self._terms.write_limit:
            self.loop.call_soon(self._look_for_room)
        return data

    def writable(self) -> None:
        self._look_for_room()

    def _look_for_room(self) -> None:
        """Let answers go on, unless the socket has enough: then `writable` follows."""
        if self._driver is not None and not self._driver.is_congested:
            self._take(self._machine.allow(self._terms.write_limit), self.now())
            self._flush_soon()

    def deadline(self) -> float:
        return min(self._machine.deadline(), self._login_until)

    def timed_out(self, now: float) -> None:
        if now >= self._machine.deadline():
            self._take(self._machine.handle_timeout(), now)
        elif now >= self._login_until:
            self._login_until = math.inf
            self._take((self._machine.close(ErrorCode.NO_ERROR, "no call of a known client has come in time"),), now)

    def resumed(self, now: float) -> None:
        pass

    def overburdened(self) -> None:
        text = "clients that have not logged in send too much"
        self._take((self._machine.close(ErrorCode.ENHANCE_YOUR_CALM, text),), self.now())

    def lost(self) -> None:
        self._driver = None
        self._connections.closed(self)
        for call in tuple(self._calls.values()):
            self._cancel(call)

    # -- events --------------------------------------------------------------------------------------------------------

    def _take(self, events: Iterable[Event], now: float) -> None:
        for event in events:
            if isinstance(event, RequestReceived):
                self._begin(event, now)
            elif isinstance(event, DataReceived):
                self._data(event, now)
            elif isinstance(event, Drained):
                self._drained(event)
            elif isinstance(event, StreamReset):
                self._foreign.pop(event.stream, None)
                call = self._calls.get(event.stream)
                if call is not None:
                    self._cancel(call)
            else:
                self._close(event)
        if self._waiting:
            self._let_next()

    def _close(self, event: Closing) -> None:
        driver = self._driver
        if driver is None:
            return
        if event.is_tls:
            text = "a client speaks TLS to a port without TLS"
            log.info(text, seldom="grpc", peer=driver.peer, setting="grpc.tls")
        elif event.code is not ErrorCode.NO_ERROR:
            kind = f"grpc {event.text}"
            log.info("connection closed by the server", seldom=kind, protocol="grpc", peer=driver.peer, text=event.text)
        for call in tuple(self._calls.values()):
            self._cancel(call)
        driver.finish()

    def _begin(self, event: RequestReceived, now: float) -> None:
        number, machine = event.stream, self._machine
        try:
            head = call_head(event.head)
        except NotGrpcError as error:
            self._foreign[number] = error
            if event.is_whole:
                self._answer_foreign(number)
            return
        except CallRefusedError as error:
            machine.end(number, HEAD + trailers(error.status, error.text))
            return
        method = self._terms.methods.get(head.path)
        if method is None:
            machine.end(number, HEAD + trailers(Status.UNIMPLEMENTED, "there is no such method"))
            return
        reader = MessageReader(head.encoding, self._terms.max_request_bytes)
        upload_until = math.inf if isinstance(method, Conversing) else now + self._terms.request_seconds
        call = Call(self, number, method, event.head.fields, reader, now + head.timeout, upload_until)
        self._calls[number] = call
        if isinstance(method, Conversing):
            self._start(call)
        self._terms.wheel.add(call)
        if event.is_whole:
            self._request_over(call)

    def _answer_foreign(self, number: int) -> None:
        error = self._foreign.pop(number)
        self._machine.answer(number, http_head(error.status), error.text.encode(), b"")

    def _data(self, event: DataReceived, now: float) -> None:
        number = event.stream
        call = self._calls.get(number)
        if call is None:
            if number in self._foreign:
                self._machine.give_room(number)
                if event.is_last:
                    self._answer_foreign(number)
            return
        try:
            for message in call.reader.feed(event.data):
                self._request(call, message)
        except MessageError as error:
            self.finish(call, error.status, error.text)
            return
        self._count(call, now)
        if call.is_over:
            return
        if event.is_last:
            self._request_over(call)
        elif call.inbox_bytes <= INBOX_BYTES:
            self._machine.give_room(number)

    def _request(self, call: Call, message: bytes) -> None:
        """Take a message of the client.  Raises MessageError where it is one too many."""
        if isinstance(call.method, Conversing):
            call.inbox.append(message)
            call.inbox_bytes += len(message)
            call.has_request()
        elif call.message is None:
            call.message = message
        else:
            raise MessageError(Status.INVALID_ARGUMENT, "the call has more than one request")

    def _count(self, call: Call, now: float) -> None:
        """Count what is kept of a call's requests; end the call where its connection keeps too much."""
        unread = call.reader.held
        held = unread + call.inbox_bytes + (0 if call.message is None else len(call.message))
        self._held += held - call.held
        call.held = held
        most = self._terms.max_request_bytes * (ADMITTED_REQUESTS if self._is_admitted else 1)
        if self._held > most + INBOX_BYTES:
            self.finish(call, Status.RESOURCE_EXHAUSTED, "requests of this connection that are not whole are too large")
        elif isinstance(call.method, Conversing) and bool(unread) is (call.upload_until == math.inf):
            call.upload_until = now + self._terms.request_seconds if unread else math.inf
            self._look_again(call)

    def _request_over(self, call: Call) -> None:
        """Note the end of the client's requests."""
        call.is_request_over, call.upload_until = True, math.inf
        if isinstance(call.method, Conversing):
            call.has_request()
            return
        if call.message is None or call.reader.held:
            self.finish(call, Status.INVALID_ARGUMENT, "the request is not one whole message")
            return
        self._start(call)

    def request_taken(self, call: Call) -> None:
        """Give the client of a call room again, once few of its requests wait."""
        self._count(call, self.now())
        if call.inbox_bytes <= INBOX_BYTES and not call.is_over:
            self._machine.give_room(call.number)
            self._flush_soon()

    # -- for others ----------------------------------------------------------------------------------------------------

    def admitted(self) -> None:
        """Note that a caller is known: the connection is no longer half open."""
        if not self._is_admitted and self._driver is not None:
            self._is_admitted, self._login_until = True, math.inf
            self._most_waiting = self._terms.write_limit * ADMITTED_ANSWERS
            self._driver.admitted()
            self._machine.admit()
            self._flush_soon()

    def shut_down(self) -> None:
        """Ask the client to open no more streams."""
        if self._driver is None:
            return
        if not self._machine.is_greeted:
            self._driver.close()
            return
        self._machine.shut_down()
        self._driver.flush()
        self.loop.call_later(LIVE_PING_SECONDS, self.refuse_streams)

    def refuse_streams(self) -> None:
        """Take no more streams; close the connection once the others have ended."""
        self._machine.refuse_streams()
        self._flush_soon()
        self.end_drained()

    def end(self) -> None:
        """End the calls that are under way, and the connection."""
        for call in tuple(self._calls.values()):
            self._stop(call, Status.UNAVAILABLE, "the server stops")
        if self._driver is not None:
            self._driver.close()
