"""Caller: the client of a call, by its headers and its connection."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final
from urllib.parse import unquote

from entrepot.domain.access.model import Principal

CLIENT_ID: Final = "x-mq-client-id"
DATE_TIME: Final = "x-mq-date-time"
AUTHORIZATION: Final = "authorization"
LANGUAGE: Final = "x-mq-language"
VERSION: Final = "x-mq-client-version"
MAX_CLIENT_ID_LENGTH: Final = 255
MAX_IDENTITY_LENGTH: Final = 128
"""Longest client identity that is a part of keys as it is."""


Write = Callable[[Any], Awaitable[None]]
"""Sends the caller one of several answers. Cancelled where the caller has gone."""


@dataclass(frozen=True, slots=True)
class Caller:
    """The caller; `client_id` is the client's own as long as it lives. `remaining_ms` is its time limit for the answer,
    or None."""

    client_id: str
    principal: Principal
    source: str
    remaining_ms: int | None = None
    language: str = ""
    version: str = ""
    """Those of its SDK, as its headers tell them; empty where a call does not need them."""

    @property
    def identity(self) -> str:
        """The client as a part of keys. Clients choose their ids, so the user's name is included."""
        text = f"{self.principal.name}/{self.client_id}"
        return text if text.isascii() and len(text) <= MAX_IDENTITY_LENGTH else sha256(text.encode()).hexdigest()


def peer_host(peer: str) -> str:
    """The address in gRPC's name of a peer: `ipv4:127.0.0.1:4711`, `ipv6:[::1]:4711` (percent-encoded), `unix:`."""
    kind, _, rest = peer.partition(":")
    if kind not in ("ipv4", "ipv6"):
        return ""
    return unquote(rest).rpartition(":")[0].strip("[]")


def header(headers: Mapping[str, str | bytes], name: str) -> str:
    """A header's text; empty if it is not there, or is bytes."""
    value = headers.get(name, "")
    return value if isinstance(value, str) else ""
