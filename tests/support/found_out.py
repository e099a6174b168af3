"""Planted faults: a simulation has to find each of them, by the words of the rule that it breaks."""

from __future__ import annotations

from collections.abc import Callable

from tests.support.seed import SEED


def check_found_out(
    words: str, most_worlds: int, finding: Callable[[str], str | None], finding_without: Callable[[str], str | None]
) -> None:
    """`finding`: why the world of a seed is broken, or None.  `words`: parted by `|`.  What it is found by besides is
    its own where the same world without it (`finding_without`) is well."""
    print(f"ENTREPOT_TEST_SEED={SEED}")
    for number in range(most_worlds):
        found = finding(f"{SEED}-{number}")
        if found is None:
            continue
        print(f"found in world {number}: {found}")
        if any(word in found for word in words.split("|")):
            return
        assert finding_without(f"{SEED}-{number}") is None
    raise AssertionError(f"not found out by {words!r} in {most_worlds} worlds")
