"""An HTTP connection without a socket: bytes go in as a test cuts them, and what was run and answered comes out."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

import uvicorn
from structlog.testing import capture_logs
from uvicorn.server import ServerState

from entrepot.gateway.http.connection import HttpConnection
from entrepot.gateway.http.requests.asgi import Headers, Receive, Scope, Send, answer
from entrepot.gateway.http.requests.at_once import OnPublished, Peer
from entrepot.gateway.http.requests.publish import PUBLISHED, PUBLISHED_HEADERS, SUFFIX
from entrepot.gateway.http.server import http_connection
from entrepot.gateway.transport.early_bytes import EarlyBytes
from entrepot.gateway.transport.proxy_trust import ProxyTrust

MQTT_PATH: Final = b"/mqtt"
"""The one path of WebSockets, beside those of event sockets."""
MAX_BODY_BYTES: Final = 1 << 20
_QUIET_TURNS: Final = 4
"""Turns of the loop without news, after which nothing more is expected."""

Run = tuple[bytes, bytes, bytes]
"""A request that was run: method, target and body."""


@dataclass(slots=True)
class Outcome:
    """What a connection did: requests with their whole bodies, the answers, and whether it was closed."""

    run: list[Run] = field(default_factory=list)
    answers: bytes = b""
    is_closed: bool = False
    hosts: list[bytes] = field(default_factory=list, compare=False)
    """The hosts that the app was asked by; the fast path tells none."""
    websocket: bytes | None = None
    """What a WebSocket got behind its request; None if there is none."""

    @property
    def statuses(self) -> list[int]:
        """The statuses of the answers, interim ones included. Raises ValueError if the answers are not whole."""
        found, rest = [], self.answers
        while rest:
            head, end, rest = rest.partition(b"\r\n\r\n")
            lines = head.split(b"\r\n")
            found.append(int(lines[0].split(b" ")[1]))
            lengths = [
                int(line.partition(b":")[2]) for line in lines[1:] if line.lower().startswith(b"content-length:")
            ]
            length = lengths[0] if lengths else 0
            if not end or len(rest) < length:
                raise ValueError(f"the answer is not whole: {self.answers!r}")
            rest = rest[length:]
        return found


class _Transport(asyncio.Transport):
    """The socket's side; it closes at once, as all that is written has left."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__({"peername": ("127.0.0.1", 1), "sockname": ("127.0.0.1", 2)})
        self._outcome = outcome
        self.protocol: Any = None
        self.is_paused = False

    def write(self, data: Any) -> None:
        assert not self._outcome.is_closed, "written after the end"
        self._outcome.answers += bytes(data)

    def is_closing(self) -> bool:
        return self._outcome.is_closed

    def close(self) -> None:
        self._outcome.is_closed = True

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self.protocol = protocol


class _Socket(asyncio.Protocol):
    """A WebSocket that notes what it gets, and answers nothing."""

    def __init__(self, outcome: Outcome) -> None:
        self._outcome = outcome

    def data_received(self, data: bytes) -> None:
        got = self._outcome.websocket
        self._outcome.websocket = b"" if got is None else got + data  # the first is the request


class _Publishing:
    """The fast path: a publish to `later` is left to the app, as where a topic is to be made."""

    def __init__(self, outcome: Outcome) -> None:
        self._outcome = outcome

    def may_come(self, url: bytes, headers: Headers, peer: Peer) -> bool:
        return b"later" not in url

    def at_once(self, url: bytes, headers: Headers, peer: Peer, body: bytes, on_published: OnPublished) -> bool:
        self._outcome.run.append((b"POST", url, body))
        on_published(None)
        return True


class HttpMachine:
    """Feeds connections. `reads`: the app waits for a request's whole body; else it answers at once without reading."""

    def __init__(self, *, reads: bool = True, event_sockets: bool = True) -> None:
        self._reads, self._event_sockets = reads, event_sockets

    def outcome(self, parts: Iterable[bytes], *, in_turn: bool = True) -> Outcome:
        """What comes of these parts. `in_turn`: all is answered before the next part comes."""
        return self.outcomes([parts], in_turn=in_turn)[0]

    def outcomes(self, ways: Iterable[Iterable[bytes]], *, in_turn: bool = True) -> list[Outcome]:
        """What comes of the parts of each way, on a connection of its own."""

        async def each() -> list[Outcome]:
            return [await self._fed(parts, in_turn=in_turn) for parts in ways]

        with capture_logs():  # of each refusal
            return asyncio.run(each())

    async def _fed(self, parts: Iterable[bytes], *, in_turn: bool) -> Outcome:
        outcome = Outcome()
        transport = _Transport(outcome)
        connection = transport.protocol = self._connection(outcome)
        connection.connection_made(transport)
        for part in parts:
            if in_turn or transport.is_paused:
                await self._settled(outcome)
            else:
                await asyncio.sleep(0)
            if outcome.is_closed:
                break
            assert not transport.is_paused, "nobody reads on"
            transport.protocol.data_received(part)
        await self._settled(outcome)
        is_closed = outcome.is_closed
        if transport.protocol is connection:
            connection.connection_lost(None)
        await self._settled(outcome)
        outcome.is_closed = is_closed  # by the server
        return outcome

    def _connection(self, outcome: Outcome) -> HttpConnection:
        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            outcome.hosts += [value for name, value in scope["headers"] if name == b"host"]
            body, more = b"", self._reads
            while more:
                message = await receive()
                if message["type"] == "http.disconnect":
                    return
                body += message["body"]
                more = message["more_body"]
            query = b"?" + scope["query_string"] if scope["query_string"] else b""
            run = scope["method"].encode(), scope["raw_path"] + query, body
            outcome.run.append(run)
            if scope["raw_path"].endswith(SUFFIX):  # as the fast path answers
                await answer(send, 200, PUBLISHED_HEADERS, PUBLISHED)
            else:
                await answer(send, 200, [], repr(run).encode())

        def websocket(**_of_uvicorn: object) -> asyncio.Protocol:
            return _Socket(outcome)

        kind = http_connection(
            {MQTT_PATH: websocket},  # type: ignore[dict-item]  # called as one is made
            _Publishing(outcome),
            MAX_BODY_BYTES,
            EarlyBytes(1 << 30),
            ProxyTrust(),
            event_sockets=self._event_sockets,
        )
        config = uvicorn.Config(app, http=kind, ws=websocket, lifespan="off", log_config=None, access_log=False)  # type: ignore[arg-type]
        config.load()
        config.ws_protocol_class = websocket  # type: ignore[assignment]
        return kind(config, ServerState(), {})

    async def _settled(self, outcome: Outcome) -> None:
        """Wait until nothing changes any more."""
        seen, quiet = (-1, -1, False), 0
        while quiet < _QUIET_TURNS:
            await asyncio.sleep(0)
            now = (len(outcome.run), len(outcome.answers), outcome.is_closed)
            quiet, seen = (quiet + 1 if now == seen else 0), now
