"""User name and password in the response of a login."""

from __future__ import annotations

from typing import NamedTuple

from entrepot.protocols.amqp.errors import FrameError
from entrepot.protocols.amqp.field_table import decode_table


class Credentials(NamedTuple):
    """User name and password from a client, unchecked."""

    user: str
    password: str

    def __repr__(self) -> str:
        return f"Credentials({self.user!r})"


def credentials_of(mechanism: str, response: bytes) -> Credentials | None:
    """Return the credentials in a response of PLAIN (RFC 4616) or AMQPLAIN (a field table without its length).  None
    for another mechanism, and for an invalid response."""
    if mechanism == "PLAIN":
        parts = response.split(b"\0")
        if len(parts) != 3:
            return None
        try:
            return Credentials(parts[1].decode(), parts[2].decode())
        except UnicodeDecodeError:
            return None
    if mechanism == "AMQPLAIN":
        try:
            table, _ = decode_table(len(response).to_bytes(4, "big") + response, 0, 4 + len(response))
        except FrameError:
            return None
        user, password = table.get("LOGIN"), table.get("PASSWORD")
        if isinstance(user, str) and isinstance(password, str):
            return Credentials(user, password)
    return None
