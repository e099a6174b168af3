"""The backups of a cluster's brokers, side by side at one place; and what is missing between them.

Each broker is saved by itself, as a moment of its store. What went from one broker to another between two moments, a
dead letter or a moved queue, is in both or in neither. So the moments are told, and brokers are saved together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from entrepot.broker.backup.manifest import FILE, Manifest, manifest_of
from entrepot.broker.backup.target import BackupTarget
from entrepot.domain.errors import EntrepotError
from entrepot.domain.timestamp import to_rfc3339

NEAR_MS: Final = 1_000
"""Time between two moments that is not worth a word."""


@dataclass(frozen=True, slots=True)
class BrokerBackup:
    """The backup of a broker. `problem`: the reason why its list cannot be read, or empty."""

    name: str
    target: BackupTarget
    manifest: Manifest | None
    problem: str = ""


def backups_of(target: BackupTarget) -> list[BrokerBackup]:
    """Return the backups below a place, by the brokers' names. Raises TierError."""
    below = target.path("")
    names = {each.path.removeprefix(below).partition("/")[0] for each in target.objects.objects(below)}
    return [_backup(target, name) for name in sorted(names - {FILE})]


def _backup(target: BackupTarget, name: str) -> BrokerBackup:
    place = target.at(name)
    try:
        found = manifest_of(place)
    except EntrepotError as error:
        return BrokerBackup(name, place, None, error.message)
    return BrokerBackup(name, place, found, "" if found is not None else f"there is no {FILE}: it was never finished")


def between(backups: list[BrokerBackup]) -> list[str]:
    """Return what is missing between brokers, in words: of each that was saved before the last one."""
    taken = {each.name: each.manifest.taken_ms for each in backups if each.manifest is not None}
    if not taken:
        return []
    last = max(taken, key=lambda name: taken[name])
    return [
        f"broker {name} was saved {(taken[last] - at) / 1000:,.0f} s before broker {last}, at {to_rfc3339(at)}: what "
        "went between them since then is at both or at neither"
        for name, at in sorted(taken.items())
        if taken[last] - at > NEAR_MS
    ]
