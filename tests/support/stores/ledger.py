"""What a store was made to do, against what it is found to have after a crash: a prefix that holds all that is durable.

A state has `apply(change)`; two states are the same if they are equal.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any, Generic, Protocol, TypeVar


class State(Protocol):
    def apply(self, change: Any) -> None: ...


S = TypeVar("S", bound=State)


class Ledger(Generic[S]):
    """`now`: with all changes.  `durable`: with those that no crash can undo.  `open`: the others."""

    def __init__(self, state: S) -> None:
        self.now = state
        self.durable = deepcopy(state)
        self.open: list[Any] = []
        self._asked = 0

    def note(self, *changes: Any) -> None:
        """Changes that the store took, one record each."""
        for change in changes:
            self.now.apply(change)
            self.open.append(change)

    def ask(self) -> None:
        """What there is now is to become durable."""
        self._asked = len(self.open)

    def answer(self) -> None:
        """What was asked for is durable."""
        for change in self.open[: self._asked]:
            self.durable.apply(change)
        del self.open[: self._asked]
        self._asked = 0

    def recover(self, found: S, planned: list[Any]) -> None:
        """Hold what was found to the changes that may be there, `planned` ones of a call that never ended included."""
        possible = deepcopy(self.durable)
        seen = [deepcopy(possible)]
        for change in [*self.open, *planned]:
            possible.apply(change)
            seen.append(deepcopy(possible))
        assert found in seen, f"found {found}\nafter {self.durable}\nwith {self.open} and then perhaps {planned}"
        self.now, self.durable = deepcopy(found), deepcopy(found)
        self.open.clear()
        self._asked = 0
