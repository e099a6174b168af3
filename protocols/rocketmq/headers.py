"""The headers of every call: the client's identity, and its signature with credentials.

authorization = MQv2-HMAC-SHA1 Credential=<access key>, SignedHeaders=x-mq-date-time, Signature=<hex>
signature     = HMAC-SHA1(secret, the value of x-mq-date-time)
"""

from __future__ import annotations

import hmac
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

ALGORITHM: Final = "MQv2-HMAC-SHA1"
DATE_FORMAT: Final = "%Y%m%dT%H%M%SZ"
LANGUAGE: Final = "PYTHON"
PROTOCOL: Final = "v2"


@dataclass(frozen=True, slots=True)
class Credentials:
    """An access key and its secret, both empty without authentication; the token is that of a session."""

    access_key: str = ""
    secret: str = ""
    session_token: str = ""

    def __repr__(self) -> str:
        return f"Credentials({self.access_key!r}, ...)"


def signature(secret: str, date_time: str) -> str:
    """Return the proof that its sender knows the secret, in upper-case hexadecimal."""
    return hmac.new(secret.encode(), date_time.encode(), "sha1").hexdigest().upper()


def headers(
    client_id: str, credentials: Credentials, namespace: str, version: str, now_ms: int, request_id: str
) -> tuple[tuple[str, str], ...]:
    """Return the metadata of one call.  `client_id` is fixed for the client's life, `request_id` is the call's own."""
    date_time = datetime.fromtimestamp(now_ms / 1000, UTC).strftime(DATE_FORMAT)
    found = [
        ("x-mq-language", LANGUAGE),
        ("x-mq-protocol", PROTOCOL),
        ("x-mq-client-version", version),
        ("x-mq-date-time", date_time),
        ("x-mq-request-id", request_id),
        ("x-mq-client-id", client_id),
        ("x-mq-namespace", namespace),
    ]
    if credentials.access_key:
        signed = signature(credentials.secret, date_time)
        who = f"{ALGORITHM} Credential={credentials.access_key}, SignedHeaders=x-mq-date-time, Signature={signed}"
        found.append(("authorization", who))
    if credentials.session_token:
        found.append(("x-mq-session-token", credentials.session_token))
    return tuple(found)


def signed_at_ms(date_time: str) -> int | None:
    """Return the time of a signature, in epoch milliseconds: x-mq-date-time as most SDKs write it, or by RFC 3339, as
    that of Rust does.  None where it is neither."""
    try:
        signed = datetime.strptime(date_time, DATE_FORMAT).replace(tzinfo=UTC)
    except ValueError:
        try:
            signed = datetime.fromisoformat(date_time)
        except ValueError:
            return None
    if signed.tzinfo is None:
        signed = signed.replace(tzinfo=UTC)
    try:
        return int(signed.timestamp() * 1000)
    except OverflowError:
        return None


_AUTHORIZATION: Final = re.compile(
    rf"{ALGORITHM}\s+Credential=([^,/\s]*)[^,]*,\s*SignedHeaders=x-mq-date-time,\s*Signature=([0-9a-fA-F]*)"
)
MAX_AUTHORIZATION_LENGTH: Final = 4096


@dataclass(frozen=True, slots=True)
class ShownCredentials:
    """A client's access key, and its signature of the value of x-mq-date-time (hexadecimal)."""

    access_key: str
    signature: str


def parse_authorization(text: str) -> ShownCredentials | None:
    """Return the header's credentials; None without one, or of another kind.  Region and service are ignored."""
    found = _AUTHORIZATION.fullmatch(text.strip()) if len(text) <= MAX_AUTHORIZATION_LENGTH else None
    return None if found is None else ShownCredentials(found[1], found[2])
