"""Acceptor: a listening socket whose connections need something before they can talk: a PROXY header, TLS.

It accepts by itself: a refused connection costs no TLS, each handshake takes the present certificates, and the header
is read before TLS begins. A task opens a connection and ends when it is open. Invariant: header and handshake together
take at most `open_seconds`.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Final

import structlog

from entrepot.domain.background import background
from entrepot.gateway.transport.certificates import ServerCertificates
from entrepot.gateway.transport.intake import Intake, Place
from entrepot.gateway.transport.proxy_trust import ProxyTrust, peek
from entrepot.protocols import tls_record
from entrepot.protocols.proxy import MalformedProxyHeaderError, ProxyHeader

ACCEPTS_PER_TURN: Final = 64
"""Connections accepted before others have their turn."""
PAUSE_SECONDS: Final = 1.0
"""Pause of accepting when the system has no room for a connection."""
TLS_GOODBYE_SECONDS: Final = 5.0
"""Longest wait for a peer to answer the end of TLS before its connection is cut."""

Begin = Callable[[Place], Callable[[ProxyHeader | None], asyncio.BaseProtocol]]
"""Function for an accepted connection: its result makes the protocol once the header is known."""

log = structlog.get_logger(__name__)


class Acceptor:
    """One listening socket."""

    def __init__(
        self,
        listener: socket.socket,
        begin: Begin,
        intake: Intake,
        open_seconds: float,
        certificates: ServerCertificates | None = None,
        proxies: ProxyTrust | None = None,
        *,
        is_tls_optional: bool = False,
    ) -> None:
        """`is_tls_optional`: the first byte of a connection says if it is TLS; else all are, given certificates."""
        self._socket = listener
        self._begin = begin
        self._intake = intake
        self._open_seconds = open_seconds
        self._certificates = certificates
        self._proxies, self._is_tls_optional = proxies or ProxyTrust(), is_tls_optional
        self._loop = asyncio.get_running_loop()
        self._opening: set[asyncio.Task[None]] = set()
        self._pause: asyncio.TimerHandle | None = None

    async def start(self) -> None:
        """Accept connections."""
        self._loop.add_reader(self._socket, self._accept)

    def stop_accepting(self) -> None:
        """Close the listening socket, and connections that are not open yet."""
        if self._pause is not None:
            self._pause.cancel()
        self._loop.remove_reader(self._socket)
        self._socket.close()
        for task in tuple(self._opening):
            task.cancel()

    def _accept(self) -> None:
        for _ in range(ACCEPTS_PER_TURN):
            try:
                connection, address = self._socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:  # no file descriptors, no memory: the socket would stay readable all the time
                log.error("cannot accept", listener=self._intake.listener, error=str(error))
                self._loop.remove_reader(self._socket)
                self._pause = self._loop.call_later(PAUSE_SECONDS, self._go_on)
                return
            place = self._intake.enter(self._loop.time(), connection.fileno())
            if place is None:
                connection.close()
                continue
            task = background(self._loop).start("begin of a connection", self._open(connection, address[0], place))
            self._opening.add(task)
            task.add_done_callback(self._opening.discard)

    def _go_on(self) -> None:
        self._pause = None
        self._loop.add_reader(self._socket, self._accept)

    async def _open(self, connection: socket.socket, host: str, place: Place) -> None:
        is_open = False
        reason = "no PROXY header"
        try:
            connection.setblocking(False)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            make = self._begin(place)
            async with asyncio.timeout(self._open_seconds):
                header = await self._proxies.take_header(connection, host)
                if header is not None and header.source is not None:
                    host = header.source[0]
                if not place.claim(host, self._loop.time()):
                    return
                certificates = self._certificates
                if self._is_tls_optional:
                    reason = "no first byte"
                    begin = await peek(connection, 1)
                    if not begin:
                        return  # who looks at ports says nothing
                    certificates = certificates if begin[0] == tls_record.HANDSHAKE else None
                reason = "no TLS handshake"
                await self._converse(connection, lambda: make(header), certificates)
                is_open = True
        except (OSError, MalformedProxyHeaderError) as error:
            self._intake.refuse(reason, host, str(error) or "it took too long")
        finally:
            if not is_open:
                place.leave()
                connection.close()

    async def _converse(
        self,
        connection: socket.socket,
        make: Callable[[], asyncio.BaseProtocol],
        certificates: ServerCertificates | None,
    ) -> None:
        if certificates is None:
            await self._loop.connect_accepted_socket(make, connection)
        else:
            await self._loop.connect_accepted_socket(
                make,
                connection,
                ssl=certificates.context,
                ssl_handshake_timeout=self._open_seconds,
                ssl_shutdown_timeout=TLS_GOODBYE_SECONDS,
            )
