"""The backups of a cluster's brokers, side by side at one place; and what is missing between them.

Each broker is saved by itself, as a moment of its store. A dead letter or a moved queue that went from one broker
to another between two moments is in both or in neither. So the moments are told, and brokers are saved together.
"""

from __future__ import annotations

from dataclasses import dataclass

from entrepot.broker.backup.manifest import FILE, Manifest, manifest_of
from entrepot.broker.backup.target import BackupTarget
from entrepot.domain.errors import EntrepotError


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


def moments(backups: list[BrokerBackup]) -> dict[str, int]:
    """Return the moment of each that can be read, in epoch milliseconds."""
    return {each.name: each.manifest.taken_ms for each in backups if each.manifest is not None}
