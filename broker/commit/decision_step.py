"""DecisionStep: claims and settlements, gathered, then decided in order of arrival right before the log is written.

The decisions are one record of that write (`journal.py`), so they become durable together with their messages. Before
deciding, a step wakes long polls of topics that have taken messages since the last step: a message's arrival and its
delivery share one sync.

Invariant: nobody is told a step's decision before its record is durable.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from entrepot.broker.consume.journal import Journal
from entrepot.broker.consume.long_polling import LongPolling
from entrepot.domain.confirmation import Confirmation

T = TypeVar("T")


class Decision(Protocol):
    """A decision waiting for its step."""

    confirmation: Confirmation
    """Settled when the decision is durable, or with the failure of the store."""

    def decide(self) -> bool:
        """Decide without raising. False if there is nothing to tell yet: the decision is added again by itself."""


class Decided(Generic[T]):
    """The decision of one call."""

    __slots__ = ("_decide", "_error", "_result", "confirmation")

    def __init__(self, decide: Callable[[], T]) -> None:
        self._decide = decide
        self._error: Exception | None = None
        self._result: T
        self.confirmation = Confirmation()

    def decide(self) -> bool:
        try:
            self._result = self._decide()
        except Exception as error:  # noqa: BLE001 told to who asked: the other decisions of the step go on
            self._error = error
        return True

    async def outcome(self) -> T:
        """Return the result once it is durable. Raises the decision's error, or the failure of the store."""
        await self.confirmation.wait()
        if self._error is not None:
            raise self._error
        return self._result


class DecisionStep:
    """A gatherer of decisions. `wake_taken` lets long polls of topics with taken messages add their decisions.
    Decisions that may wait are left for a later step that writes something anyway."""

    def __init__(
        self, journal: Journal, now_ms: Callable[[], int], polling: LongPolling, wake_taken: Callable[[], None]
    ) -> None:
        self._journal, self._now_ms, self._polling, self._wake_taken = journal, now_ms, polling, wake_taken
        self._gathered: list[Decision] = []
        self._waiting: list[Decision] = []
        self._told: list[Confirmation] = []

    @property
    def has_waiting(self) -> bool:
        """True while decisions wait for something to be written."""
        return bool(self._waiting)

    def add(self, decision: Decision, *, may_wait: bool = False) -> None:
        (self._waiting if may_wait else self._gathered).append(decision)

    def run(self, *, is_last: bool = False) -> list[Confirmation]:
        """Decide all gathered decisions, including those they add; with `is_last` also those that may wait. Returns the
        confirmations to be settled once the log is durable up to its present end."""
        if self._polling.count:
            self._wake_taken()
        if self._waiting and (is_last or self._gathered or self._journal.has_unwritten):
            self._gathered, self._waiting = self._waiting + self._gathered, []  # waiting decisions came later
        if self._gathered:
            self._journal.begin_step(self._now_ms())
            try:
                self._decide_gathered()
            finally:
                self._journal.end_step()
        told, self._told = self._told, []
        return told

    def _decide_gathered(self) -> None:
        while self._gathered:
            gathered, self._gathered = self._gathered, []
            self._told += [decision.confirmation for decision in gathered if decision.decide()]

    def fail(self) -> list[Confirmation]:
        """Fail the step; return the confirmations of decisions that will never be durable or were never made."""
        undecided, told = [*self._gathered, *self._waiting], self._told
        self._gathered, self._waiting, self._told = [], [], []
        return told + [decision.confirmation for decision in undecided]
