"""Identity: one gateway process, by its name for people, and by six random bytes for the store.

The six bytes are in every message id that the gateway makes, and in hexadecimal in the keys of what it holds, in its
peers' table, and in the leases of its bridges.  So a journey, a session and a page name a gateway alike.

A gateway that others took for dead gets a new incarnation: what it held is theirs by then.  It stays the same process,
which peers may still reach: being silent and having lost the lease are two facts.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Final

ORIGIN_BYTES: Final = 6


class Identity:
    """The identity of one gateway.  `name`: for logs, journeys and pages.  `process`: id of the process, for its life.
    `origin`: the bytes of its present incarnation.  `on_renewed`: called after it has changed."""

    def __init__(self, name: str = "", origin: bytes = b"") -> None:
        self.name = name
        self.origin = origin or os.urandom(ORIGIN_BYTES)
        self.process: Final = self.origin.hex()
        self.on_renewed: list[Callable[[], None]] = []

    @property
    def incarnation(self) -> str:
        """The bytes in hexadecimal, for keys of the store."""
        return self.origin.hex()

    def renew(self) -> str:
        """Take a new incarnation, and return it."""
        self.origin = os.urandom(ORIGIN_BYTES)
        for told in self.on_renewed:
            told()
        return self.incarnation
