"""GrpcListener: the port of the RocketMQ listener, and the gRPC server behind it.

gRPC listens by itself: the port was reserved before, and is gRPC's from `start` on. Where a port takes TLS and
plaintext, connections are accepted here, and relayed to one of two ports of this machine by their first byte.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any, Final

import grpc
import grpc.aio
import structlog

from entrepot.domain.descriptors import descriptors
from entrepot.domain.written_text import without_mark
from entrepot.gateway.rocketmq.relay import GrpcRelay
from entrepot.gateway.settings.grpc import GrpcSettings
from entrepot.gateway.transport.certificates import CertificateFiles, ServerCertificates

MAX_STREAMS: Final = 10_000
"""Calls of one connection at one time: every long poll is one."""
MAX_CONNECTIONS: Final = 1_000_000
"""Most connections where the process has no limit of descriptors, or a high one."""
PING_MS: Final = 5_000
"""Least interval between a client's HTTP/2 pings, with or without calls."""

log = structlog.get_logger(__name__)


def most_connections() -> int:
    """Most connections of the gRPC library, which accepts by itself: half of what the process's limit leaves to all."""
    found = descriptors()
    return MAX_CONNECTIONS if found.limit is None else min((found.limit - found.reserve) // 2, MAX_CONNECTIONS)


class GrpcListener:
    """The port and its server. Raises OSError for unusable certificates. `on_relayed` gets the client's address by
    gRPC's name of the peer; None after the end of the connection."""

    def __init__(
        self,
        settings: GrpcSettings,
        reserved: socket.socket,
        handler: grpc.GenericRpcHandler[Any, Any],
        on_relayed: Callable[[str, str | None], None],
        *,
        is_shared: bool,
    ) -> None:
        self._settings, self._reserved, self._on_relayed = settings, reserved, on_relayed
        self.certificates: ServerCertificates | None = None
        if settings.tls != "off":
            assert settings.tls_certificate is not None  # the settings were checked for it
            files = CertificateFiles(
                settings.tls_certificate, settings.tls_key, settings.tls_ca, settings.tls_client_certificates
            )
            self.certificates = ServerCertificates(files)
        self._relay: GrpcRelay | None = None
        options = (
            ("grpc.so_reuseport", int(is_shared and settings.tls != "optional")),
            ("grpc.max_receive_message_length", settings.max_request_bytes),
            ("grpc.max_send_message_length", -1),
            ("grpc.max_concurrent_streams", MAX_STREAMS),
            ("grpc.keepalive_permit_without_calls", 1),
            ("grpc.http2.min_ping_interval_without_data_ms", PING_MS),
            ("grpc.http2.min_recv_ping_interval_without_data_ms", PING_MS),
            ("grpc.http2.max_ping_strikes", 0),
            ("grpc.max_allowed_incoming_connections", most_connections()),
        )
        self._server = grpc.aio.server(options=options)
        self._server.add_generic_rpc_handlers((handler,))

    async def start(self) -> None:
        """Listen."""
        host, port = self._reserved.getsockname()[:2]
        where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        if self._settings.tls == "optional":
            plain = self._server.add_insecure_port("127.0.0.1:0")
            secured = self._server.add_secure_port("127.0.0.1:0", self._credentials())
            await self._server.start()
            self._relay = GrpcRelay(self._reserved, plain, secured, self._on_relayed)
            await self._relay.start()
            return
        if self._settings.tls == "required":
            bound = self._server.add_secure_port(where, self._credentials())
        else:
            bound = self._server.add_insecure_port(where)
        if bound != port:
            raise OSError(f"cannot listen on {where}")
        await self._server.start()
        self._reserved.close()

    async def stop(self, seconds: float) -> None:
        """Take no more calls; those under way have `seconds` to end."""
        if self._relay is not None:
            self._relay.stop_accepting()
        await self._server.stop(seconds)
        if self._relay is not None:
            await self._relay.close()

    def _credentials(self) -> grpc.ServerCredentials:
        """TLS credentials with the present certificates at each handshake."""
        certificates = self.certificates
        assert certificates is not None
        last = certificates.context

        def fetch() -> Any:
            nonlocal last
            if certificates.context is last:
                return None
            last = certificates.context
            return self._configuration()

        needs = self._settings.tls_client_certificates == "required"
        credentials: grpc.ServerCredentials = grpc.dynamic_ssl_server_credentials(self._configuration(), fetch, needs)
        return credentials

    def _configuration(self) -> Any:
        settings = self._settings
        assert settings.tls_certificate is not None
        certificate = without_mark(settings.tls_certificate.read_bytes())
        key = certificate if settings.tls_key is None else without_mark(settings.tls_key.read_bytes())
        ca = None if settings.tls_ca is None else without_mark(settings.tls_ca.read_bytes())
        return grpc.ssl_server_certificate_configuration([(key, certificate)], ca)
