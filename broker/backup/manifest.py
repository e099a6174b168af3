"""Manifest: the list of what a backup has.

backup.json   {"format": 2, "store_id": ..., "segment_size_bytes": ..., "begin": ..., "end": ..., "broker": ...,
               "taken_ms": ..., "key": ..., "parts": [{"segment": ..., "start": ..., "bytes": ..., "sha256": ...,
               "digest": ..., "stamp": ...}]}
              and in a second line its MAC, if it is sealed
log/          the parts of the log, each an object named by its start and its digest

A part is up to 32 MiB of one segment. The key of receipt handles is in none: handles of the store do not hold at
another one. Hashes of passwords and secrets of users are, as they are in the log.
"""

from __future__ import annotations

from typing import Final

import msgspec

from entrepot.broker.backup.sealing import Seal
from entrepot.broker.backup.target import BackupTarget
from entrepot.broker.tiered.objects import MissingObjectError
from entrepot.domain.errors import Code, CorruptedError, EntrepotError

FILE: Final = "backup.json"
LOG: Final = "log"
FORMAT: Final = 2
PART_BYTES: Final = 32 << 20
_DIGITS: Final = 16


def place_of(store_id: str, segment: int, start: int, length: int) -> str:
    """Return what a sealed part is bound to."""
    return f"store {store_id}, segment {segment}, bytes {start} to {start + length}"


class SavedPart(msgspec.Struct, frozen=True):
    """A part of the log. `segment`: start of its segment. `bytes`: its length. `sha256`: of the object. `digest`: of
    its bytes in the log, with a key a MAC. `stamp`: of the segment's file: one that has it was not written to since."""

    segment: int
    start: int
    bytes: int
    sha256: str
    digest: str
    stamp: str

    @property
    def name(self) -> str:
        return f"{LOG}/{self.start:020d}-{self.sha256[:_DIGITS]}"

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
    """The list. `begin`, `end`: of the saved log. `taken_ms`: time of the last run. `key`: name of the key that seals
    it, or empty."""

    format: int
    store_id: str
    segment_size_bytes: int
    begin: int
    end: int
    broker: BrokerName | None
    taken_ms: int
    parts: tuple[SavedPart, ...]
    key: str = ""

    def save(self, target: BackupTarget) -> None:
        """Put it in place, durably. Raises TierError."""
        data = msgspec.json.encode(self)
        mac = b"" if target.seal is None else target.seal.mac(data).encode() + b"\n"
        target.replace(FILE, data + b"\n" + mac)


def manifest_of(target: BackupTarget) -> Manifest | None:
    """Return the manifest of a place, or None without one. Raises CorruptedError, UNSUPPORTED for another format,
    BAD_REQUEST for another key, TierError."""
    try:
        data, _, mac = target.get(FILE).partition(b"\n")
        number = msgspec.json.decode(data, type=dict).get("format")
        if number != FORMAT:
            told = f"{target.shown} has backup format {number}; this version reads {FORMAT}"
            raise EntrepotError(Code.UNSUPPORTED, told)
        found = msgspec.json.decode(data, type=Manifest)
    except MissingObjectError:
        return None
    except msgspec.MsgspecError as error:
        raise CorruptedError(f"{target.shown}/{FILE} cannot be read: {error}") from error
    _check_key(target, found.key, data, mac.strip().decode("ascii", "replace"))
    return found


def _check_key(target: BackupTarget, key: str, data: bytes, mac: str) -> None:
    seal: Seal | None = target.seal
    if key and seal is None:
        raise EntrepotError(Code.BAD_REQUEST, f"{target.shown} is sealed by the key {key}: name its file (--key-file)")
    if seal is not None and key != seal.name:
        by = f"by the key {key}, not by {seal.name}" if key else "by no key"
        raise EntrepotError(Code.BAD_REQUEST, f"{target.shown} is sealed {by}")
    if seal is not None and mac != seal.mac(data):
        raise CorruptedError(f"{target.shown}/{FILE} is not as it was saved")
