"""Callbacks: a loop over many of them, or over many messages, survives one that fails.

A callback's fault is its own: the others are called, and the faults are returned for the caller's log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def call_each(callbacks: Iterable[Callable[P, object]], /, *args: P.args, **kwargs: P.kwargs) -> Sequence[Exception]:
    """Call each; return the faults."""
    faults: list[Exception] = []
    for callback in callbacks:
        try:
            callback(*args, **kwargs)
        except Exception as fault:  # noqa: BLE001 - the others are to be called
            faults.append(fault)
    return faults


def hand_over(items: list[T], take: Callable[[list[T]], object]) -> Sequence[tuple[T, Exception]]:
    """Give items to `take`, in order and at once; one by one where that fails.  Return those that it never took.

    `take` takes all items or raises without having taken any of them.
    """
    try:
        take(items)
    except Exception as fault:  # noqa: BLE001 - the others are to be taken
        if len(items) == 1:
            return [(items[0], fault)]
        return [failed for item in items for failed in hand_over([item], take)]
    return ()
