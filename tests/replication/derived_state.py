"""The state that a simulated replica derives from its log: messages, their attempts, and what is acknowledged."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from tests.replication.simulated_disk import Record


class Attempt(NamedTuple):
    """A delivery: the place of its message, and the name of its record."""

    message: int
    record: tuple[int, int, int]


@dataclass
class DerivedState:
    """Up to `end`.  `attempts`: the last one of each message, with its time.  `acknowledged`: the place of the
    record that says so, by the message's place."""

    end: int = 0
    messages: list[int] = field(default_factory=list)
    attempts: dict[int, tuple[Attempt, float]] = field(default_factory=dict)
    acknowledged: dict[int, int] = field(default_factory=dict)

    def copy(self) -> DerivedState:
        return DerivedState(self.end, [*self.messages], {**self.attempts}, {**self.acknowledged})

    def apply(self, records: Iterable[Record]) -> str:
        """Go on; a word for what must not be: an attempt at, or a second end of, what was acknowledged."""
        wrong = ""
        for record in records:
            place, self.end = self.end, self.end + 1
            kind = record.content[0]
            if kind == "message":
                self.messages.append(place)
            elif kind == "pop" or kind == "ack":
                message = record.content[1]
                assert isinstance(message, int)
                if message in self.acknowledged:
                    wrong = f"{record} is of a message that was acknowledged at {self.acknowledged[message]}"
                if kind == "pop":
                    self.attempts[message] = Attempt(message, record.name), record.at
                else:
                    self.acknowledged[message] = place
        return wrong


def derived_from(log: Sequence[Record]) -> DerivedState:
    """From all of a log."""
    made = DerivedState()
    made.apply(log)
    return made
