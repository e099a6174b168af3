"""The files of a data directory that are not log or queue: identity, lock, abort mark, checkpoint.

store.json   {"format": 1, "store_id": ..., "handle_key": ...}, written once
lock         held with flock while a process has the store open; holds its process id
abort        exists while the store is open: found at start, it means an unclean end.  Holds the flush mode
checkpoint   magic "ENCP", u32 crc32c, then the state as msgpack (see `Checkpoint`)
"""

from __future__ import annotations

import fcntl
import os
import struct
from typing import Any, Final

import msgspec
import orjson
from google_crc32c import value as crc32c

from broker.store.disk import Disk
from domain.errors import CorruptedError, StoreFailedError

FORMAT: Final = 1
_CHECKPOINT_HEAD = struct.Struct(">4sI")
_CHECKPOINT_MAGIC = b"ENCP"


class StoreIdentity(msgspec.Struct):
    """Who this store is; `handle_key` (hex) seals receipt handles and never leaves the store."""

    format: int
    store_id: str
    handle_key: str


class QueueState(msgspec.Struct, array_like=True):
    """A consume queue as its files are: that many entries, with the checksum of all of them."""

    topic: str
    queue_id: int
    entries: int
    checksum: int


class Checkpoint(msgspec.Struct):
    """Everything derived from the log before `position`.  What comes after is derived again when recovering."""

    position: int
    recovery_epoch: int
    queues: list[QueueState]
    sections: dict[str, Any]


class StoreFiles:
    """Reads and writes them.  Small and rare, except the checkpoint, which the sync process puts in place."""

    def __init__(self, disk: Disk, root: str) -> None:
        self._disk = disk
        self.root = root
        self.checkpoint_path = f"{root}/checkpoint"
        self.checkpoint_draft = f"{root}/checkpoint.draft"
        self.abort_path = f"{root}/abort"
        self.identity_path = f"{root}/store.json"
        self.identity_draft = f"{root}/store.json.draft"

    def identity(self) -> StoreIdentity | None:
        """The identity, or None for a new store.  Raises StoreFailedError for a format this version does not know."""
        data = self._read(self.identity_path)
        if not data:
            return None
        try:
            found = msgspec.json.decode(data, type=StoreIdentity)
        except msgspec.DecodeError as error:
            raise CorruptedError(f"{self.identity_path} cannot be read: {error}") from error
        if found.format != FORMAT:
            raise StoreFailedError(f"{self.root} has store format {found.format}; this version reads {FORMAT}")
        return found

    def write_identity_draft(self, identity: StoreIdentity) -> None:
        self._write(self.identity_draft, orjson.dumps(msgspec.to_builtins(identity), option=orjson.OPT_INDENT_2))

    def read_checkpoint(self) -> Checkpoint | None:
        """The checkpoint, or None where there is none or it fails its checksum (then all is derived anew)."""
        data = self._read(self.checkpoint_path)
        if len(data) < _CHECKPOINT_HEAD.size:
            return None
        magic, crc = _CHECKPOINT_HEAD.unpack_from(data)
        body = data[_CHECKPOINT_HEAD.size :]
        if magic != _CHECKPOINT_MAGIC or crc32c(body) != crc:
            return None
        try:
            return msgspec.msgpack.decode(body, type=Checkpoint)
        except msgspec.DecodeError:
            return None

    def write_checkpoint_draft(self, checkpoint: Checkpoint) -> None:
        body = msgspec.msgpack.encode(checkpoint)
        self._write(self.checkpoint_draft, _CHECKPOINT_HEAD.pack(_CHECKPOINT_MAGIC, crc32c(body)) + body)

    def abort_mark(self) -> str | None:
        """The flush mode of a store that did not end cleanly, else None."""
        return self._read(self.abort_path).decode("utf-8", "replace") or None

    def write_abort_mark(self, flush: str) -> None:
        self._write(self.abort_path, flush.encode())

    def remove_abort_mark(self) -> None:
        self._disk.remove(self.abort_path)

    def _read(self, path: str) -> bytes:
        if not self._disk.exists(path):
            return b""
        descriptor = self._disk.open(path)
        try:
            return self._disk.read(descriptor, self._disk.size(descriptor), 0)
        finally:
            self._disk.close(descriptor)

    def _write(self, path: str, data: bytes) -> None:
        descriptor = self._disk.open(path)
        try:
            self._disk.truncate(descriptor, 0)
            self._disk.write(descriptor, data, 0)
        finally:
            self._disk.close(descriptor)


class DirectoryLock:
    """Keeps a second process out of a data directory."""

    def __init__(self, root: str) -> None:
        os.makedirs(root, exist_ok=True)
        self._descriptor = os.open(f"{root}/lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            owner = os.pread(self._descriptor, 32, 0).decode("ascii", "replace").strip()
            os.close(self._descriptor)
            raise StoreFailedError(f"the data directory {root} is in use by process {owner or 'unknown'}") from None
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        os.close(self._descriptor)
