"""Manifest: what a backup's folder has.

backup.json   {"format": 1, "store_id": ..., "segment_size_bytes": ..., "begin": ..., "end": ..., "broker": ...,
               "taken_ms": ..., "segments": [{"start": ..., "bytes": ..., "sha256": ...}]}
commitlog/    the segments, by the names and with the bytes that they have in the store

The key of receipt handles is not in it: handles of the store do not hold at another one. Hashes of passwords and
secrets of users are, as they are in the log.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from entrepot.broker.store.small_files import put_durably
from entrepot.domain.errors import Code, CorruptedError, EntrepotError

FILE: Final = "backup.json"
LOG: Final = "commitlog"
FORMAT: Final = 1


class SavedSegment(msgspec.Struct, frozen=True):
    """A segment of a backup. `bytes`: its length; the last one may be shorter than the others."""

    start: int
    bytes: int
    sha256: str

    @property
    def name(self) -> str:
        return f"{self.start:020d}"

    @property
    def end(self) -> int:
        return self.start + self.bytes


class BrokerName(msgspec.Struct, frozen=True):
    """Name and number of the broker whose store it is. `order`: of its masters and starts (`domain.route`), above all
    that were known when it was saved."""

    name: str
    number: int
    keeps_key_values: bool | None = None
    order: int = 0


class Manifest(msgspec.Struct, frozen=True):
    """The manifest. `begin`, `end`: of the saved log. `taken_ms`: time of the last run."""

    format: int
    store_id: str
    segment_size_bytes: int
    begin: int
    end: int
    broker: BrokerName | None
    taken_ms: int
    segments: tuple[SavedSegment, ...]

    def save(self, folder: Path) -> None:
        """Put it in place, durably. Raises OSError."""
        put_durably(folder / FILE, msgspec.json.format(msgspec.json.encode(self), indent=2))


def manifest_of(folder: Path) -> Manifest | None:
    """Return the manifest of a folder, or None without one. Raises CorruptedError, UNSUPPORTED for another format."""
    path = folder / FILE
    try:
        data = path.read_bytes()
        number = msgspec.json.decode(data, type=dict).get("format")
        if number != FORMAT:
            raise EntrepotError(Code.UNSUPPORTED, f"{path} has backup format {number}; this version reads {FORMAT}")
        return msgspec.json.decode(data, type=Manifest)
    except FileNotFoundError:
        return None
    except msgspec.MsgspecError as error:
        raise CorruptedError(f"{path} cannot be read: {error}") from error
