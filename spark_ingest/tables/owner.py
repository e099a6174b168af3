"""The owner of a table: the one job that writes it.

A table knows the batches of a job by the id of its checkpoint. A job with another checkpoint would add every row again.
So the first job leaves its name in the table, and others are refused, until one takes the table over by name. Readers
of all formats ignore names that begin with an underscore.
"""

from __future__ import annotations

import json
import os
import uuid
from pathlib import Path
from typing import Final, Protocol

from entrepot.spark_ingest.tables.staging import replace_file, sync
from entrepot.spark_ingest.tables.table import TableError

OWNER_FILE: Final = "_entrepot_owner.json"
JOB_FILE: Final = "id"
"""File with the id of a job, in its folder of the checkpoint."""


class OwnerPlace(Protocol):
    """The place in a table where its owner leaves a name."""

    table: str
    where: str

    def names(self) -> list[bytes]:
        """Return what is there; more than one where several jobs were first at once."""

    def leave(self, name: bytes, job: str) -> bool:
        """Leave a name; False where there is one."""

    def replace(self, name: bytes) -> None: ...


class OwnerFile:
    """A file, which is linked into a table's folder: of several jobs one is first."""

    def __init__(self, table: str) -> None:
        self.table = table
        self._path = Path(table) / OWNER_FILE
        self.where = str(self._path)

    def names(self) -> list[bytes]:
        return [self._path.read_bytes()] if self._path.exists() else []

    def leave(self, name: bytes, job: str) -> bool:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        draft = self._path.with_name(f".{OWNER_FILE}.{job}")
        draft.write_bytes(name)
        try:
            os.link(draft, self._path)  # there is none, or this fails
            sync(self._path.parent)
        except FileExistsError:
            return False
        finally:
            draft.unlink()
        return True

    def replace(self, name: bytes) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(self._path, name)


def job_id(folder: Path) -> str:
    """The id of the job with this folder, which is made at its first start."""
    path = folder / JOB_FILE
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        replace_file(path, uuid.uuid4().hex.encode())
    return path.read_text()


def claim(place: OwnerPlace, folder: Path, *, takes_over: bool = False) -> None:
    """Make the job with this folder the owner of a table. Raises TableError where another one is, unless it is taken
    over."""
    job = job_id(folder)
    name = json.dumps({"job": job, "checkpoint": str(folder.parent)}).encode()
    if takes_over:
        place.replace(name)
    elif not place.names():
        place.leave(name, job)
    check_owner(place, folder)


def check_owner(place: OwnerPlace, folder: Path) -> None:
    """Raise TableError where another job is the owner of a table."""
    names = place.names()
    if len(names) > 1:
        raise TableError(f"{place.table} was begun by several jobs at once: take the table over with one (--take-over)")
    for name in names:
        try:
            found = json.loads(name)
            owner, checkpoint = str(found["job"]), str(found["checkpoint"])
        except (ValueError, KeyError, TypeError):
            raise TableError(f"{place.where} cannot be read: take the table over (--take-over)") from None
        if owner != job_id(folder):
            here = str(folder.parent)
            whose = f"another checkpoint, {checkpoint}" if checkpoint != here else "a checkpoint that was deleted"
            raise TableError(
                f"{place.table} was written with {whose}: with {here} every row would come twice. "
                "Give that checkpoint or another table, or take the table over (--take-over)"
            )
