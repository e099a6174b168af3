"""The owner of a table: the one job that writes it.

A table knows the batches of a job by the id of its checkpoint. A job with another checkpoint would add every row again.
So the first job leaves a file in the table, and others are refused, until one takes the table over by name. Readers of
all formats ignore names that begin with an underscore.
"""

from __future__ import annotations

import json
import os
import uuid
from pathlib import Path
from typing import Final

from entrepot.spark_ingest.tables.staging import replace_file, sync
from entrepot.spark_ingest.tables.table import TableError

OWNER_FILE: Final = "_entrepot_owner.json"
JOB_FILE: Final = "id"
"""File with the id of a job, in its folder of the checkpoint."""


def job_id(folder: Path) -> str:
    """The id of the job with this folder, which is made at its first start."""
    path = folder / JOB_FILE
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        replace_file(path, uuid.uuid4().hex.encode())
    return path.read_text()


def claim(table: str, folder: Path, *, takes_over: bool = False) -> None:
    """Make the job with this folder the owner of a table. Raises TableError where another one is, unless it is taken
    over."""
    if "://" in table:
        return  # no file can be left there without Spark
    path, job = Path(table) / OWNER_FILE, job_id(folder)
    data = json.dumps({"job": job, "checkpoint": str(folder.parent)}).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    if takes_over:
        replace_file(path, data)
        return
    draft = path.with_name(f".{OWNER_FILE}.{job}")
    draft.write_bytes(data)
    try:
        os.link(draft, path)  # there is none, or this fails
        sync(path.parent)
    except FileExistsError:
        check_owner(table, folder)
    finally:
        draft.unlink()


def check_owner(table: str, folder: Path) -> None:
    """Raise TableError where another job is the owner of a table."""
    path = Path(table) / OWNER_FILE
    if "://" in table or not path.exists():
        return
    try:
        found = json.loads(path.read_bytes())
        owner, checkpoint = str(found["job"]), str(found["checkpoint"])
    except (ValueError, KeyError, TypeError):
        raise TableError(f"{path} cannot be read: take the table over (--take-over)") from None
    if owner != job_id(folder):
        here = str(folder.parent)
        whose = f"another checkpoint, {checkpoint}" if checkpoint != here else "a checkpoint that was deleted"
        raise TableError(
            f"{table} was written with {whose}: with {here} every row would come twice. "
            "Give that checkpoint or another table, or take the table over (--take-over)"
        )
