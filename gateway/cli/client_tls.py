"""TLS of the commands: whom they trust, and what they show, by options before the command or by the environment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from entrepot.gateway.cli.errors import USAGE, CommandError

if TYPE_CHECKING:
    from ssl import SSLContext

CA_VARIABLE: Final = "ENTREPOT_CA"
SYSTEMS_CA_VARIABLE: Final = "SSL_CERT_FILE"
"""OpenSSL's own, which other programs read, too."""

CaOption = Annotated[
    Path | None,
    typer.Option(
        "--ca",
        envvar=CA_VARIABLE,
        metavar="FILE",
        help="Certificate authorities (PEM) of the server, instead of the usual ones; else SSL_CERT_FILE.",
    ),
]
CertOption = Annotated[
    Path | None,
    typer.Option("--cert", envvar="ENTREPOT_CERT", metavar="FILE", help="Client certificate (PEM) with its chain."),
]
KeyOption = Annotated[
    Path | None,
    typer.Option(
        "--key", envvar="ENTREPOT_KEY", metavar="FILE", help="Private key (PEM), if the certificate's file has none."
    ),
]


@dataclass(frozen=True, slots=True)
class ClientTls:
    """Files of a command.  Without any the library's own authorities are trusted."""

    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None

    @classmethod
    def of(cls, ca: Path | None, certificate: Path | None, key: Path | None, environ: Mapping[str, str]) -> ClientTls:
        """Return what options or the environment name.  Raises CommandError."""
        if key is not None and certificate is None:
            raise CommandError("--key needs --cert", USAGE)
        others = environ.get(SYSTEMS_CA_VARIABLE)
        return cls(ca or (Path(others) if others else None), certificate, key)

    def context(self) -> SSLContext | bool:
        """Return what a request verifies by.  Raises CommandError for files that cannot be used."""
        if self.ca is None and self.certificate is None:
            return True
        import ssl  # slow to import: only for commands that ask a server

        try:
            context = ssl.create_default_context(cafile=self.ca)
        except OSError as error:
            raise CommandError(f"{self.ca}: not usable as authorities: {_words(error)}", USAGE) from error
        if self.certificate is not None:
            try:
                context.load_cert_chain(self.certificate, self.key, password=_asked_for_no_password)
            except (OSError, ValueError) as error:
                files = " with ".join(str(each) for each in (self.certificate, self.key) if each is not None)
                raise CommandError(f"{files}: not usable as a certificate: {_words(error)}", USAGE) from error
        return context


def _asked_for_no_password() -> str:
    """Fail for an encrypted key, where OpenSSL would ask at the terminal and wait."""
    return ""


def _words(error: Exception) -> str:
    return getattr(error, "reason", None) or getattr(error, "strerror", None) or "it is not PEM"
