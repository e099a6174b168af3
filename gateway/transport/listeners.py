"""Listeners: the listening sockets of one protocol, and the certificates that they share."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence

from entrepot.gateway.transport.acceptor import Acceptor
from entrepot.gateway.transport.binding import TcpListener
from entrepot.gateway.transport.certificates import ServerCertificates
from entrepot.gateway.transport.driver import Driver, ListenerTerms
from entrepot.gateway.transport.intake import Place
from entrepot.gateway.transport.proxy_trust import ProxyTrust
from entrepot.gateway.transport.websocket import WebSocketDriver, WebSocketTerms
from entrepot.protocols.proxy import ProxyHeader


class Listeners:
    """The listeners of one protocol.  `certificates`: None where no listener speaks TLS."""

    def __init__(self, listeners: Sequence[TcpListener | Acceptor], certificates: ServerCertificates | None) -> None:
        self._listeners, self.certificates = listeners, certificates

    async def start(self) -> None:
        """Accept connections."""
        for listener in self._listeners:
            await listener.start()

    def stop_accepting(self) -> None:
        """Close the listening sockets; connections stay open."""
        for listener in self._listeners:
            listener.stop_accepting()


def listener(
    terms: ListenerTerms,
    listening: socket.socket,
    handshake_seconds: float,
    certificates: ServerCertificates | None,
    proxies: ProxyTrust,
    websocket: WebSocketTerms | None = None,
    *,
    is_tls_optional: bool = False,
) -> TcpListener | Acceptor:
    """Build the listener of a socket.  `websocket`: for connections that speak WebSocket.  `is_tls_optional`: it takes
    TLS and plaintext."""

    def begin(place: Place | None) -> Callable[[ProxyHeader | None], Driver]:
        conversation = terms.converse()
        if websocket is None:
            return lambda header: Driver(terms, conversation, place, header)
        return lambda header: WebSocketDriver(terms, websocket, conversation, place, header)

    if certificates is None and proxies.mode == "off":
        return TcpListener(listening, lambda: begin(None)(None))
    return Acceptor(
        listening, begin, terms.intake, handshake_seconds, certificates, proxies, is_tls_optional=is_tls_optional
    )
