"""The RocketMQ listener: gRPC on one port, with TLS, without it, or both."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import structlog

from entrepot.gateway.security.self_made_certificate import FILE_NAME, self_made_certificate
from entrepot.gateway.settings.grpc import GrpcSettings
from entrepot.gateway.transport.certificates import CertificateFiles, ServerCertificates
from entrepot.gateway.transport.deadlines import DeadlineWheel
from entrepot.gateway.transport.driver import Conversation, ListenerTerms
from entrepot.gateway.transport.early_bytes import EarlyBytes
from entrepot.gateway.transport.intake import Intake, IntakeLimits
from entrepot.gateway.transport.listeners import Listeners, listener
from entrepot.gateway.transport.proxy_trust import ProxyTrust

NAME: Final = "grpc"
"""The listener's name."""
INSIDE_TLS: Final = ("h2",)
"""The protocol that clients of TLS ask for: some end the connection where they are not told."""

log = structlog.get_logger(__name__)


def grpc_listener(
    settings: GrpcSettings,
    listening: socket.socket,
    converse: Callable[[], Conversation],
    wheel: DeadlineWheel,
    early: EarlyBytes,
    data_dir: Path | None,
) -> Listeners:
    """Make the listener.  `data_dir`: where a self-made certificate is kept.  Raises OSError for unusable
    certificates."""
    loop = asyncio.get_running_loop()
    certificates, watched = _certificates(settings, data_dir)
    limits = IntakeLimits(
        connections=settings.max_connections,
        accepts_per_second=settings.max_accepts_per_second,
        half_open_per_address=settings.max_half_open_per_address,
    )
    intake = Intake(NAME, limits, loop.time())
    terms = ListenerTerms(NAME, converse, loop, wheel, intake, settings.write_buffer_bytes, early)
    made = listener(
        terms,
        listening,
        settings.handshake_timeout_seconds,
        certificates,
        ProxyTrust(settings.proxy_protocol, settings.trusted_proxies),
        is_tls_optional=settings.tls == "optional",
    )
    return Listeners([made], watched)


def _certificates(
    settings: GrpcSettings, data_dir: Path | None
) -> tuple[ServerCertificates | None, ServerCertificates | None]:
    """Return the certificates, and those to read again when their files change: a self-made one stays."""
    if settings.tls == "off":
        return None, None
    if settings.tls_certificate is not None:
        found = ServerCertificates(_files(settings, settings.tls_certificate, settings.tls_key))
        return found, found
    kept = settings.tls_self_made_file or (None if data_dir is None else data_dir / FILE_NAME)
    if kept is not None:
        try:
            return _self_made(settings, kept, str(kept)), None
        except OSError as error:
            log.warning("a self-made certificate cannot be kept: this start has its own", error=str(error))
    with TemporaryDirectory(prefix="entrepot-") as directory:
        return _self_made(settings, Path(directory) / FILE_NAME, "none"), None


def _self_made(settings: GrpcSettings, path: Path, shown: str) -> ServerCertificates:
    sha256 = self_made_certificate(path)
    found = ServerCertificates(_files(settings, path, None))
    log.info("a self-made certificate is used for TLS", listener=NAME, sha256=sha256, file=shown)
    return found


def _files(settings: GrpcSettings, certificate: Path, key: Path | None) -> CertificateFiles:
    of_clients = (settings.tls_ca, settings.tls_client_certificates)
    return CertificateFiles(certificate, key, *of_clients, protocols=INSIDE_TLS, crl=settings.tls_crl)
