"""Small files beside the log that are replaced as a whole: a broker's identity, a replica's promises."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TypeVar

import msgspec

from entrepot.broker.store.disk import is_want_of_room
from entrepot.broker.store.private_files import DIRECTORY_MODE, make_directories, open_private

T = TypeVar("T")


def decode_json(data: bytes, kind: type[T]) -> T:
    """Return the value in a file's bytes. Raises msgspec.DecodeError for whatever is none, as a torn file."""
    try:
        return msgspec.json.decode(data, type=kind)
    except (UnicodeDecodeError, RecursionError) as error:  # msgspec raises them as they are
        raise msgspec.DecodeError(str(error)) from error


def put_durably(path: Path, data: bytes) -> None:
    """Put a file in place whole, durably. Without room on the disk it is overwritten in place, which needs none; so
    small a file is written at once. Raises OSError."""
    draft = path.with_name(f"{path.name}.draft")
    draft.unlink(missing_ok=True)  # a rename that a power loss halved left it as another name of the file
    try:
        _write(draft, data, os.O_CREAT | os.O_EXCL)
    except OSError as error:
        draft.unlink(missing_ok=True)
        if not (is_want_of_room(error) and path.exists()):
            raise
        _write(path, data)
    else:
        draft.replace(path)
    sync_directory(path.parent)


def make_directories_durably(path: Path | str, mode: int = DIRECTORY_MODE) -> None:
    """Make a directory with its missing parents, as `make_directories`; their names survive a power loss. Whatever is
    made durable in a directory is lost with its name. Raises OSError."""
    for each in make_directories(str(path), mode):
        sync_directory(os.path.dirname(each) or ".")


def sync_file(path: str) -> None:
    """Make a file durable, waiting for it.  Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fdatasync(descriptor)
    finally:
        os.close(descriptor)


def sync_directory(path: Path | str) -> None:
    """Make the names in a directory durable, waiting for it. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write(path: Path, data: bytes, flags: int = 0) -> None:
    descriptor = open_private(str(path), os.O_WRONLY | flags)
    try:
        os.pwrite(descriptor, data, 0)
        os.ftruncate(descriptor, len(data))
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
