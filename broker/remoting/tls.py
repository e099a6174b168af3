"""TLS between our own processes: certificates from files, checked on both sides where an authority is given."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """PEM files. `certificate` with `key`: shown to others. `ca`: the authority of others' certificates; a server then
    asks clients for one."""

    certificate: Path | None = None
    key: Path | None = None
    ca: Path | None = None

    def server(self) -> ssl.SSLContext | None:
        """Return a listener's context; None for plain TCP. Raises OSError or ssl.SSLError for unusable files."""
        if self.certificate is None:
            return None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(self.certificate, self.key)
        if self.ca is not None:
            context.load_verify_locations(self.ca)
            context.verify_mode = ssl.CERT_REQUIRED
        return context

    def client(self) -> ssl.SSLContext | None:
        """Return a connection's context; None for plain TCP. Raises as `server`."""
        if self.ca is None and self.certificate is None:
            return None
        context = ssl.create_default_context(cafile=None if self.ca is None else str(self.ca))
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        if self.certificate is not None:
            context.load_cert_chain(self.certificate, self.key)
        return context
