"""A controller's directory: its identity, and the files of its part in Raft.

controller.json   {"controller": ..., "start": {"incarnation": ..., "run": ..., "tokens": [...]}, "is_refused": ...,
                   "cluster": ..., "founders": [...], "addresses": {...}}
raft/             see `broker.raft.files`

A directory always belongs to one controller of one group. An emptied one may have forgotten a vote, so it only comes
back under a new id.
"""

from __future__ import annotations

import hashlib
import secrets
import shutil
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final

import msgspec

from entrepot.broker.controller.starts import DirectoryStart
from entrepot.broker.raft.files import OsDirectory, RaftFiles
from entrepot.broker.raft.state import EMPTY, Stored, first_stored
from entrepot.broker.store.small_files import decode_json, put_durably
from entrepot.broker.store.store_files import DirectoryLock
from entrepot.domain.errors import StoreFailedError

FILE: Final = "controller.json"
REPLACE: Final = "its votes are not known: replace it by a controller with a new id and an empty directory"


class ControllerIdentity(msgspec.Struct):
    """A controller's identity. `start`: its last one. `cluster`: id of the group of controllers, empty before it
    belongs to one; `founders`: those that began it, each as id:incarnation. `is_refused`: others take it for an old
    copy. `addresses`: of the members, as it last knew them: the register is empty after a start, until a majority
    meets."""

    controller: int
    start: DirectoryStart
    cluster: str = ""
    founders: tuple[str, ...] = ()
    is_refused: bool = False
    addresses: dict[int, str] = {}

    @property
    def incarnation(self) -> str:
        return self.start.incarnation


class ControllerDirectory:
    """The directory, opened by one process at a time. Raises StoreFailedError, OSError."""

    def __init__(self, path: Path, controller: int) -> None:
        self._lock = DirectoryLock(str(path))
        self._path = path
        try:
            self.identity = self._load(controller)
            if not self.identity.is_refused:  # a copy that starts often enough could not be told apart
                self.identity.start = self.identity.start.next(secrets.token_hex(4))
                self._save()
        except BaseException:
            self.close()
            raise

    def _load(self, controller: int) -> ControllerIdentity:
        file = self._path / FILE
        if not file.exists():
            if (self._path / "raft").exists():
                raise StoreFailedError(f"{self._path} has a controller's log and no {FILE}: whose it is nobody knows")
            return ControllerIdentity(controller, DirectoryStart(secrets.token_hex(16), 0))
        try:
            found = decode_json(file.read_bytes(), ControllerIdentity)
        except msgspec.DecodeError as error:
            raise StoreFailedError(f"{file} cannot be read: {error}; {REPLACE}") from error
        if found.controller != controller:
            raise StoreFailedError(f"{self._path} is the directory of controller {found.controller}, not {controller}")
        return found

    def _save(self) -> None:
        put_durably(self._path / FILE, msgspec.json.format(msgspec.json.encode(self.identity), indent=2))

    def note_refused(self, is_refused: bool) -> None:
        """Note that others refuse it, or accept it again. Raises OSError."""
        if is_refused != self.identity.is_refused:
            self.identity.is_refused = is_refused
            self._save()

    def note_addresses(self, addresses: Mapping[int, str]) -> None:
        """Keep the addresses of the members. Raises OSError."""
        if addresses != self.identity.addresses:
            self.identity.addresses = dict(addresses)
            self._save()

    def close(self) -> None:
        self._lock.release()

    # -- the group of controllers --------------------------------------------------------------------------------

    def found(self, founders: Collection[str]) -> None:
        """Begin a group of controllers with others, each of which does the same."""
        self._belong(cluster_of(founders), founders, first_stored(sorted(map(id_of, founders))))

    def join(self, cluster: str, founders: Collection[str]) -> None:
        """Wait for the leader of an existing group to take this controller in."""
        self._belong(cluster, founders, EMPTY)

    def _belong(self, cluster: str, founders: Collection[str], stored: Stored) -> None:
        shutil.rmtree(self._path / "raft", ignore_errors=True)  # a crash ended an earlier try; nobody was told of it
        self.files().create(stored)
        self.identity.cluster, self.identity.founders = cluster, tuple(sorted(founders))
        self._save()

    def files(self) -> RaftFiles:
        """Return the files of its part in Raft."""
        return RaftFiles(OsDirectory(self._path / "raft"), self.identity.controller)


def founder(identity: ControllerIdentity) -> str:
    """Return a controller's name among the founders."""
    return f"{identity.controller}:{identity.incarnation}"


def id_of(founder: str) -> int:
    return int(founder.partition(":")[0])


def cluster_of(founders: Collection[str]) -> str:
    """Return the id of a group of controllers: its founders need not agree on it."""
    return hashlib.sha256(" ".join(sorted(founders)).encode()).hexdigest()[:32]
