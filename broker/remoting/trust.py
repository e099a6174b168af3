"""WireTrust: what one end of connections between our own processes knows others by: TLS, and the cluster's secret."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import ipaddress
import re
import socket
import ssl
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import structlog

from entrepot.domain.cluster_trust import ClusterTrust
from entrepot.domain.errors import Code, EntrepotError
from entrepot.protocols.wire.authentication import ClusterSecret

_CERTIFICATE = re.compile(r"-----BEGIN (?:X509 )?CERTIFICATE-----(.*?)-----END", re.DOTALL)
log = structlog.get_logger(__name__)


class WireTls:
    """A context of TLS, loaded anew when its files have changed (`refresh`). A listener keeps its first one, which
    hands each handshake on to the present one."""

    def __init__(self, files: ClusterTrust, *, is_server: bool) -> None:
        """Raise OSError, ssl.SSLError or ValueError for unusable files."""
        self._files, self._is_server = files, is_server
        self._state = self._look()
        self._digests: WeakKeyDictionary[ssl.SSLContext, bytes] = WeakKeyDictionary()
        self.context = self.present = self._load()
        if is_server:
            self.context.sni_callback = self._handed_on

    def _look(self) -> list[tuple[int, int] | None]:
        files = (self._files.certificate, self._files.key, self._files.ca)
        return [None if path is None else _stamp(path) for path in files]

    def _load(self) -> ssl.SSLContext:
        files = self._files
        if self._is_server:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        else:
            context = ssl.create_default_context(cafile=None if files.ca is None else str(files.ca))
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        if files.certificate is not None:
            context.load_cert_chain(files.certificate, files.key)
            self._digests[context] = digest_of(_first_certificate(files.certificate))
        if self._is_server and files.ca is not None:
            context.load_verify_locations(files.ca)
            context.verify_mode = ssl.CERT_REQUIRED
        return context

    def _handed_on(self, handshake: Any, name: str | None, first: ssl.SSLContext) -> None:
        handshake.context = self.present

    def shown(self, context: ssl.SSLContext) -> bytes:
        """Return the digest of the certificate that a context shows, for proofs of the secret."""
        return self._digests.get(context, b"")

    def refresh(self) -> None:
        """Load the files again if they have changed; unusable ones change nothing, and are told once."""
        state = self._look()
        if state == self._state:
            return
        self._state = state
        try:
            self.present = self._load()
        except (OSError, ValueError) as error:
            log.error("new certificates of the cluster cannot be used, the old ones stay", problem=str(error))
        else:
            log.info("certificates of the cluster were loaded anew", file=str(self._files.certificate))


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size


def _first_certificate(path: Path) -> bytes:
    """Return the first certificate of a PEM file, as DER. Raises ValueError without one."""
    found = _CERTIFICATE.search(path.read_text("ascii", "replace"))
    if found is None:
        raise ValueError(f"{path} has no certificate")
    return base64.b64decode(found[1])


def digest_of(certificate: bytes) -> bytes:
    """Return the digest of a certificate (DER) that stands for a TLS channel (RFC 5929, section 4)."""
    return hashlib.sha256(certificate).digest()


@dataclass(frozen=True, slots=True)
class WireTrust:
    """The trust of one end. `tls`: None is plain TCP. `secret`: None asks for none."""

    tls: WireTls | None = None
    secret: ClusterSecret | None = None
    names: tuple[str, ...] = ()
    is_network_trusted: bool = False

    @classmethod
    def of_client(cls, files: ClusterTrust) -> WireTrust:
        """Return the trust of connections to others. Raises OSError, ssl.SSLError or BAD_REQUEST for unusable files."""
        has_tls = files.ca is not None or files.certificate is not None
        tls = _usable(files, is_server=False) if has_tls else None
        return cls(tls, secret_of(files), (), files.is_network_trusted)

    @classmethod
    def of_server(cls, files: ClusterTrust) -> WireTrust:
        """Return the trust of a listener. Raises as `of_client`."""
        secret = secret_of(files)
        if secret is not None and not secret.is_whole:
            raise EntrepotError(Code.BAD_REQUEST, "this part needs the cluster's secret, and has the key of one role")
        tls = None if files.certificate is None else _usable(files, is_server=True)
        return cls(tls, secret, files.names, files.is_network_trusted)

    def at(self, listener: socket.socket) -> WireTrust:
        """Return what a listener needs: nothing for a private socket, of a path. Raises BAD_REQUEST if strangers could
        reach it, and nothing would tell them from members of the cluster."""
        if listener.family == socket.AF_UNIX:
            return WireTrust()
        knows_clients = self.secret is not None or (self.tls is not None and bool(self.names))
        if knows_clients or self.is_network_trusted or not _is_reachable(listener):
            return self
        host, port = listener.getsockname()[:2]
        raise EntrepotError(
            Code.BAD_REQUEST,
            f"{host}:{port} would trust whoever reaches it. Give all parts the same secret (cluster.secret_file; "
            "entrepot cluster secret makes one), or certificates with cluster.tls_names, listen on 127.0.0.1, "
            "or say that the network is trusted (cluster.trusted_network)",
        )

    def refresh(self) -> None:
        """Load certificates again if they have changed."""
        if self.tls is not None:
            self.tls.refresh()

    def met(self, transport: asyncio.BaseTransport) -> tuple[bytes, str]:
        """Return what a listener shares with a client over TLS, and why its certificate is of no member, or nothing."""
        secured = transport.get_extra_info("ssl_object")
        if self.tls is None or secured is None:
            return b"", ""
        return self.tls.shown(secured.context), self._stranger(secured.getpeercert() or {})

    def _stranger(self, certificate: dict[str, Any]) -> str:
        if not self.names:
            return ""
        found = _names_of(certificate)
        if any(_matches(name, pattern) for name in found for pattern in self.names):
            return ""
        problem = f"its certificate is of no member of the cluster: {', '.join(found) or 'it has no name'}"
        log.warning("refused a client that is not a member of the cluster", seldom="remoting", problem=problem)
        return problem


def _usable(files: ClusterTrust, *, is_server: bool) -> WireTls:
    try:
        return WireTls(files, is_server=is_server)
    except ssl.SSLError:
        raise
    except ValueError as error:
        raise EntrepotError(Code.BAD_REQUEST, f"the certificates cannot be used: {error}") from error


def secret_of(files: ClusterTrust) -> ClusterSecret | None:
    """Return the cluster's secret, or None. Raises BAD_REQUEST."""
    text, where = files.secret, "cluster.secret"
    if files.secret_file is not None:
        where = f"{files.secret_file} (cluster.secret_file)"
        try:
            text, mode = files.secret_file.read_text("utf-8", "replace"), files.secret_file.stat().st_mode
        except OSError as error:
            raise EntrepotError(Code.BAD_REQUEST, f"{where} cannot be read: {error.strerror}") from error
        if not text.strip():
            raise EntrepotError(Code.BAD_REQUEST, f"{where} is empty: it is to have the cluster's secret")
        if stat.S_IMODE(mode) & stat.S_IWOTH:
            raise EntrepotError(Code.BAD_REQUEST, f"anybody can write {where}, which has the cluster's secret")
    if not text.strip():
        return None
    try:
        return ClusterSecret(text)
    except ValueError as error:
        raise EntrepotError(Code.BAD_REQUEST, f"{where}: {error}") from None


def _is_reachable(listener: socket.socket) -> bool:
    """True if others than processes of this machine can reach a listener."""
    address = ipaddress.ip_address(listener.getsockname()[0].partition("%")[0])
    mapped = getattr(address, "ipv4_mapped", None)
    return not (mapped or address).is_loopback


def _names_of(certificate: dict[str, Any]) -> list[str]:
    alternatives = [value for kind, value in certificate.get("subjectAltName", ()) if kind in ("DNS", "IP Address")]
    common = [value for part in certificate.get("subject", ()) for kind, value in part if kind == "commonName"]
    return alternatives or common


def _matches(name: str, pattern: str) -> bool:
    name, pattern = name.lower(), pattern.lower()
    if not pattern.startswith("*."):
        return name == pattern
    label, _, rest = name.partition(".")
    return bool(label) and rest == pattern[2:]
