"""The place where other gateways reach this one: its socket, its address for them, TLS."""

from __future__ import annotations

import os
import socket
from typing import Final

from entrepot.gateway.settings import HttpSettings, Settings
from entrepot.gateway.transport.binding import CannotListenError, address_of, bind

_WILDCARDS: Final = frozenset({"0.0.0.0", "::", ""})


def gateway_name(settings: Settings) -> str:
    """The name of this process for operators."""
    name = settings.server.name or f"{socket.gethostname()}-{os.getpid()}"
    return f"{name}-{os.getpid()}" if settings.server.name and settings.cluster.workers > 1 else name


def bind_for_peers(settings: Settings) -> socket.socket:
    """Return a listening socket of this process alone: workers take the ports from `cluster.gateway_port` on. Raises
    CannotListenError."""
    first, host = settings.cluster.gateway_port, settings.server.host
    ports = [0] if first == 0 else range(first, first + settings.cluster.workers)
    failure: CannotListenError | None = None
    for port in ports:
        try:
            return bind(host, port)
        except CannotListenError as error:
            failure = error
    assert failure is not None
    raise CannotListenError(failure.errno, f"{failure} (cluster.gateway_port)")


def address_for_peers(settings: Settings, listener: socket.socket) -> str:
    """Return host:port of the socket as other gateways reach it."""
    bound, port = listener.getsockname()[:2]
    host = settings.cluster.gateway_host
    if not host and bound not in _WILDCARDS:
        return address_of(listener)
    host = host or _host_towards_the_brokers(settings)
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _host_towards_the_brokers(settings: Settings) -> str:
    """This machine's address on the way to its first broker or name server; no packet is sent."""
    for address in (*settings.cluster.brokers, *settings.cluster.name_servers):
        host, _, port = address.rpartition(":")
        host = host.strip("[]")
        try:
            family = socket.getaddrinfo(host, int(port), type=socket.SOCK_DGRAM)[0]
            with socket.socket(family[0], socket.SOCK_DGRAM) as probe:
                probe.connect(family[4])
                found: str = probe.getsockname()[0]
                return found
        except (OSError, ValueError):
            continue
    return socket.gethostname()


def listener_settings(settings: Settings) -> HttpSettings:
    """The settings of the listener for other gateways: TLS is that between the cluster's processes."""
    cluster = settings.cluster
    tls = {
        "tls_certificate": cluster.tls_certificate,
        "tls_key": cluster.tls_key,
        "tls_ca": cluster.tls_ca,
        "tls_client_certificates": "required" if cluster.tls_certificate and cluster.tls_ca else "no",
    }
    return settings.http.model_copy(update=tls)
