"""What a client shows at a door, whichever door it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class CertificateIdentity:
    """The names in a client's certificate, which the TLS layer has verified."""

    common_name: str | None = None
    san_uris: tuple[str, ...] = ()
    san_dns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Credentials:
    """All that is known of a client before it is recognised.

    `source` is the address of the peer without a port, never that of the listener.  `bearer` marks a password that is
    a token and nothing else.  Secrets are in no representation.
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


def identity_of_certificate(certificate: Mapping[str, object]) -> CertificateIdentity:
    """The names in what `ssl.SSLObject.getpeercert()` gives."""
    common_name: str | None = None
    subject = certificate.get("subject", ())
    assert isinstance(subject, tuple)
    for relative_name in subject:
        for key, value in relative_name:
            if key == "commonName":
                common_name = str(value)
    alternatives = certificate.get("subjectAltName", ())
    assert isinstance(alternatives, tuple)
    return CertificateIdentity(
        common_name,
        tuple(str(value) for kind, value in alternatives if kind == "URI"),
        tuple(str(value) for kind, value in alternatives if kind == "DNS"),
    )
