"""HttpListener: uvicorn on a bound socket, in the running event loop.

With TLS, or behind a balancer, connections are accepted here and then given to uvicorn's protocol, each with the
current certificates.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

import structlog
import uvicorn

from entrepot.domain.background import background
from entrepot.gateway.http.connection import MAX_BODY_AT_ONCE, HttpConnection
from entrepot.gateway.http.requests.asgi import AsgiApp
from entrepot.gateway.http.requests.at_once import PublishAtOnce
from entrepot.gateway.http.requests.encoded import PublishResults
from entrepot.gateway.http.streaming.event_socket_connection import EventSocketConnection
from entrepot.gateway.settings import HttpSettings
from entrepot.gateway.transport.acceptor import Acceptor
from entrepot.gateway.transport.certificates import CertificateFiles, ServerCertificates
from entrepot.gateway.transport.early_bytes import EarlyBytes
from entrepot.gateway.transport.intake import Intake, IntakeLimits, Place
from entrepot.gateway.transport.proxy_trust import ProxyTrust
from entrepot.gateway.transport.source import PROXY_HEADER
from entrepot.protocols.proxy import ProxyHeader

BACKLOG: Final = 2048
SWEEP_SECONDS: Final = 5.0
NO_WEBSOCKETS: Final[Mapping[bytes, type[asyncio.Protocol]]] = MappingProxyType({})
HANDSHAKE_SECONDS: Final = 10.0
"""Longest time for a PROXY header and the TLS handshake, in seconds."""
_STEP_SECONDS: Final = 0.01

log = structlog.get_logger(__name__)


class HttpListener:
    """One listener.  It leaves signals, logging and the event loop to the process.  `websockets`: the protocol of each
    WebSocket path; those of event sockets go to the app if it has `event_sockets`.  `publish`: the fast path of
    publishes."""

    def __init__(
        self,
        app: AsgiApp,
        bound: socket.socket,
        settings: HttpSettings,
        early: EarlyBytes,
        websockets: Mapping[bytes, type[asyncio.Protocol]] = NO_WEBSOCKETS,
        publish: PublishAtOnce | None = None,
        *,
        event_sockets: bool = True,
    ) -> None:
        self._socket = bound
        self._protocol = http_connection(
            websockets,
            publish,
            settings.max_body_bytes,
            early,
            ProxyTrust("off", settings.trusted_proxies),
            event_sockets=event_sockets,
        )
        self._config = uvicorn.Config(
            app,
            http=self._protocol,
            ws=EventSocketConnection,
            ws_max_size=settings.max_body_bytes,
            ws_per_message_deflate=False,
            loop="none",
            interface="asgi3",
            lifespan="off",
            log_config=None,
            log_level="warning",
            access_log=False,
            proxy_headers=False,
            server_header=False,
            timeout_keep_alive=max(1, round(settings.keep_alive_seconds)),
            backlog=BACKLOG,
        )
        self._server = uvicorn.Server(self._config)
        self.certificates: ServerCertificates | None = None
        self._acceptor: Acceptor | None = None
        if settings.tls_certificate is not None:
            files = (settings.tls_certificate, settings.tls_key, settings.tls_ca, settings.tls_client_certificates)
            self.certificates = ServerCertificates(CertificateFiles(*files, crl=settings.tls_crl))
        self._proxies = ProxyTrust(settings.proxy_protocol, settings.trusted_proxies)
        self._ticker: asyncio.Task[None] | None = None
        self._sweeper: asyncio.Task[None] | None = None
        self._request_seconds = settings.request_seconds

    @property
    def connections(self) -> int:
        """Number of open connections."""
        return len(self._server.server_state.connections)

    @property
    def requests(self) -> int:
        """Number of answered requests."""
        return self._server.server_state.total_requests

    async def start(self) -> None:
        """Start accepting connections."""
        self._config.load()
        self._server.lifespan = self._config.lifespan_class(self._config)
        is_direct = self.certificates is None and self._proxies.mode == "off"
        await self._server.startup(sockets=[self._socket] if is_direct else [])
        if not is_direct:
            name = "http" if self.certificates is None else "https"
            intake = Intake(name, IntakeLimits(), asyncio.get_running_loop().time())
            of_connection = (HANDSHAKE_SECONDS, self.certificates, self._proxies)
            self._acceptor = Acceptor(self._socket, self._begin, intake, *of_connection)
            await self._acceptor.start()
        self._ticker = background().keep("date of HTTP answers", self._server.main_loop)  # updates the Date header
        self._sweeper = background().keep("idle HTTP connections", self._sweep)

    def _begin(self, place: Place) -> Callable[[ProxyHeader | None], asyncio.Protocol]:
        """A connection before its PROXY header and its TLS handshake.  Its place is left at once: no limit applies
        here."""
        place.leave()
        state = self._server.lifespan.state

        def make(header: ProxyHeader | None) -> asyncio.Protocol:
            told = state if header is None else {**state, PROXY_HEADER: header}
            return self._protocol(self._config, self._server.server_state, told)

        return make

    async def _sweep(self) -> None:
        """Close idle connections, and those with an incomplete request for too long."""
        loop = asyncio.get_running_loop()
        keep_alive = self._config.timeout_keep_alive
        while True:
            await asyncio.sleep(min(self._request_seconds / 4, keep_alive / 4, SWEEP_SECONDS))
            now = loop.time()
            for connection in tuple(self._server.server_state.connections):
                if not isinstance(connection, HttpConnection) or connection.transport is None:
                    continue
                if 0 < connection.waiting_since < now - self._request_seconds:
                    connection.transport.abort()
                elif 0 < connection.idle_since < now - keep_alive:
                    connection.transport.close()

    async def stop(self, grace_seconds: float) -> None:
        """Stop accepting, let requests finish for the grace period, then close the rest."""
        if self._ticker is None:
            return
        self._ticker.cancel()
        self._ticker = None
        if self._sweeper is not None:
            self._sweeper.cancel()
        for server in self._server.servers:
            server.close()
        if self._acceptor is not None:
            self._acceptor.stop_accepting()
        self._socket.close()
        state = self._server.server_state
        for connection in tuple(state.connections):
            try:
                connection.shutdown()
            except Exception:  # one connection's failure must not end the others early
                log.exception("could not close a connection in order; aborting it")
                connection.transport.abort()
        loop = asyncio.get_running_loop()
        end = loop.time() + grace_seconds
        while state.tasks and (left := end - loop.time()) > 0:
            await asyncio.wait(tuple(state.tasks), timeout=left)
        for task in tuple(state.tasks):
            task.cancel("the server is stopping")
        while state.connections and loop.time() < end:  # noqa: ASYNC110 - uvicorn has no event for it
            await asyncio.sleep(_STEP_SECONDS)  # last answers are being written
        for connection in tuple(state.connections):
            if connection.transport is not None:
                connection.transport.abort()


def http_connection(
    websockets: Mapping[bytes, type[asyncio.Protocol]],
    publish: PublishAtOnce | None,
    max_body_bytes: int,
    early: EarlyBytes,
    proxies: ProxyTrust,
    *,
    event_sockets: bool = True,
) -> type[HttpConnection]:
    """Make the protocol class of a listener."""
    own: dict[str, Any] = {
        "websockets": websockets,
        "event_sockets": event_sockets,
        "publish": publish,
        "early": early,
        "proxies": proxies,
        "results": PublishResults(),
        "max_body_at_once": min(max_body_bytes, MAX_BODY_AT_ONCE),
    }
    return type("ListenerConnection", (HttpConnection,), own)
