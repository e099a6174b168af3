"""Identity: the name of a gateway for people, and its incarnation for the store."""

from __future__ import annotations

import secrets
from typing import Final

INCARNATION_BYTES: Final = 8


class Identity:
    """One gateway process.  `name`: for logs, journeys and pages.  `incarnation`: in the keys of what it holds.

    A gateway that others took for dead gets a new incarnation, since what it held is theirs by then.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.incarnation = secrets.token_hex(INCARNATION_BYTES)

    def renew(self) -> str:
        """Take a new incarnation, and return it."""
        self.incarnation = secrets.token_hex(INCARNATION_BYTES)
        return self.incarnation
