"""Source: the trusted origin of a connection."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, Final

from entrepot.protocols.proxy import ProxyHeader

SOURCE: Final = "entrepot.source"
PROXY_HEADER: Final = "entrepot.proxy"
"""Names of a connection's `Source` and of its PROXY header, if it had one, in the state that ASGI's scopes have."""


@dataclass(frozen=True, slots=True)
class ClientCertificate:
    """The holder's names in a verified certificate."""

    common_name: str = ""
    uris: tuple[str, ...] = ()
    dns_names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Source:
    """The client's address, as a trusted proxy may have told it, and the way it came. `certificate` is signed by an
    authority of ours, or its name is vouched for by a trusted proxy."""

    host: str
    port: int
    is_tls: bool
    certificate: ClientCertificate | None
    listener: str

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def source_of(transport: asyncio.BaseTransport, listener: str, header: ProxyHeader | None) -> Source:
    """Return the source of a connection after its TLS handshake, if it has one."""
    peer = transport.get_extra_info("peername") or ("", 0)
    is_tls = transport.get_extra_info("ssl_object") is not None
    certificate = certificate_of(transport.get_extra_info("peercert"))
    host, port = peer[:2]
    if header is not None and header.source is not None:
        host, port = header.source
        if header.tls is not None:
            # the proxy ended the client's TLS: a certificate on this connection is the proxy's own
            is_tls = True
            certificate = ClientCertificate(header.tls.common_name) if header.tls.common_name else None
    return Source(host, port, is_tls, certificate, listener)


def certificate_of(peercert: dict[str, Any] | None) -> ClientCertificate | None:
    """The names in a verified certificate of `ssl`; None where there is none."""
    if not peercert:
        return None
    names = [value for part in peercert.get("subject", ()) for kind, value in part if kind == "commonName"]
    alternatives = peercert.get("subjectAltName", ())
    return ClientCertificate(
        names[-1] if names else "",
        tuple(value for kind, value in alternatives if kind == "URI"),
        tuple(value for kind, value in alternatives if kind == "DNS"),
    )
