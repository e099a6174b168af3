"""Caller: the client of a call, by its headers and its connection."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final

from entrepot.domain.access.model import Principal

CLIENT_ID: Final = b"x-mq-client-id"
DATE_TIME: Final = b"x-mq-date-time"
AUTHORIZATION: Final = b"authorization"
LANGUAGE: Final = b"x-mq-language"
VERSION: Final = b"x-mq-client-version"
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
        """The client as a part of keys. Clients choose their ids, so the user's name is included. Names may have a
        slash, and ids, too: then only a digest keeps `a/b` with `c` from being `a` with `b/c`."""
        name = self.principal.name
        if "/" in name:
            return sha256(f"{name}\0{self.client_id}".encode()).hexdigest()
        text = f"{name}/{self.client_id}"
        return text if text.isascii() and len(text) <= MAX_IDENTITY_LENGTH else sha256(text.encode()).hexdigest()


def header(fields: Mapping[bytes, bytes], name: bytes) -> str:
    """A header's text; empty if it is not there."""
    value = fields.get(name, b"")
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")
