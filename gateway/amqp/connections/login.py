"""Login: credentials out of the responses of SASL mechanisms."""

from __future__ import annotations

from typing import Final

from entrepot.domain.errors import Code, EntrepotError
from entrepot.gateway.amqp.connections.names import PROTOCOL
from entrepot.gateway.security.credentials import Credentials, identity_of
from entrepot.gateway.transport.source import Source
from entrepot.protocols.amqp.connection_events import Login
from entrepot.protocols.amqp.credentials import credentials_of as given_credentials

PLAIN, AMQPLAIN, EXTERNAL = "PLAIN", "AMQPLAIN", "EXTERNAL"
MECHANISMS: Final = f"{PLAIN} {AMQPLAIN}"
CERTIFIED_MECHANISMS: Final = f"{MECHANISMS} {EXTERNAL}"
"""Mechanisms offered to clients with a certificate only: some clients choose EXTERNAL wherever it is offered."""


def credentials_of(login: Login, source: Source) -> Credentials:
    """Return the client's credentials.  Raises UNAUTHORIZED for an empty response or an unknown mechanism."""
    username: str | None = None
    password: bytes | None = None
    if login.mechanism in (PLAIN, AMQPLAIN):
        shown_in = given_credentials(login.mechanism, login.response)
        if shown_in is None:
            raise EntrepotError(Code.UNAUTHORIZED, f"the response is not one of {login.mechanism}")
        username, password = shown_in.user, shown_in.password.encode()
    elif login.mechanism != EXTERNAL:
        raise EntrepotError(Code.UNAUTHORIZED, f"unknown mechanism {login.mechanism[:40]!r}")
    elif source.certificate is None:
        raise EntrepotError(Code.UNAUTHORIZED, "EXTERNAL needs a client certificate")
    return Credentials(
        PROTOCOL,
        source.host,
        username,
        password,
        is_tls=source.is_tls,
        certificate=identity_of(source),
        listener=source.listener,
    )
