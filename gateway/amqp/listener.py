"""The AMQP listeners: TCP and TLS."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Mapping

from entrepot.gateway.settings.amqp import AMQP_LISTENERS, AmqpSettings
from entrepot.gateway.transport.certificates import CertificateFiles, ServerCertificates
from entrepot.gateway.transport.deadlines import DeadlineWheel
from entrepot.gateway.transport.driver import Conversation, ListenerTerms
from entrepot.gateway.transport.early_bytes import EarlyBytes
from entrepot.gateway.transport.intake import Intake, IntakeLimits
from entrepot.gateway.transport.listeners import Listeners, listener
from entrepot.gateway.transport.proxy_trust import ProxyTrust


def amqp_listeners(
    settings: AmqpSettings,
    sockets: Mapping[str, socket.socket],
    converse: Callable[[], Conversation],
    wheel: DeadlineWheel,
    early: EarlyBytes,
) -> Listeners:
    """Make the listeners. Raises OSError for unusable certificates."""
    loop = asyncio.get_running_loop()
    certificates: ServerCertificates | None = None
    if "amqps" in sockets:
        assert settings.tls_certificate is not None  # the settings were checked for it
        files = (settings.tls_certificate, settings.tls_key, settings.tls_ca, settings.tls_client_certificates)
        certificates = ServerCertificates(CertificateFiles(*files, crl=settings.tls_crl))

    def terms(name: str) -> ListenerTerms:
        intake = Intake(name, IntakeLimits(connections=settings.max_connections), loop.time())
        return ListenerTerms(name, converse, loop, wheel, intake, settings.write_buffer_bytes, early)

    seconds = settings.handshake_timeout_seconds
    proxies = ProxyTrust(settings.proxy_protocol, settings.trusted_proxies)
    return Listeners(
        [
            listener(terms(name), sockets[name], seconds, certificates if name == "amqps" else None, proxies)
            for name in AMQP_LISTENERS
            if name in sockets
        ],
        certificates,
    )
