"""Backups of brokers: the state of one, and what is missing between several."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from entrepot.domain.timestamp import to_rfc3339

NEAR_MS: Final = 1_000
"""Time between two moments that is not worth a word, in milliseconds."""


class BackupStatus(NamedTuple):
    """The backup of a broker's store at its place.  `began_ms`: beginning of the last run since the broker's start, or
    0.  `is_running`: it is under way; else the rest is of it: `begin` and `end` of the saved log, its time, the bytes
    that it copied.  `key`: name of the key that encrypts it, or empty.  `problem`: reason why it failed, or empty."""

    broker: str
    place: str
    began_ms: int = 0
    is_running: bool = False
    begin: int = 0
    end: int = 0
    taken_ms: int = 0
    copied_bytes: int = 0
    key: str = ""
    problem: str = ""


def between(taken_ms: Mapping[str, int]) -> list[str]:
    """Return what is missing between brokers, in words: of each that was saved before the last one.  `taken_ms`: the
    moment of each, by name."""
    if not taken_ms:
        return []
    last = max(taken_ms, key=lambda name: taken_ms[name])
    earlier = {name: taken_ms[last] - at for name, at in sorted(taken_ms.items())}
    return [
        f"broker {name} was saved {by / 1000:,.0f} s before broker {last}, at {to_rfc3339(taken_ms[name])}: what went "
        "between them since then is at both or at neither"
        for name, by in earlier.items()
        if by > NEAR_MS
    ]
