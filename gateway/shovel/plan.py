"""The plan of a shovel, and its progress."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ShovelPlan:
    """The plan; `source` and `target` are AMQP URLs. `prefetch`: messages of one queue on their way at a time.
    `follow`: go on when a queue is empty. `keeps_origin`: write exchange and routing key into headers."""

    source: str
    target: str
    prefetch: int = 500
    follow: bool = False
    keeps_origin: bool = False


@dataclass(slots=True)
class QueueProgress:
    """The progress of one queue.

    `carried`: messages confirmed by the target. `waiting`: messages ready at the source at the last look. `changed`:
    messages that could not keep all properties (`carried_properties`). `refused`: passing refusals of the target.
    `set_aside`: messages that no client library can write; they stay at the source, and the others go on.
    `problem`: the reason why the queue is not carried any further, or why messages stay.
    """

    queue: str
    carried: int = 0
    waiting: int = 0
    changed: int = 0
    refused: int = 0
    set_aside: int = 0
    is_done: bool = False
    problem: str | None = None


OnProgress = Callable[[QueueProgress], None]


class ShovelError(Exception):
    """A queue cannot be carried, and another try changes nothing."""
