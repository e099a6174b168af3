"""BrokerIdentity: who a broker is, kept beside its store for as long as its data lives.

broker.json   {"name": ..., "number": ..., "keeps_key_values": true | false | null, "is_draining": false, "epoch": ...}

The number is part of every queue id that the world has of this broker, so it never changes with the data.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import msgspec

from broker.store.disk import is_want_of_space
from broker.store.private_files import open_private
from domain.errors import StoreFailedError
from domain.shard import MAX_BROKER_NUMBER, broker_number

FILE: Final = "broker.json"


class BrokerIdentity(msgspec.Struct):
    """`keeps_key_values`: None until that is decided (`broker.server.registration`).  `epoch`: of the last process that
    had it, in milliseconds; it only grows, whatever the clock does."""

    name: str
    number: int
    keeps_key_values: bool | None = None
    is_draining: bool = False
    epoch: int = 0

    def save(self, data_dir: Path) -> None:
        """Put it in place whole, durably; where the disk has no room, over what is there: it needs none, and so small
        a file is written at once."""
        path, draft = data_dir / FILE, data_dir / f"{FILE}.draft"
        data = msgspec.json.format(msgspec.json.encode(self), indent=2)
        try:
            _write(draft, data, os.O_CREAT | os.O_TRUNC)
        except OSError as error:
            draft.unlink(missing_ok=True)
            if not (is_want_of_space(error) and path.exists()):
                raise
            _write(path, data)
        else:
            draft.replace(path)
        directory = os.open(data_dir, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)


def _write(path: Path, data: bytes, flags: int = 0) -> None:
    """Write a file from its beginning on, durably."""
    descriptor = open_private(str(path), os.O_WRONLY | flags)
    try:
        os.pwrite(descriptor, data, 0)
        os.ftruncate(descriptor, len(data))
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def open_identity(data_dir: Path, name: str, number: int | None) -> BrokerIdentity:
    """The identity of a data directory, made at first.  `number` None: the one kept, or that of the name.

    Raises StoreFailedError where the directory belongs to another broker.
    """
    path = data_dir / FILE
    if path.exists():
        try:
            found = msgspec.json.decode(path.read_bytes(), type=BrokerIdentity)
        except msgspec.DecodeError as error:
            raise StoreFailedError(f"{path} cannot be read: {error}") from error
        if found.name != name or number not in (None, found.number):
            wanted = f"{name!r}" if number is None else f"{name!r} with number {number}"
            raise StoreFailedError(
                f"{data_dir} has the data of broker {found.name!r} with number {found.number}, not of {wanted}"
            )
        return found
    number = broker_number(name) if number is None else number
    if not 0 <= number <= MAX_BROKER_NUMBER:
        raise StoreFailedError(f"a broker's number is 0 to {MAX_BROKER_NUMBER}, not {number}")
    identity = BrokerIdentity(name, number)
    identity.save(data_dir)
    return identity
