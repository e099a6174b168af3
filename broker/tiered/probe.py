"""A test, at start, of the tier's needs of an object store.

Some stores take "create where there is none" for "write". There, two uploaders would overwrite each other's commits
unnoticed. So it is tried before anything is entrusted to one.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from entrepot.broker.tiered.objects import MissingObjectError, ObjectStore, TierError
from entrepot.domain.errors import Code

PLACE: Final = "_probe"
BODY_BYTES: Final = 4096
RACERS: Final = 6
RACES: Final = 3
"""Races of one probe: a store that looks before it writes may pass one race, and a race with all answers lost proves
nothing."""


def probe(store: ObjectStore, choices: random.Random) -> None:
    """Raise TierError for the first missing ability of the store, with its consequence. Nothing is left behind unless
    the store does not delete."""
    trial = _Trial(store, choices, f"{PLACE}/{choices.getrandbits(64):016x}")
    try:
        trial.create()
        trial.create_again()
        for turn in range(RACES):
            trial.race(turn)
        trial.read_back()
        trial.read_a_part()
        trial.listed()
        trial.delete()
    except BaseException:
        trial.clean()
        raise


class _Trial:
    """Objects of one probe: `_bodies` has the possible contents of each."""

    def __init__(self, store: ObjectStore, choices: random.Random, place: str) -> None:
        self._store = store
        self._choices = choices
        self._place = place
        self._first = f"{place}/first"
        self._bodies: dict[str, list[bytes]] = {}

    def create(self) -> None:
        body = self._choices.randbytes(BODY_BYTES)
        self._bodies[self._first] = [body]
        if not self._store.put_new(self._first, body) and self._store.get(self._first) != body:
            raise self._refused("it says of a new object that there is one", "nothing could be stored in it")

    def create_again(self) -> None:
        if self._store.put_new(self._first, self._choices.randbytes(BODY_BYTES)):
            raise self._refused(
                "it answers a second create of an object with success", "two uploaders would overwrite each other"
            )

    def race(self, turn: int) -> None:
        """Let writers race: exactly one may win, or none where the winner's answer was lost."""
        path = f"{self._place}/race-{turn}"
        bodies = [self._choices.randbytes(BODY_BYTES) for _ in range(RACERS)]
        self._bodies[path] = bodies
        won = _together([lambda body=body: self._store.put_new(path, body) for body in bodies])  # type: ignore[misc]
        if won.count(True) > 1:
            raise self._refused(
                f"of {RACERS} creates of one object at once {won.count(True)} succeeded",
                "two uploaders would overwrite each other",
            )
        if won.count(True):
            self._bodies[path] = [bodies[won.index(True)]]

    def read_back(self) -> None:
        for path, bodies in self._bodies.items():
            if self._store.get(path) not in bodies:
                raise self._refused(
                    "it gives other bytes than were stored, or those of a create that it refused",
                    "messages would be lost or doubled",
                )
            if self._store.size(path) != BODY_BYTES:
                raise self._refused("it tells a wrong size of an object", "tables would have wrong statistics")

    def read_a_part(self) -> None:
        body = self._bodies[self._first][0]
        wanted = [(0, 4), (BODY_BYTES // 2, BODY_BYTES // 2 + 100), (BODY_BYTES - 8, BODY_BYTES)]
        if self._store.get_ranges(self._first, wanted) != [body[start:end] for start, end in wanted]:
            raise self._refused("it gives other bytes where a part of an object is asked for", "reads would fail")

    def listed(self) -> None:
        found = [each.path for each in self._store.objects(f"{self._place}/")]
        if found != sorted(self._bodies):
            raise self._refused(
                "a list does not show what was just stored, in the order of paths", "commits would be overlooked"
            )

    def delete(self) -> None:
        self._store.delete(sorted(self._bodies))
        for path in self._bodies:
            with suppress(MissingObjectError):
                self._store.get(path)
                raise self._refused("it still has what was deleted", "messages would outlive their retention")
        if any(True for _ in self._store.objects(f"{self._place}/")):
            raise self._refused("a list still shows what was deleted", "messages would outlive their retention")

    def clean(self) -> None:
        """Clean up after a failure, whose error must not give way to another."""
        with suppress(TierError):
            self._store.delete(sorted(self._bodies))

    def _refused(self, what: str, why: str) -> TierError:
        return TierError(f"{self._store.url} is not a place for messages: {what}; {why}", Code.UNSUPPORTED)


def _together(calls: list[Callable[[], bool]]) -> list[bool]:
    """Return the results of calls that begin at once, each in a thread of its own. Raises the first error of any."""
    results: list[bool] = [False] * len(calls)
    errors: list[Exception] = []
    start = threading.Barrier(len(calls))

    def run(at: int) -> None:
        start.wait()
        try:
            results[at] = calls[at]()
        except Exception as error:  # noqa: BLE001 - raised below, where somebody sees it
            errors.append(error)

    threads = [threading.Thread(target=run, args=(at,), name=f"probe-{at}", daemon=True) for at in range(len(calls))]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    if errors:
        raise errors[0]
    return results
