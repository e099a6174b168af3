"""What operators see of, and do with, the brokers behind a store."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable


@dataclass(frozen=True, slots=True)
class BrokerStatus:
    """A broker as a gateway sees it.

    `is_available`: it can be asked now.  `problem`: why it cannot, or else what is missing of its data.  `unsettled`,
    `waiting`, `unread`, `key_values`: what is on it (messages that groups have not settled, that wait for their time or
    transaction, that are in queues no group reads); None while it is away.
    """

    name: str
    number: int
    address: str
    zone: str
    is_available: bool
    is_draining: bool
    keeps_key_values: bool
    problem: str = ""
    unsettled: int | None = None
    waiting: int | None = None
    unread: int | None = None
    key_values: int | None = None


class ClusterControl(Protocol):
    """Brokers come by themselves; this is how they are looked at, drained, and let go."""

    @property
    def is_available(self) -> bool:
        """Whether any broker can be asked now."""
        ...

    async def brokers(self) -> list[BrokerStatus]:
        """Every broker that is known, by number."""
        ...

    def name_servers(self) -> dict[str, bool]:
        """Every name server by address, and whether it answers."""
        ...

    async def drain(self, name: str, *, is_draining: bool) -> BrokerStatus:
        """Let no new messages go to a broker, or let them again.  Key-values that it keeps move to another.

        Raises BAD_REQUEST (no such broker), UNAVAILABLE, PRECONDITION_FAILED (nobody else could take over).
        """
        ...

    async def leave(self, name: str) -> None:
        """Let a drained broker go for good; its process ends.  Raises as `drain`; PRECONDITION_FAILED if it is not
        empty."""
        ...


@runtime_checkable
class Clustered(Protocol):
    """A store over brokers that operators can look at."""

    @property
    def operations(self) -> ClusterControl | None: ...
