"""Source: where a connection comes from, as far as it can be believed."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from protocols.proxy import ProxyHeader


@dataclass(frozen=True, slots=True)
class ClientCertificate:
    """What a verified certificate says of its holder."""

    common_name: str = ""
    uris: tuple[str, ...] = ()
    dns_names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Source:
    """The client's address, which a trusted proxy may have told, and how it came.

    `certificate` is one that an authority of ours has signed, or whose name a trusted proxy vouches for.
    """

    host: str
    port: int
    is_tls: bool
    certificate: ClientCertificate | None
    listener: str

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def source_of(transport: asyncio.BaseTransport, listener: str, header: ProxyHeader | None) -> Source:
    """The source of a connection that is through its TLS handshake, if it has one."""
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
    """Names out of what `ssl` tells of a verified certificate; None where there is none."""
    if not peercert:
        return None
    names = [value for part in peercert.get("subject", ()) for kind, value in part if kind == "commonName"]
    alternatives = peercert.get("subjectAltName", ())
    return ClientCertificate(
        names[-1] if names else "",
        tuple(value for kind, value in alternatives if kind == "URI"),
        tuple(value for kind, value in alternatives if kind == "DNS"),
    )
