"""LastAnswers: the last answers of one sink to one gateway, for operators."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

KEPT_ANSWERS: Final = 20
"""Kept answers of one subscription at one gateway."""
MAX_FAULT: Final = 200
"""Kept characters of a fault."""


@dataclass(frozen=True, slots=True)
class SinkAnswer:
    """One answer.  `status` 0: none came, for the reason in `fault`.  `outcome`: the verdict in lower case.  `attempt`:
    the highest of the request's `events`."""

    at_ms: int
    duration_ms: int
    status: int
    fault: str
    outcome: str
    events: int
    attempt: int


class LastAnswers:
    """The newest answers; `retry_at_ms`: time of the earliest retry after the last failure, 0 after a success."""

    def __init__(self) -> None:
        self._answers: deque[SinkAnswer] = deque(maxlen=KEPT_ANSWERS)
        self.retry_at_ms = 0

    def __iter__(self) -> Iterator[SinkAnswer]:
        """The newest first."""
        return reversed(self._answers)

    @property
    def last(self) -> str:
        """The last status or fault; empty for none."""
        if not self._answers:
            return ""
        newest = self._answers[-1]
        return str(newest.status) if newest.status else newest.fault

    def add(self, answer: SinkAnswer) -> None:
        self._answers.append(answer)
        self.retry_at_ms = 0
