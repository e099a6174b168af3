"""Identity: one gateway, by its name for people, and by six random bytes for the store.

The six bytes are in every message id that the gateway makes.  In hexadecimal they are its incarnation: its name in the
keys of what it holds, in the table of members, and in its leases.  So a journey, a session and a page name a gateway
alike.

Invariant: a gateway that others took for dead goes on under a new incarnation, since what it held is theirs by then.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Final

import structlog

from entrepot.domain.callbacks import call_each

ORIGIN_BYTES: Final = 6

log = structlog.get_logger(__name__)


class Identity:
    """The identity of one gateway.  `name`: for logs, journeys and pages.  `origin`: the bytes of its present
    incarnation.  `on_renewed`: called with the incarnation before, after it has changed."""

    def __init__(self, name: str = "", origin: bytes = b"") -> None:
        self.name = name
        self.origin = origin or os.urandom(ORIGIN_BYTES)
        self.on_renewed: list[Callable[[str], object]] = []

    @property
    def incarnation(self) -> str:
        """The bytes in hexadecimal, for keys of the store."""
        return self.origin.hex()

    def renew(self) -> None:
        """Take a new incarnation, and tell all who hold something under the one before."""
        before, self.origin = self.incarnation, os.urandom(ORIGIN_BYTES)
        for fault in call_each(self.on_renewed, before):
            log.error("a part of the gateway did not take its new incarnation", exc_info=fault)
