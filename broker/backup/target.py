"""Target: where backups are: a folder or an object store, with or without a seal.

Folders are private to their owner. A backup leaves the machine sealed, unless an operator says that it need not be.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import unquote

from entrepot.broker.backup.sealing import Seal
from entrepot.broker.store.private_files import DIRECTORY_MODE, FILE_MODE
from entrepot.broker.tiered.folder import FolderStore
from entrepot.broker.tiered.objects import ObjectStore
from entrepot.broker.tiered.opening_store import folder_of, open_objects
from entrepot.broker.tiered.store_options import StoreOptions
from entrepot.domain.errors import Code, EntrepotError


@dataclass(frozen=True, slots=True)
class BackupTarget:
    """A place for the backup of one store. `below`: the part of the objects' paths that is the place's own."""

    objects: ObjectStore
    seal: Seal | None = None
    below: str = ""

    @property
    def is_folder(self) -> bool:
        return self.objects.url.startswith("file://")

    @property
    def shown(self) -> str:
        """The place for people."""
        url = unquote(self.objects.url.removeprefix("file://")) if self.is_folder else self.objects.url
        return f"{url}/{self.below}" if self.below else url

    def at(self, name: str) -> BackupTarget:
        """Return the place of a broker of a cluster."""
        return replace(self, below=f"{self.below}/{name}" if self.below else name)

    def path(self, name: str) -> str:
        return f"{self.below}/{name}" if self.below else name

    def put(self, name: str, data: bytes) -> None:
        """Store an object durably. One of that name is the same: names have digests."""
        path = self.path(name)
        if not self.objects.put_new(path, data) and self.objects.size(path) != len(data):
            self.objects.replace(path, data)  # it was damaged

    def replace(self, name: str, data: bytes) -> None:
        self.objects.replace(self.path(name), data)

    def get(self, name: str) -> bytes:
        """Return an object. Raises MissingObjectError."""
        return self.objects.get(self.path(name))

    def delete(self, names: Sequence[str]) -> None:
        self.objects.delete([self.path(name) for name in names])


def open_target(
    where: str, options: StoreOptions | None = None, seal: Seal | None = None, *, is_new: bool = False
) -> BackupTarget:
    """Return the place of a folder's path or an object store's URL. `is_new`: a missing folder is made. Raises
    TierError, BAD_REQUEST without a folder."""
    if "://" not in where or where.startswith("file://"):
        folder = folder_of(where) if "://" in where else Path(where)
        if not is_new and not folder.is_dir():
            raise EntrepotError(Code.BAD_REQUEST, f"{where} has no backup: there is no such folder")
        return BackupTarget(FolderStore(folder, FILE_MODE, DIRECTORY_MODE), seal)
    return BackupTarget(open_objects(where, options), seal)


def check_sealed(where: str, *, is_sealed: bool, is_plain: bool) -> None:
    """Raise BAD_REQUEST for a backup that would leave the machine unsealed, unless that is wanted."""
    if "://" in where and not where.startswith("file://") and not (is_sealed or is_plain):
        raise EntrepotError(
            Code.BAD_REQUEST,
            f"{where} is on other machines, and the log has hashes of passwords and secrets: name a key "
            "(--key-file or backup.key_file; entrepot store backup key makes one), or say --plain (backup.plain)",
        )
