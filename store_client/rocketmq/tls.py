"""TLS of links to a RocketMQ cluster."""

from __future__ import annotations

import ssl
from pathlib import Path

from entrepot.domain.errors import Code, EntrepotError


def client_tls(ca: Path | None, certificate: Path | None, key: Path | None, named: str) -> ssl.SSLContext:
    """Return a context that verifies certificates by `ca`, else by the system's authorities, and shows `certificate` if
    there is one.  `named`: the options of these files (PEM).  Raises BAD_REQUEST for files that cannot be used."""
    try:
        context = ssl.create_default_context(cafile=None if ca is None else str(ca))
        if certificate is not None:
            context.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        raise EntrepotError(Code.BAD_REQUEST, f"{named}: the files cannot be used: {error}") from error
    return context
