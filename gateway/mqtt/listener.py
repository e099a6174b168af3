"""MqttDoors: the MQTT listeners: TCP, TLS, WebSocket, WebSocket over TLS, and WebSocket on the HTTP port."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from gateway.deadlines import DeadlineWheel
from gateway.driver import Conversation, Door, Driver
from gateway.listener import TcpListener
from gateway.settings import MqttSettings
from gateway.transport.acceptor import Acceptor
from gateway.transport.certificates import CertificateFiles, HostCertificate, ServerCertificates
from gateway.transport.early_bytes import EarlyBytes
from gateway.transport.intake import Intake, IntakeLimits, Place
from gateway.transport.proxy_trust import ProxyTrust
from gateway.transport.web_origin import WebOrigins
from gateway.transport.websocket import WebSocketDriver, WebSocketTerms, upgraded
from protocols.proxy import ProxyHeader

MQTT_DOORS: Final = ("mqtt", "mqtts", "ws", "wss")
HTTP_PATH: Final = "/mqtt"
"""Path of MQTT over WebSocket on the HTTP port."""


def open_mqtt_doors(settings: MqttSettings) -> tuple[str, ...]:
    """The names of the listeners that the settings ask for."""
    if not settings.enabled:
        return ()
    ports = (settings.tls_port, settings.ws_port, settings.wss_port)
    is_open = (settings.tcp, *(port is not None for port in ports))
    return tuple(name for name, wanted in zip(MQTT_DOORS, is_open, strict=True) if wanted)


class MqttDoors:
    """The listeners, and their shared certificates. Raises OSError for unusable certificates."""

    def __init__(
        self,
        settings: MqttSettings,
        sockets: Mapping[str, socket.socket],
        converse: Callable[[], Conversation],
        wheel: DeadlineWheel,
        early: EarlyBytes,
        further_origins: Sequence[str],
        hosts: Sequence[str],
        takes_anonymous: Callable[[str], bool],
    ) -> None:
        """Make the listeners; `further_origins` are also allowed on the HTTP port. For `hosts` see `WebOrigins`, for
        `takes_anonymous` `WebSocketTerms`."""
        self._settings = settings
        self._further_origins, self._hosts, self._takes_anonymous = further_origins, hosts, takes_anonymous
        self._converse = converse
        self._wheel = wheel
        self._early = early
        self._loop = asyncio.get_running_loop()
        self._intakes: list[Intake] = []
        self.certificates: ServerCertificates | None = None
        if "mqtts" in sockets or "wss" in sockets:
            self.certificates = ServerCertificates(_files(settings))
        self._proxies = ProxyTrust(settings.proxy_protocol, settings.trusted_proxies)
        self._listeners = [self._listener(name, sockets[name]) for name in MQTT_DOORS if name in sockets]

    @property
    def refused(self) -> int:
        """Connections that were refused."""
        return sum(intake.refused for intake in self._intakes)

    @property
    def half_open(self) -> int:
        """Connections before their login."""
        return sum(intake.half_open for intake in self._intakes)

    def http_upgrade(self) -> type[asyncio.Protocol]:
        """The protocol class for WebSocket connections on the HTTP port."""
        return upgraded(self._door("http"), self._terms(HTTP_PATH, self._further_origins))

    async def start(self) -> None:
        """Accept connections."""
        for listener in self._listeners:
            await listener.start()

    def stop_accepting(self) -> None:
        """Close the listening sockets; connections stay."""
        for listener in self._listeners:
            listener.stop_accepting()

    def _listener(self, name: str, listener: socket.socket) -> TcpListener | Acceptor:
        door = self._door(name)
        terms = self._terms(self._settings.ws_path) if name in ("ws", "wss") else None
        certificates = self.certificates if name in ("mqtts", "wss") else None

        def begin(place: Place | None) -> Callable[[ProxyHeader | None], Driver]:
            conversation = door.converse()
            if terms is None:
                return lambda header: Driver(door, conversation, place, header)
            return lambda header: WebSocketDriver(door, terms, conversation, place, header)

        if certificates is None and self._proxies.mode == "off":
            return TcpListener(listener, lambda: begin(None)(None))
        seconds = self._settings.connect_timeout_seconds
        return Acceptor(listener, begin, door.intake, seconds, certificates, self._proxies)

    def _door(self, name: str) -> Door:
        settings = self._settings
        limits = IntakeLimits(
            connections=settings.max_connections_per_listener,
            accepts_per_second=settings.max_accepts_per_second,
            accepts_per_second_per_address=settings.max_accepts_per_second_per_address,
            half_open_per_address=settings.max_half_open_per_address,
        )
        intake = Intake(name, limits, self._loop.time())
        self._intakes.append(intake)
        return Door(name, self._converse, self._loop, self._wheel, intake, settings.write_buffer_bytes, self._early)

    def _terms(self, path: str, further_origins: Sequence[str] = ()) -> WebSocketTerms:
        settings = self._settings
        origins = WebOrigins((*settings.ws_origins, *further_origins), self._hosts)
        return WebSocketTerms(path, origins, settings.max_packet_size_bytes, self._takes_anonymous)


def _files(settings: MqttSettings) -> CertificateFiles:
    assert settings.tls_certificate is not None  # the settings were checked for it
    hosts = tuple(HostCertificate(each.host, each.certificate, each.key) for each in settings.tls_certificates)
    return CertificateFiles(
        settings.tls_certificate, settings.tls_key, settings.tls_ca, settings.tls_client_certificates, hosts
    )
