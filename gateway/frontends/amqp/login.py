"""Login: what the mechanisms of SASL say of a client."""

from __future__ import annotations

from typing import Final

from domain.errors import Code, EntrepotError
from gateway.frontends.amqp.names import PROTOCOL
from gateway.security.credentials import CertificateIdentity, Credentials
from gateway.transport.source import Source
from protocols.amqp.connection_events import Login
from protocols.amqp.errors import FrameError
from protocols.amqp.field_table import decode_table

PLAIN, AMQPLAIN, EXTERNAL = "PLAIN", "AMQPLAIN", "EXTERNAL"
MECHANISMS: Final = f"{PLAIN} {AMQPLAIN} {EXTERNAL}"


def credentials_of(login: Login, source: Source) -> Credentials:
    """What the client shows.  Raises UNAUTHORIZED for a response that says nothing, or another mechanism."""
    username: str | None = None
    password: bytes | None = None
    if login.mechanism == PLAIN:
        username, password = _plain(login.response)
    elif login.mechanism == AMQPLAIN:
        username, password = _amqplain(login.response)
    elif login.mechanism != EXTERNAL:
        raise EntrepotError(Code.UNAUTHORIZED, f"unknown mechanism {login.mechanism[:40]!r}")
    elif source.certificate is None:
        raise EntrepotError(Code.UNAUTHORIZED, "EXTERNAL needs a client certificate")
    certificate = None
    if source.certificate is not None:
        shown = source.certificate
        certificate = CertificateIdentity(shown.common_name or None, shown.uris, shown.dns_names)
    return Credentials(
        PROTOCOL,
        source.host,
        username,
        password,
        is_tls=source.is_tls,
        certificate=certificate,
        listener=source.listener,
    )


def _plain(response: bytes) -> tuple[str, bytes]:
    """RFC 4616: authorization identity, name and password, with NUL between."""
    parts = response.split(b"\0")
    if len(parts) != 3:
        raise EntrepotError(Code.UNAUTHORIZED, "the response is not one of PLAIN")
    return _name(parts[1]), parts[2]


def _amqplain(response: bytes) -> tuple[str, bytes]:
    """A field table without its length."""
    try:
        table, _ = decode_table(len(response).to_bytes(4, "big") + response, 0, len(response) + 4)
    except FrameError:
        table = {}
    username, password = table.get("LOGIN"), table.get("PASSWORD")
    if not isinstance(username, str | bytes) or not isinstance(password, str | bytes):
        raise EntrepotError(Code.UNAUTHORIZED, "the response is not one of AMQPLAIN")
    name = username if isinstance(username, str) else _name(username)
    return name, password.encode() if isinstance(password, str) else password


def _name(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise EntrepotError(Code.UNAUTHORIZED, "the name is not UTF-8") from None
