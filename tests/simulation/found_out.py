"""Planted faults: a simulation has to find each of them, by the words of the rule that it breaks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tests.support.seed import SEED

KNOWN_WORLDS: Final = 3
"""Worlds that are the same in each run.  Most faults show in them at once, where a search takes many seconds."""


def check_found_out(
    words: str, most_worlds: int, finding: Callable[[str], str | None], finding_without: Callable[[str], str | None]
) -> None:
    """`finding`: why the world of a seed is broken, or None.  `words`: parted by `|`.  What it is found by besides is
    its own where the same world without it (`finding_without`) is well."""
    print(f"ENTREPOT_TEST_SEED={SEED}")
    for number in range(most_worlds):
        seed = str(number) if number < KNOWN_WORLDS else f"{SEED}-{number}"
        found = finding(seed)
        if found is None:
            continue
        print(f"found in world {number}: {found}")
        if any(word in found for word in words.split("|")):
            return
        assert finding_without(seed) is None
    raise AssertionError(f"not found out by {words!r} in {most_worlds} worlds")
