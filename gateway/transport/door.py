"""Door: what all connections of one listener share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gateway.deadlines import DeadlineWheel
from gateway.transport.early_bytes import EarlyBytes
from gateway.transport.intake import Intake

if TYPE_CHECKING:
    from gateway.driver import Conversation


@dataclass(frozen=True, slots=True)
class Door:
    """`name`: the listener's, as in the ready file.  `write_limit`: bytes that may wait to be written to one socket."""

    name: str
    converse: Callable[[], Conversation]
    """Makes the conversation of a new connection: the client's time for its CONNECT begins here."""
    loop: asyncio.AbstractEventLoop
    wheel: DeadlineWheel
    intake: Intake
    write_limit: int
    early: EarlyBytes
    """What connections that have not logged in have sent, those of other doors among them."""
