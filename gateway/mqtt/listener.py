"""MqttListeners: the MQTT listeners: TCP, TLS, WebSocket, WebSocket over TLS, and WebSocket on the HTTP port."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from entrepot.gateway.settings import MqttSettings
from entrepot.gateway.settings.listeners import MQTT_LISTENERS
from entrepot.gateway.transport.acceptor import Acceptor
from entrepot.gateway.transport.binding import TcpListener
from entrepot.gateway.transport.certificates import CertificateFiles, HostCertificate, ServerCertificates
from entrepot.gateway.transport.deadlines import DeadlineWheel
from entrepot.gateway.transport.driver import Conversation, ListenerTerms
from entrepot.gateway.transport.early_bytes import EarlyBytes
from entrepot.gateway.transport.intake import Intake, IntakeLimits
from entrepot.gateway.transport.listeners import Listeners, listener
from entrepot.gateway.transport.proxy_trust import ProxyTrust
from entrepot.gateway.transport.web_origin import WebOrigins
from entrepot.gateway.transport.websocket import WebSocketTerms, upgraded

HTTP_PATH: Final = "/mqtt"
"""Path of MQTT over WebSocket on the HTTP port."""


class MqttListeners(Listeners):
    """The listeners, and what takes WebSocket connections over on the HTTP port."""

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
        """`further_origins` are also allowed on the HTTP port. For `hosts` see `WebOrigins`, for `takes_anonymous`
        `WebSocketTerms`. Raises OSError for unusable certificates."""
        self._settings = settings
        self._further_origins, self._hosts, self._takes_anonymous = further_origins, hosts, takes_anonymous
        self._converse, self._wheel, self._early = converse, wheel, early
        self._loop = asyncio.get_running_loop()
        self._intakes: list[Intake] = []
        self._proxies = ProxyTrust(settings.proxy_protocol, settings.trusted_proxies)
        is_tls = "mqtts" in sockets or "wss" in sockets
        certificates = ServerCertificates(_files(settings)) if is_tls else None
        there = [name for name in MQTT_LISTENERS if name in sockets]
        super().__init__([self._listener(name, sockets[name], certificates) for name in there], certificates)

    @property
    def refused(self) -> int:
        """Connections that were refused."""
        return sum(intake.refused for intake in self._intakes)

    def http_upgrade(self) -> type[asyncio.Protocol]:
        """The protocol class for WebSocket connections on the HTTP port."""
        return upgraded(self._terms("http"), self._websocket(HTTP_PATH, self._further_origins))

    def _listener(
        self, name: str, listening: socket.socket, certificates: ServerCertificates | None
    ) -> TcpListener | Acceptor:
        settings = self._settings
        websocket = self._websocket(settings.ws_path) if name in ("ws", "wss") else None
        own = certificates if name in ("mqtts", "wss") else None
        return listener(self._terms(name), listening, settings.connect_timeout_seconds, own, self._proxies, websocket)

    def _terms(self, name: str) -> ListenerTerms:
        settings = self._settings
        limits = IntakeLimits(
            connections=settings.max_connections_per_listener,
            accepts_per_second=settings.max_accepts_per_second,
            accepts_per_second_per_address=settings.max_accepts_per_second_per_address,
            half_open_per_address=settings.max_half_open_per_address,
        )
        intake = Intake(name, limits, self._loop.time())
        self._intakes.append(intake)
        return ListenerTerms(
            name, self._converse, self._loop, self._wheel, intake, settings.write_buffer_bytes, self._early
        )

    def _websocket(self, path: str, further_origins: Sequence[str] = ()) -> WebSocketTerms:
        settings = self._settings
        origins = WebOrigins((*settings.ws_origins, *further_origins), self._hosts)
        return WebSocketTerms(path, origins, settings.max_packet_size_bytes, self._takes_anonymous)


def _files(settings: MqttSettings) -> CertificateFiles:
    assert settings.tls_certificate is not None  # the settings were checked for it
    hosts = tuple(HostCertificate(each.host, each.certificate, each.key) for each in settings.tls_certificates)
    files = (settings.tls_certificate, settings.tls_key, settings.tls_ca, settings.tls_client_certificates)
    return CertificateFiles(*files, hosts, crl=settings.tls_crl)
