"""TierStatus: how far a topic has come on its way into the object store."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TierStatus:
    """A tiered topic of one broker.

    `table`: path of its table in the object store.  `uploaded`: by queue, the offset up to which the table has it;
    queues of which nothing was uploaded are not there.  `lag_messages`: what only the disk has.  `segments`, `bytes`:
    of the table.  `problem`: why it does not go on, empty where it does.
    """

    topic: str
    table: str
    uploaded: tuple[tuple[int, int], ...]
    lag_messages: int
    segments: int
    bytes: int
    problem: str = ""
