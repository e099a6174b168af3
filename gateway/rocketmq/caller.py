"""Caller: who makes a call, as its headers and its connection say."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final
from urllib.parse import unquote

from domain.access.model import Principal

CLIENT_ID: Final = "x-mq-client-id"
DATE_TIME: Final = "x-mq-date-time"
AUTHORIZATION: Final = "authorization"
MAX_CLIENT_ID_LENGTH: Final = 255
MAX_IDENTITY_LENGTH: Final = 128
"""Of those that are part of keys as they are."""


Write = Callable[[Any], Awaitable[None]]
"""Tells the caller one more answer of several.  Cancelled where the caller has gone."""


@dataclass(frozen=True, slots=True)
class Caller:
    """`client_id` is the client's own as long as it lives.  `remaining_ms`: how long it waits for the answer; None:
    for ever."""

    client_id: str
    principal: Principal
    source: str
    remaining_ms: int | None = None

    @property
    def identity(self) -> str:
        """The client as a part of keys.  Ids are the clients' own to choose: those of other users are others."""
        text = f"{self.principal.name}/{self.client_id}"
        return text if text.isascii() and len(text) <= MAX_IDENTITY_LENGTH else sha256(text.encode()).hexdigest()


def peer_host(peer: str) -> str:
    """The address of gRPC's name of a peer: `ipv4:127.0.0.1:4711`, `ipv6:[::1]:4711` (percent-encoded), `unix:`."""
    kind, _, rest = peer.partition(":")
    if kind not in ("ipv4", "ipv6"):
        return ""
    return unquote(rest).rpartition(":")[0].strip("[]")


def header(headers: Mapping[str, str | bytes], name: str) -> str:
    """A header's text; empty if it is not there, or is bytes."""
    value = headers.get(name, "")
    return value if isinstance(value, str) else ""
