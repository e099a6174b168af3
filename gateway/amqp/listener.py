"""AmqpDoors: the AMQP listeners."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Mapping
from typing import Final

from gateway.deadlines import DeadlineWheel
from gateway.driver import Conversation, Door, Driver
from gateway.listener import TcpListener
from gateway.settings.amqp import AmqpSettings
from gateway.transport.acceptor import Acceptor
from gateway.transport.certificates import CertificateFiles, ServerCertificates
from gateway.transport.early_bytes import EarlyBytes
from gateway.transport.intake import Intake, IntakeLimits, Place
from gateway.transport.proxy_trust import ProxyTrust
from protocols.proxy import ProxyHeader

AMQP_DOORS: Final = ("amqp", "amqps")


def open_amqp_doors(settings: AmqpSettings) -> tuple[str, ...]:
    """The names of the listeners that the settings ask for."""
    if not settings.enabled:
        return ()
    return ("amqp",) if settings.tls_port is None else AMQP_DOORS


class AmqpDoors:
    """The listeners and their certificates. Raises OSError for unusable certificates."""

    def __init__(
        self,
        settings: AmqpSettings,
        sockets: Mapping[str, socket.socket],
        converse: Callable[[], Conversation],
        wheel: DeadlineWheel,
        early: EarlyBytes,
    ) -> None:
        self._settings = settings
        self._converse = converse
        self._wheel = wheel
        self._early = early
        self._loop = asyncio.get_running_loop()
        self.certificates: ServerCertificates | None = None
        if "amqps" in sockets:
            assert settings.tls_certificate is not None  # the settings were checked for it
            self.certificates = ServerCertificates(
                CertificateFiles(
                    settings.tls_certificate, settings.tls_key, settings.tls_ca, settings.tls_client_certificates, ()
                )
            )
        self._listeners = [self._listener(name, sockets[name]) for name in AMQP_DOORS if name in sockets]

    async def start(self) -> None:
        """Accept connections."""
        for listener in self._listeners:
            await listener.start()

    def stop_accepting(self) -> None:
        """Close the listening sockets; connections stay."""
        for listener in self._listeners:
            listener.stop_accepting()

    def _listener(self, name: str, listener: socket.socket) -> TcpListener | Acceptor:
        settings = self._settings
        limits = IntakeLimits(connections=settings.max_connections)
        intake = Intake(name, limits, self._loop.time())
        most = settings.write_buffer_bytes
        door = Door(name, self._converse, self._loop, self._wheel, intake, most, self._early)

        def begin(place: Place | None) -> Callable[[ProxyHeader | None], Driver]:
            conversation = door.converse()
            return lambda header: Driver(door, conversation, place, header)

        if name == "amqp":
            return TcpListener(listener, lambda: begin(None)(None))
        seconds = settings.handshake_timeout_seconds
        return Acceptor(listener, begin, intake, seconds, self.certificates, ProxyTrust("off", ()))
