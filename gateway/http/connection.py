"""A connection of the HTTP door: uvicorn's protocol, with limits on heads, and with publishes that are taken at once.

What uvicorn does for a request (a scope, a task, an event, a message for each part of the answer) costs more than to
take and to store a small event.  A publish is therefore given to `PublishAtOnce` as soon as its body is whole; what
that does not take goes the ASGI way like every other request, with nothing lost but the try.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from typing import Any, ClassVar, Final

import httptools
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from entrepot.gateway.http.asgi import Headers, declared_length
from entrepot.gateway.http.at_once import PublishAtOnce
from entrepot.gateway.http.problems import ProblemAnswer, answer_of_status, log_refusal
from entrepot.gateway.http.publish import PREFIX, PUBLISHED, PUBLISHED_HEADERS, SUFFIX
from entrepot.gateway.http.tick_transport import TickTransport
from entrepot.gateway.transport.early_bytes import EarlyBytes

MAX_HEAD_BYTES: Final = 256 * 1024
"""Of a request's head: 128 attributes of an event may be in it, but not the largest of each."""
MAX_HEADERS: Final = 512
MAX_BODY_AT_ONCE: Final = HIGH_WATER_LIMIT
"""Larger bodies are read the ASGI way, which holds back who sends them."""
MAX_URL_AT_ONCE: Final = 512
"""Longest URL of a publish that is taken at once, as results are remembered by it."""
MAX_PARTS: Final = 64
"""Of a body, as they came in, before they become one."""
_HOST: Final = re.compile(rb"(?:[A-Za-z0-9._~%!$&'()*+,;=-]*|\[[0-9A-Fa-f:.]+\])(?::[0-9]*)?")
"""RFC 9110 7.2, RFC 3986 3.2.2."""
_OF_THE_CONNECTION: Final = frozenset({b"expect", b"host", b"transfer-encoding"})
"""Headers that say how the request is read, or whether it is."""
_CLOSE: Final[Headers] = [(b"connection", b"close")]
_OVERBURDENED: Final = answer_of_status(503, "too much has come in requests that are not whole")


class RefusedHeadError(Exception):
    """A request whose head says that it is not taken."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def _refusal_of(error: httptools.HttpParserError) -> tuple[int, str]:
    """The status and the reason of what could not be parsed."""
    cause = error.__context__
    if isinstance(cause, RefusedHeadError):
        return cause.status, str(cause)
    known = cause if isinstance(cause, httptools.HttpParserError) else error
    return 400, f"this is not HTTP: {known}"


class _Exchange:
    """A publish taken at once, as uvicorn sees a connection's last request (its `RequestResponseCycle`)."""

    __slots__ = ("disconnected", "keep_alive", "message_event", "response_complete")

    def __init__(self) -> None:
        self.response_complete = True
        self.disconnected = False
        self.keep_alive = True
        self.message_event = asyncio.Event()


class HttpConnection(HttpToolsProtocol):
    """`websockets`: what takes over at a path; else the app is asked.  `publish`: takes publishes at once."""

    websockets: ClassVar[Mapping[bytes, type[asyncio.Protocol]]] = {}
    publish: ClassVar[PublishAtOnce | None] = None
    results: ClassVar[PublishResults]
    max_body_at_once: ClassVar[int] = 0
    early: ClassVar[EarlyBytes]

    waiting_since = 0.0
    """Since when a request is on its way in, or the first one is waited for; 0: neither."""
    idle_since = 0.0
    """Since when nothing has been asked; 0: something is, or nothing was yet."""
    _head_bytes = _early_bytes = 0
    _is_head = True
    _messages = 0
    """Requests that have come in whole."""
    _parts: list[bytes] | None = None
    """The body so far of a publish that may be taken at once."""
    _is_new = False
    """Whether nobody has asked yet if that body may come."""
    _exchange: _Exchange | None = None
    _host: bytes | None = None
    """The Host of the request whose head is coming in."""
    _known_host: bytes | None = None
    """One that was looked at; mostly it stays."""
    _last_answer: bytes | None = None
    """A refusal that ends the connection as soon as the requests before are answered: nothing is read any more."""
    _is_upgrade_due = False
    """Whether the connection is handed over as soon as the requests before are answered."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wrap the transport before anything is written to it."""
        self.waiting_since = self.loop.time()
        self._ticking = TickTransport(transport, self.loop)
        super().connection_made(self._ticking)  # type: ignore[arg-type]

    def data_received(self, data: bytes) -> None:
        """Note what stays unfinished; a head that does not end is ended."""
        if self._is_upgrade_due:  # who asks for a WebSocket waits for the answer (RFC 6455 4.1)
            self.transport.close()
            return
        if self._last_answer is not None:
            return
        before, self.idle_since = self._messages, 0.0
        self._read(data)
        if self._parts is not None and self._is_new:  # its refusal does not wait for its body
            self._is_new = False
            if self.publish is not None and not self.publish.may_come(self.url, self.headers, self.client):
                self._go_on_by_asgi()
        if self._last_answer is not None or (self._messages != before and self._is_head):
            return
        if not self.waiting_since:
            self.waiting_since = self.loop.time()
        if self._is_head:
            self._head_bytes += len(data)
            self._take_early(len(data))

    def _read(self, data: bytes) -> None:
        """Parse it.  What cannot be parsed is refused, and nothing behind it is read."""
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._refuse(*_refusal_of(error))  # no name here keeps the error, which knows this connection
        except httptools.HttpParserUpgrade:
            if self._should_upgrade():
                self.handle_websocket_upgrade()

    def _refuse(self, status: int, detail: str) -> None:
        """End the connection with a problem.  It stands behind the answers that are owed for requests before."""
        if self.transport.is_closing():
            return
        log_refusal("", self.url.decode("latin-1") if self.headers is not None else "", status, detail)
        last = encoded_answer(answer_of_status(status, detail), [*self.server_state.default_headers, *_CLOSE])
        self._last_answer, self.waiting_since, cycle = last, 0.0, self.cycle
        if not self._is_head and isinstance(cycle, RequestResponseCycle):  # it is a body that cannot be read on
            if self.pipeline:
                self.pipeline.popleft()
            elif cycle.response_started:
                self.transport.close()
                return
            else:
                cycle.response_complete = cycle.disconnected = True
                cycle.message_event.set()
        if not self.pipeline and (self.cycle is None or self.cycle.response_complete):
            self._end()

    def _end(self) -> None:
        assert self._last_answer is not None
        self._ticking.write(self._last_answer)
        self.transport.close()

    def _take_early(self, count: int) -> None:
        """A head is not whole yet: it is refused where it is too large, or all of these together are."""
        if self.transport.is_closing():
            return
        if self._head_bytes > MAX_HEAD_BYTES:
            self._refuse(400, f"the head of the request has more than {MAX_HEAD_BYTES} bytes")
        self._early_bytes += count
        if not self.early.take(count, self._early_bytes) and not self.transport.is_closing():
            self.transport.write(encoded_answer(_OVERBURDENED, [*self.server_state.default_headers, *_CLOSE]))
            self.transport.close()

    def _release_early(self) -> None:
        if self._early_bytes:
            self.early.release(self._early_bytes)
            self._early_bytes = 0

    def connection_lost(self, exc: Exception | None) -> None:
        """Free all that has come, at once: nothing of it refers back to this."""
        self._parts = None
        self._release_early()
        super().connection_lost(exc)

    def on_header(self, name: bytes, value: bytes) -> None:
        """As uvicorn's, which is not called: this runs for each header of each request.  One too many is refused at
        once: a read may hold very many of them."""
        if len(self.headers) >= MAX_HEADERS:
            raise RefusedHeadError(400, f"the request has more than {MAX_HEADERS} headers")
        name = name.lower()
        if name in _OF_THE_CONNECTION:
            self._examine(name, value)
        self.headers.append((name, value))

    def _examine(self, name: bytes, value: bytes) -> None:
        if name == b"host":
            if self._host is not None:
                raise RefusedHeadError(400, "the request has more than one Host header")
            if value != self._known_host:
                if _HOST.fullmatch(value) is None:
                    raise RefusedHeadError(400, "the Host header names no host")
                self._known_host = value
            self._host = value
        elif name == b"expect":
            if value.lower() == b"100-continue":
                self.expect_100_continue = True
        elif value.strip().lower() != b"chunked":
            raise RefusedHeadError(501, "no transfer coding but chunked is taken")

    def on_headers_complete(self) -> None:
        if self._host is None and self.parser.get_http_version() == "1.1":
            raise RefusedHeadError(400, "the request has no Host header")
        self._head_bytes, self.idle_since = 0, 0.0
        self._release_early()
        if self.publish is not None and self.url.endswith(SUFFIX) and self._may_be_at_once():
            self._parts, self._is_new = [], True
        else:
            super().on_headers_complete()
        self._is_head = False

    def on_body(self, body: bytes) -> None:
        if self._parts is None:
            super().on_body(body)
        else:
            self._parts.append(body)
            if len(self._parts) > MAX_PARTS:
                self._parts = [b"".join(self._parts)]

    def on_message_complete(self) -> None:
        self._is_head, self.waiting_since, self._host = True, 0.0, None
        self._messages += 1
        if self._parts is not None:
            if self._took_at_once(b"".join(self._parts)):
                self._parts = None
                return
            self._go_on_by_asgi()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Go on with what has come meanwhile.  How long it may be idle is looked at for all connections together: a
        timer for each answer costs as much as to write it."""
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
        elif self._last_answer is not None:
            self._end()
        elif self._is_upgrade_due:
            self._is_upgrade_due = False
            self._hand_over()
        else:
            self.idle_since = self.loop.time()

    def handle_websocket_upgrade(self) -> None:
        """Hand the connection over, when all requests before this one are answered."""
        other = self.websockets.get(self.url.partition(b"?")[0])
        self.waiting_since = 0.0
        if other is not None:
            self.ws_protocol_class = other
        if self.cycle is None or self.cycle.response_complete:
            self._hand_over()
        else:
            self._is_upgrade_due = True

    def _hand_over(self) -> None:
        super().handle_websocket_upgrade()
        self.parser = None  # type: ignore[assignment]  # it has this protocol, which is not needed any more

    def shutdown(self) -> None:
        """End when the request that is on its way in, or the last one that came, is answered."""
        if self._parts is not None:
            self._go_on_by_asgi()
        super().shutdown()

    # -- publishes at once -----------------------------------------------------------------------------------------

    def _may_be_at_once(self) -> bool:
        """Whether it is a plain POST of HTTP/1.1 with a small body, and no answer before it is still owed."""
        parser, declared = self.parser, declared_length(self.headers)
        return (
            declared is not None
            and declared <= self.max_body_at_once
            and self.url.startswith(PREFIX)
            and len(self.url) <= MAX_URL_AT_ONCE
            and (self.cycle is None or self.cycle.response_complete)
            and parser.get_method() == b"POST"
            and parser.get_http_version() == "1.1"
            and not (self.expect_100_continue or parser.should_upgrade() or self.flow.write_paused)
        )

    def _go_on_by_asgi(self) -> None:
        """Begin the request once more, the way of all others, with what has come of it.  Its target is short and has a
        path alone, so nothing of this can fail outside the parser."""
        parts, self._parts = self._parts, None
        super().on_headers_complete()
        for part in parts or ():
            super().on_body(part)

    def _took_at_once(self, body: bytes) -> bool:
        assert self.publish is not None
        exchange = self._exchange
        if exchange is None:
            exchange = self._exchange = _Exchange()
        before, self.cycle = self.cycle, exchange  # type: ignore[assignment]
        exchange.response_complete, exchange.keep_alive = False, self.parser.should_keep_alive()
        if self.publish.at_once(self.url, self.headers, self.client, body, self._answer):
            return True
        exchange.response_complete, self.cycle = True, before
        return False

    def _answer(self, problem: ProblemAnswer | None) -> None:
        """Write a publish's answer, and go on with what has come since."""
        exchange = self._exchange
        assert exchange is not None
        exchange.response_complete = True
        if self.transport.is_closing():
            return
        common = self.server_state.default_headers
        if problem is None and exchange.keep_alive:
            self._ticking.write_now(self.results.published(common))
        else:
            last = [] if exchange.keep_alive else _CLOSE
            self._ticking.write_now(encoded_answer(problem, [*common, *last]))
            if not exchange.keep_alive:
                self.transport.close()
        self.on_response_complete()


class PublishResults:
    """The answer of every publish that was stored; its head changes by the second."""

    def __init__(self) -> None:
        self._headers: Headers | None = None
        self._encoded = b""

    def published(self, headers: Headers) -> bytes:
        """The whole answer.  `headers`: uvicorn's, which are another list when they have changed."""
        if headers is not self._headers:
            self._headers, self._encoded = headers, encoded_answer(None, headers)
        return self._encoded


def encoded_answer(problem: ProblemAnswer | None, headers: Headers) -> bytes:
    """A whole answer: the empty result, or a problem."""
    if problem is None:
        status, own, body = 200, PUBLISHED_HEADERS, PUBLISHED
    else:
        status, own, body = problem.status, problem.raw_headers(), problem.body
    lines = [name + b": " + value for name, value in (*headers, *own, (b"content-length", b"%d" % len(body)))]
    return STATUS_LINE[status] + b"\r\n".join((*lines, b"", body))


def http_connection(
    websockets: Mapping[bytes, type[asyncio.Protocol]],
    publish: PublishAtOnce | None,
    max_body_bytes: int,
    early: EarlyBytes,
) -> type[HttpConnection]:
    """The protocol of a listener."""
    own: dict[str, Any] = {
        "websockets": websockets,
        "publish": publish,
        "early": early,
        "results": PublishResults(),
        "max_body_at_once": min(max_body_bytes, MAX_BODY_AT_ONCE),
    }
    return type("ListenerConnection", (HttpConnection,), own)
