"""Batches: one invalid event refuses the whole batch, and the refusal names all invalid ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from typing import TypeVar

from entrepot.protocols.cloudevents.errors import CloudEventError

T = TypeVar("T")
U = TypeVar("U")


def each_of(items: Iterable[T], taken: Callable[[T], U]) -> list[U]:
    """Return `taken` of each item.  Raises CloudEventError with the places of all invalid items, and the first
    fault."""
    done: list[U] = []
    faults: dict[int, CloudEventError] = {}
    for item in items:
        try:
            done.append(taken(item))
        except CloudEventError as error:
            faults[len(done) + len(faults)] = error
    if not faults:
        return done
    first = next(iter(faults.values()))
    raise CloudEventError(f"{events_at(list(faults))} (counted from 0): {first.message}", first.attribute)


def events_at(places: Sequence[int]) -> str:
    """Return ascending places of a batch as text: `events 0-2, 7 of the batch`."""
    runs = [list(run) for _, run in groupby(enumerate(places), lambda pair: pair[1] - pair[0])]
    texts = [str(run[0][1]) if len(run) == 1 else f"{run[0][1]}-{run[-1][1]}" for run in runs]
    return f"event{'s' if len(places) > 1 else ''} {', '.join(texts)} of the batch"
