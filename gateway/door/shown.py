"""ConnectedClient and DoorFigures: what a door tells of its clients and of its work."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import NamedTuple


class ConnectedClient(NamedTuple):
    """A client that is connected to a door of this gateway.

    `client`: its id, or what else tells it apart at its door.  `user`: its name, or empty.  `address`: its host and
    port.  `since_ms`: when it connected, in epoch milliseconds; 0 where that is not known.  `uses`: what it subscribes
    to, consumes or named, in its protocol's words.  `held`: messages that it has not acknowledged; None where they are
    not known.  `detail`: what else tells it apart, such as its group.
    """

    client: str
    user: str = ""
    address: str = ""
    since_ms: int = 0
    uses: Collection[str] = ()
    held: int | None = None
    detail: str = ""


@dataclass(frozen=True, slots=True)
class DoorFigures:
    """One door.  `connections` is a present number; messages, bytes and refusals count since the start.  None: the door
    does not count them."""

    connections: int
    messages_in: int | None = None
    messages_out: int | None = None
    refused: int | None = None
    bytes_in: int | None = None
