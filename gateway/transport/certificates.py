"""ServerCertificates: the TLS context of a listener, made anew when its files change.

A connection keeps its first context. Invariant: `context` is always one that was loaded whole; unusable files change
nothing.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import structlog

from entrepot.domain.written_text import WrittenTextError, written_text

ClientCertificates = Literal["no", "optional", "required"]
_MODES = {"no": ssl.CERT_NONE, "optional": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}

FileStamp = tuple[int, int, int] | None

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class HostCertificate:
    """PEM files of the certificate for a host; `*.example.com` stands for one more label."""

    host: str
    certificate: Path
    key: Path | None


@dataclass(frozen=True, slots=True)
class CertificateFiles:
    """All files of a listener: `certificate` is the default, `ca` has signed clients' certificates."""

    certificate: Path
    key: Path | None = None
    ca: Path | None = None
    client_certificates: ClientCertificates = "no"
    hosts: tuple[HostCertificate, ...] = ()
    protocols: tuple[str, ...] = ()
    """Names of the protocol inside, for clients that ask for one (ALPN)."""
    crl: Path | None = None
    """Lists of revoked certificates (CRL), one of each authority that signs clients' certificates (RFC 5280, 5)."""

    def paths(self) -> tuple[Path, ...]:
        """The paths of all files."""
        pairs = [(self.certificate, self.key), *((host.certificate, host.key) for host in self.hosts)]
        named = [path for pair in pairs for path in pair]
        return tuple(path for path in (*named, self.ca, self.crl) if path is not None)


class ServerCertificates:
    """The current context. Raises OSError, naming the files, if they cannot be used at the start."""

    def __init__(self, files: CertificateFiles) -> None:
        self._files = files
        self._state = self._look()
        try:
            self.context = _load(files)
        except (OSError, ValueError) as error:
            names = ", ".join(self._names())
            raise OSError(f"the certificates cannot be used: {self._why(error)} (one of {names})") from error

    def reload_if_changed(self) -> bool:
        """Load the files if they changed since the last read; True if they were loaded."""
        state = self._look()
        if state == self._state:
            return False
        self._state = state  # also of broken files: they are complained of once
        return self.reload()

    def reload(self) -> bool:
        """Load the files; True if that succeeded."""
        try:
            self.context = _load(self._files)
        except (OSError, ValueError) as error:
            log.error("new certificates cannot be used, the old ones stay", error=self._why(error), files=self._names())
            return False
        log.info("certificates were loaded anew", files=self._names())
        return True

    def _why(self, error: Exception) -> str:
        """The reason, where OpenSSL has no word for it."""
        for path in self._files.paths():
            try:
                written_text(path.read_bytes())
            except WrittenTextError as fault:
                return f"{path}: {fault}"
            except OSError:
                continue
        return str(error)

    def _look(self) -> tuple[FileStamp, ...]:
        return tuple(stamp_of(path) for path in self._files.paths())

    def _names(self) -> list[str]:
        return [str(path) for path in self._files.paths()]


def stamp_of(path: Path) -> FileStamp:
    """Return what tells a file from the same one changed; None for one that cannot be read."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def _load(files: CertificateFiles) -> ssl.SSLContext:
    context = _context(files, files.certificate, files.key)
    if files.hosts:
        others = {host.host.lower(): _context(files, host.certificate, host.key) for host in files.hosts}
        context.sni_callback = _chooser(others)
    return context


def _context(files: CertificateFiles, certificate: Path, key: Path | None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(certificate, key, password=_no_password)
    if files.ca is not None:
        context.load_verify_locations(files.ca)
        context.verify_mode = _MODES[files.client_certificates]
        if files.crl is not None:  # an authority without a list, or with one that is over, vouches for nobody
            context.load_verify_locations(files.crl)
            context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
    if files.protocols:
        context.set_alpn_protocols(files.protocols)
    return context


def _no_password() -> str:
    """Raise an error for an encrypted key, where OpenSSL would ask at the terminal and wait."""
    return ""


def _chooser(others: dict[str, ssl.SSLContext]) -> Callable[[ssl.SSLObject, str | None, ssl.SSLContext], None]:
    """Choose the context by host: all check clients alike, so the choice changes the certificate only."""

    def choose(connection: ssl.SSLObject, name: str | None, _default: ssl.SSLContext) -> None:
        if name is None:
            return
        name = name.lower().rstrip(".")
        chosen = others.get(name) or others.get("*." + name.partition(".")[2])
        if chosen is not None:
            connection.context = chosen

    return choose
