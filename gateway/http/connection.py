"""One HTTP connection: uvicorn's protocol with limits on heads and a fast path for publishes.

uvicorn's work for a request (a scope, a task, an event, messages of the answer) costs more than storing a small event.
So a complete publish is first offered to `PublishAtOnce`.  If that declines, the request goes through ASGI like any
other, and only the attempt is lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import ClassVar, Final

import httptools
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from entrepot.gateway.http.requests.asgi import declared_length
from entrepot.gateway.http.requests.at_once import PublishAtOnce
from entrepot.gateway.http.requests.encoded import Exchange, PublishResults, encoded_answer, last_answer
from entrepot.gateway.http.requests.heads import (
    RefusedHeadError,
    check_coding,
    check_host,
    check_trailers,
    check_version,
    new_parser,
    origin_form,
    refusal_of,
    without_offer,
)
from entrepot.gateway.http.requests.problems import ProblemAnswer, answer_of_status, log_refusal
from entrepot.gateway.http.requests.publish import PREFIX, SUFFIX
from entrepot.gateway.http.requests.turned_away import look_at_descriptor
from entrepot.gateway.http.streaming.socket_paths import place_in
from entrepot.gateway.http.tick_transport import TickTransport
from entrepot.gateway.transport.early_bytes import EarlyBytes
from entrepot.gateway.transport.http_requests import websocket_headers
from entrepot.gateway.transport.proxy_trust import ProxyTrust
from entrepot.gateway.transport.source import PROXY_HEADER, SOURCE, source_of

MAX_HEAD_BYTES: Final = 256 * 1024
"""Maximum size of a request's head in bytes: room for 128 event attributes, but not each at its largest size."""
MAX_HEADERS: Final = 512
MAX_BODY_AT_ONCE: Final = HIGH_WATER_LIMIT
"""Maximum body size of the fast path; larger bodies go through ASGI, which has flow control."""
MAX_URL_AT_ONCE: Final = 512
"""Maximum URL length of the fast path, because results are cached by URL."""
MAX_PARTS: Final = 64
"""Maximum number of body fragments before they are joined."""
_OF_THE_CONNECTION: Final = frozenset({b"expect", b"host", b"transfer-encoding"})
"""Headers that control how the request is read."""
_OVERBURDENED: Final = answer_of_status(503, "too much has come in requests that are not whole")


class HttpConnection(HttpToolsProtocol):
    """One connection.  `websockets`: the protocol of each WebSocket path, beside those of `event_sockets`, which go to
    the app.  `publish`: the fast path."""

    websockets: ClassVar[Mapping[bytes, type[asyncio.Protocol]]] = {}
    event_sockets: ClassVar[bool] = True
    publish: ClassVar[PublishAtOnce | None] = None
    results: ClassVar[PublishResults]
    max_body_at_once: ClassVar[int] = 0
    early: ClassVar[EarlyBytes]
    proxies: ClassVar[ProxyTrust] = ProxyTrust()
    """Addresses of HTTP proxies."""

    waiting_since = 0.0
    """Time since which a request is incomplete or the first one awaited; 0: neither."""
    idle_since = 0.0
    """Time since which the connection is idle; 0: not idle, or no request yet."""
    _head_bytes = _early_bytes = 0
    _is_head = True
    _has_body = False
    """True if the last bytes had a part of a body."""
    _messages = 0
    """Number of complete requests."""
    _parts: list[bytes] | None = None
    """The body so far of a publish for the fast path."""
    _is_new = False
    """True until the publish's head was checked by `may_come`."""
    _exchange: Exchange | None = None
    _host: bytes | None = None
    """The Host header of the incoming request."""
    _known_host: bytes | None = None
    """The last valid Host header, which is mostly repeated."""
    _last_answer: bytes | None = None
    """A refusal that ends the connection once earlier requests are answered; nothing more is read."""
    _is_upgrade_due = False
    """True if the connection is handed over once earlier requests are answered."""
    _is_websocket = False
    """True if the last request with an Upgrade becomes a WebSocket."""
    _is_offer = False
    """True until a request whose Upgrade is ignored is read again without it."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wrap the transport before anything is written."""
        self.waiting_since = self.loop.time()
        self._ticking = TickTransport(transport, self.loop)
        super().connection_made(self._ticking)  # type: ignore[arg-type]
        self._note_source(transport)
        look_at_descriptor(self, transport, self.server_state.default_headers)

    def _note_source(self, transport: asyncio.Transport) -> None:
        """Tell scopes where the client is, and its certificate.  That of an HTTP proxy is not its clients'."""
        header = self.app_state.get(PROXY_HEADER)
        source = source_of(transport, "http", header)
        is_told = header is not None and header.source is not None
        if is_told:
            self.client, self.scheme = (source.host, source.port), "https" if source.is_tls else "http"
        if is_told or (source.certificate is not None and not self.proxies.trusts(source.host)):
            self.app_state = {**self.app_state, SOURCE: source}
        self._peer = {"client": self.client, "state": self.app_state}

    def data_received(self, data: bytes) -> None:
        """Parse received bytes, note an incomplete request, and end a connection whose head grows too large."""
        if self._is_upgrade_due:  # a WebSocket client must wait for the answer (RFC 6455 4.1)
            self.transport.close()
            return
        if self._last_answer is not None:
            return
        before, self.idle_since = self._messages, 0.0
        rest = self._read(data)
        if rest is not None:
            self._look_at_upgrade(rest)
        if self._parts is not None and self._is_new:  # refuse it without waiting for its body
            self._is_new = False
            if self.publish is not None and not self.publish.may_come(self.url, self.headers, self._peer):
                self._go_on_by_asgi()
        if self._last_answer is not None or (self._messages != before and self._is_head):
            return
        if not self.waiting_since:
            self.waiting_since = self.loop.time()
        self._count(len(data))

    def _count(self, count: int) -> None:
        """Count the bytes of an incomplete request that are not its body; refuse too many of them in one piece."""
        self._head_bytes = 0 if self._has_body else self._head_bytes + count
        self._has_body = False
        if self._is_head:
            self._take_early(count)
        elif self._head_bytes > MAX_HEAD_BYTES:
            self._refuse(400, f"the request has {MAX_HEAD_BYTES} bytes of chunk extensions or trailers")

    def _read(self, data: bytes | memoryview) -> memoryview | None:
        """Parse bytes, and return those after a head with an Upgrade.  Unparsable ones are refused, and nothing after
        them is read."""
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._refuse(*refusal_of(error))  # unnamed here: the error refers to this connection
        except httptools.HttpParserUpgrade as upgrade:
            return memoryview(data)[upgrade.args[0] :]
        return None

    def _look_at_upgrade(self, rest: memoryview | None) -> None:
        """Begin a WebSocket, or go on with HTTP/1.1 after an offer of another protocol (RFC 9110 7.8).

        The parser leaves the body of each request with an Upgrade to the other protocol.  So a new one reads the
        request again, without its offer.  `rest`: the bytes after its head.
        """
        while rest is not None and self._last_answer is None:
            if self._is_offer:
                head = without_offer(self.parser.get_method(), self.url, self.parser.get_http_version(), self.headers)
                self.parser, self._is_offer, self._host = new_parser(self), False, None
                self._read(head)
                rest = self._read(rest) if self._last_answer is None else None
            elif rest:
                self._refuse(400, "a WebSocket client must wait for the answer")  # RFC 6455 4.1
            else:
                self.handle_websocket_upgrade()
                return

    def _refuse(self, status: int, detail: str) -> None:
        """End the connection with a problem, after the answers to earlier requests."""
        if self.transport.is_closing():
            return
        log_refusal("", self.url.decode("latin-1") if self.headers is not None else "", status, detail)
        last = last_answer(answer_of_status(status, detail), self.server_state.default_headers)
        self._last_answer, self.waiting_since, cycle = last, 0.0, self.cycle
        if not self._is_head and isinstance(cycle, RequestResponseCycle):  # its body cannot be read further
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
        """Count an incomplete head; refuse it where it is too large, or all such heads together are."""
        if self.transport.is_closing():
            return
        if self._head_bytes > MAX_HEAD_BYTES:
            self._refuse(400, f"the head of the request has more than {MAX_HEAD_BYTES} bytes")
        self._early_bytes += count
        if not self.early.take(count, self._early_bytes) and not self.transport.is_closing():
            self.transport.write(last_answer(_OVERBURDENED, self.server_state.default_headers))
            self.transport.close()

    def _release_early(self) -> None:
        if self._early_bytes:
            self.early.release(self._early_bytes)
            self._early_bytes = 0

    def connection_lost(self, exc: Exception | None) -> None:
        """Free the received parts at once."""
        self._parts = None
        self._release_early()
        super().connection_lost(exc)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header in place of uvicorn's method, for speed.  One too many is refused at once, because a single
        read may hold very many."""
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
                check_host(value)
                self._known_host = value
            self._host = value
        elif name == b"expect":
            if value.lower() == b"100-continue":
                self.expect_100_continue = True
        else:
            check_coding(value, self.parser.get_http_version())

    def on_headers_complete(self) -> None:
        parser = self.parser
        version, has_upgrade = parser.get_http_version(), parser.should_upgrade()
        if version != "1.1" or self._host is None:
            check_version(version, self._host)
        if has_upgrade and parser.get_method() == b"CONNECT":  # its client sends another protocol at once
            raise RefusedHeadError(501, "this server is not a proxy")
        if not self.url.startswith(b"/"):
            self.url = origin_form(self.url, self.headers)
        if has_upgrade and not self._takes_upgrade(parser.get_method(), version):
            return
        self._head_bytes, self.idle_since = 0, 0.0
        self._release_early()
        if self.publish is not None and self.url.endswith(SUFFIX) and self._may_be_at_once(version):
            self._parts, self._is_new = [], True
        else:
            self._begin_by_asgi()
        self._is_head = False

    def _takes_upgrade(self, method: bytes, version: str) -> bool:
        """True if a request with an Upgrade becomes a WebSocket; else it is read again without it."""
        path = self.url.partition(b"?")[0]
        found = None
        if not self.expect_100_continue and (path in self.websockets or (self.event_sockets and place_in(path))):
            found = websocket_headers(method, version, self.headers)
        self._is_websocket, self._is_offer = found is not None, found is None
        if found is not None:
            self.headers[:] = found
        return self._is_websocket

    def _should_upgrade(self) -> bool:
        return self._is_websocket

    def _begin_by_asgi(self) -> None:
        super().on_headers_complete()
        self.headers = []  # further ones are trailers, which are not headers (RFC 9110 6.5.1)

    def on_body(self, body: bytes) -> None:
        self._has_body = True
        if self._parts is None:
            super().on_body(body)
        else:
            self._parts.append(body)
            if len(self._parts) > MAX_PARTS:
                self._parts = [b"".join(self._parts)]

    def on_message_complete(self) -> None:
        if self._is_offer:
            return
        if self._parts is None and self.headers:
            check_trailers(self.headers)
        self._is_head, self.waiting_since, self._host = True, 0.0, None
        self._messages += 1
        if self._parts is not None:
            if self._took_at_once(b"".join(self._parts)):
                self._parts = None
                return
            self._go_on_by_asgi()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Go on with the next request.  Idle times are checked for all connections together: a timer for each answer
        would cost as much as writing it."""
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
        """Hand the connection over, once all earlier requests are answered."""
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
        self.parser = None  # type: ignore[assignment]  # it refers to this protocol, a reference cycle

    def shutdown(self) -> None:
        """Close once the incoming request, or else the last one, is answered."""
        if self._parts is not None:
            self._go_on_by_asgi()
        super().shutdown()

    # -- the fast path of publishes --------------------------------------------------------------------------------

    def _may_be_at_once(self, version: str) -> bool:
        """True for a plain HTTP/1.1 POST with a small body and no earlier answer pending."""
        declared = declared_length(self.headers)
        return (
            declared is not None
            and declared <= self.max_body_at_once
            and self.url.startswith(PREFIX)
            and len(self.url) <= MAX_URL_AT_ONCE
            and (self.cycle is None or self.cycle.response_complete)
            and self.parser.get_method() == b"POST"
            and version == "1.1"
            and not (self.expect_100_continue or self.flow.write_paused)
        )

    def _go_on_by_asgi(self) -> None:
        """Restart the request through ASGI with its parts so far.  Its URL is short and only a path, so this cannot
        fail outside the parser."""
        parts, self._parts = self._parts, None
        self._begin_by_asgi()
        for part in parts or ():
            super().on_body(part)

    def _took_at_once(self, body: bytes) -> bool:
        assert self.publish is not None
        exchange = self._exchange
        if exchange is None:
            exchange = self._exchange = Exchange()
        before, self.cycle = self.cycle, exchange  # type: ignore[assignment]
        exchange.response_complete, exchange.keep_alive = False, self.parser.should_keep_alive()
        if self.publish.at_once(self.url, self.headers, self._peer, body, self._answer):
            return True
        exchange.response_complete, self.cycle = True, before
        return False

    def _answer(self, problem: ProblemAnswer | None) -> None:
        """Write a publish's answer, and go on with the next request."""
        exchange = self._exchange
        assert exchange is not None
        exchange.response_complete = True
        if self.transport.is_closing():
            return
        common = self.server_state.default_headers
        if problem is None and exchange.keep_alive:
            self._ticking.write_now(self.results.published(common))
        else:
            encoded = encoded_answer if exchange.keep_alive else last_answer
            self._ticking.write_now(encoded(problem, common))
            if not exchange.keep_alive:
                self.transport.close()
        self.on_response_complete()
