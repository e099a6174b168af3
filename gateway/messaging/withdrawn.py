"""Withdrawn messages: those that must not be stored any more, because an earlier one of their sender failed.

The sender sends the failed one again, and then the ones that follow.  If these were stored now, they would stand
before the failed one.  A message that has left this gateway cannot be withdrawn; one that waits can, here or
for a broker.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

from entrepot.gateway.messaging.send_call import Call


class WithdrawnPlaces:
    """Tells by the place of a message in its batch whether it is withdrawn by now (`Confirmation.is_withdrawn`)."""

    __slots__ = ("_calls", "_ends")

    def __init__(self, calls: Sequence[Call]) -> None:
        self._calls = calls
        self._ends: list[int] | None = None

    def __call__(self, place: int) -> bool:
        if self._ends is None:
            self._ends = list(accumulate(len(call.messages) for call in self._calls))
        return self._calls[bisect_right(self._ends, place)].is_withdrawn
