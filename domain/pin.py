"""Pin: a message queue whose oldest message keeps more of a broker's log than retention would."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Pin:
    """A queue that keeps old segments of the log.  `bytes`: the log from its oldest message on.  `reason`: why these
    messages cannot be carried forward, in words."""

    topic: str
    queue_id: int
    bytes: int
    reason: str
