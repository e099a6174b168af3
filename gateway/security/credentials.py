"""Credentials of a client at any listener."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from entrepot.gateway.transport.source import Source


@dataclass(frozen=True, slots=True)
class CertificateIdentity:
    """The names in a client's certificate, which the TLS layer has verified."""

    common_name: str | None = None
    san_uris: tuple[str, ...] = ()
    san_dns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Credentials:
    """All that is known of a client before authentication.

    `source` is the address of the peer without a port, never that of the listener. `bearer` marks a password that is a
    token and nothing else. Secrets are in no representation.
    """

    protocol: str
    source: str
    username: str | None = None
    password: bytes | None = field(default=None, repr=False)
    client_id: str = ""
    bearer: bool = False
    is_tls: bool = False
    certificate: CertificateIdentity | None = None
    listener: str = ""


def identity_of(source: Source) -> CertificateIdentity | None:
    """Return the names in the certificate of a connection's client, if it has one."""
    shown = source.certificate
    return None if shown is None else CertificateIdentity(shown.common_name or None, shown.uris, shown.dns_names)
