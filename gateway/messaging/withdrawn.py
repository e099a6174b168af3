"""Withdrawn messages: those that must not be stored any more, because an earlier one of their sender failed.

The sender sends the failed one again, and what follows behind it.  If what follows were stored now, it would stand
before the failed one.  What has left this gateway cannot be withdrawn; what waits, here or for a broker, can.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import TypeVar

from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.message import Message
from entrepot.gateway.messaging.new_topics import OnSent, tell

S = TypeVar("S")

Calls = list[tuple[int, OnSent]]
"""Calls of one batch: the number of messages of each, and its callback."""


def is_withdrawn(on_sent: OnSent) -> bool:
    """True if a call is withdrawn: its callback says so, if it can, by an attribute `is_withdrawn`."""
    return getattr(on_sent, "is_withdrawn", False)


def is_told(on_sent: OnSent) -> bool:
    """True if a call is withdrawn; then it is told that it failed."""
    if not is_withdrawn(on_sent):
        return False
    tell(on_sent, EntrepotError(Code.UNAVAILABLE, "an earlier message of this sender failed"), None)
    return True


def without_withdrawn(messages: list[Message], calls: Calls, sources: list[S]) -> tuple[list[Message], Calls, list[S]]:
    """Return what is left of a batch; withdrawn calls are told that they failed."""
    if not any(is_withdrawn(on_sent) for _, on_sent in calls):
        return messages, calls, sources
    left: tuple[list[Message], Calls, list[S]] = ([], [], [])
    at = 0
    for call, source in zip(calls, sources, strict=True):
        part = messages[at : at + call[0]]
        at += call[0]
        if not is_told(call[1]):
            left[0].extend(part)
            left[1].append(call)
            left[2].append(source)
    return left


class WithdrawnPlaces:
    """Tells by the place of a message in its batch whether it is withdrawn by now (`Confirmation.is_withdrawn`)."""

    __slots__ = ("_calls", "_ends")

    def __init__(self, calls: Sequence[tuple[int, OnSent]]) -> None:
        self._calls = calls
        self._ends: list[int] | None = None

    def __call__(self, place: int) -> bool:
        if self._ends is None:
            self._ends = list(accumulate(size for size, _ in self._calls))
        return is_withdrawn(self._calls[bisect_right(self._ends, place)][1])
