"""What a shovel is to do, and how far it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ShovelPlan:
    """`source`, `target`: AMQP URLs.  `prefetch`: messages of one queue that are on their way at a time.  `follow`: go
    on when a queue is empty.  `keeps_origin`: write exchange and routing key into headers."""

    source: str
    target: str
    prefetch: int = 500
    follow: bool = False
    keeps_origin: bool = False


@dataclass(slots=True)
class QueueProgress:
    """One queue's.  `carried`: messages that the target has confirmed.  `waiting`: those that were still ready at the
    source when it was looked last.  `changed`: messages whose properties could not all stay (`carried_properties`).
    `refused`: how often the target would not take one now.  `problem`: why it is not carried any further."""

    queue: str
    carried: int = 0
    waiting: int = 0
    changed: int = 0
    refused: int = 0
    is_done: bool = False
    problem: str | None = None


OnProgress = Callable[[QueueProgress], None]


class ShovelError(Exception):
    """A queue cannot be carried, and trying again changes nothing."""
