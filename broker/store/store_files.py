"""The small files of a data directory: identity, lock, abort mark.

store.json   {"format": 2, "store_id": ..., "handle_key": ..., "segment_size_bytes": ...,
             "began_at": ...}
lock         held with flock while a process has the store open; holds its process id
abort        exists while the store is open: at start it shows an unclean end. Holds the flush mode and the
             recovery epoch, durable before anything is served
cut          future end of the log, while a replica removes records that its master lacks
state.db     state derived from the log (`state_file.py`)
"""

from __future__ import annotations

import fcntl
import os
import secrets
import time
from pathlib import Path
from typing import Final

import msgspec
import orjson

from entrepot.broker.store.disk import Disk, is_want_of_room
from entrepot.broker.store.private_files import open_private
from entrepot.broker.store.small_files import decode_json, make_directories_durably, put_durably
from entrepot.domain.errors import CorruptedError, StoreFailedError

FORMAT: Final = 2
NAMES: Final = (
    *("commitlog", "consumequeue", "filterindex", "index"),
    *("store.json", "lock", "abort", "state.db"),
    *("cut", "replica.json", "diverged", "controllers.json", "confirmed"),  # of a replica
    # of the broker process, and of the gateway, that has the store
    *("broker.json", "setup-token", "initial-admin-password", "grpc-certificate.pem"),
)
"""Contents of a data directory, directories and files."""


class StoreIdentity(msgspec.Struct):
    """A store's identity; `handle_key` (hex) seals receipt handles and never leaves the store. `segment_size_bytes`: of
    its commit log, for ever. `began_at`: begin of its log, 0 but for replicas filled from a master."""

    format: int
    store_id: str
    handle_key: str
    segment_size_bytes: int
    began_at: int

    @classmethod
    def new(cls, segment_size_bytes: int, began_at: int = 0) -> StoreIdentity:
        """Return the identity of a store that is made now."""
        return cls(FORMAT, secrets.token_hex(8), secrets.token_hex(32), segment_size_bytes, began_at)


class _Format(msgspec.Struct):
    format: int


def _encoded(identity: StoreIdentity) -> bytes:
    return orjson.dumps(msgspec.to_builtins(identity), option=orjson.OPT_INDENT_2)


class StoreFiles:
    """A reader and writer of small and rare files. The sync process puts the checkpoint in place."""

    def __init__(self, disk: Disk, root: str) -> None:
        self._disk = disk
        self.root = root
        self.abort_path = f"{root}/abort"
        self.abort_draft = f"{root}/abort.draft"
        self.cut_path = f"{root}/cut"
        self.identity_path = f"{root}/store.json"
        self.identity_draft = f"{root}/store.json.draft"

    def identity(self) -> StoreIdentity | None:
        """Return the identity, or None for a new store. Raises StoreFailedError for an unknown format."""
        data = self._read(self.identity_path)
        if not data:
            return None
        try:
            number = decode_json(data, _Format).format
            if number != FORMAT:  # first, as another format may lack the rest
                raise StoreFailedError(f"{self.root} has store format {number}; this version reads {FORMAT}")
            return decode_json(data, StoreIdentity)
        except msgspec.DecodeError as error:
            raise CorruptedError(f"{self.identity_path} cannot be read: {error}") from error

    def write_identity_draft(self, identity: StoreIdentity) -> None:
        self._write(self.identity_draft, _encoded(identity))

    def put_identity(self, identity: StoreIdentity) -> None:
        """Put the identity in place, durably, before there is a store."""
        put_durably(Path(self.identity_path), _encoded(identity))

    def forget_log(self) -> None:
        """Remove the log and everything derived from it."""
        for name in ("state.db", "state.db-wal", "state.db-shm", "commitlog", "consumequeue", "filterindex", "index"):
            self._disk.remove(f"{self.root}/{name}")

    def abort_mark(self) -> tuple[str, int] | None:
        """Return flush mode and recovery epoch of a store that did not end cleanly, else None."""
        flush, _, epoch = self._read(self.abort_path).decode("utf-8", "replace").partition(" ")
        return (flush, int(epoch) if epoch.isdecimal() else 0) if flush else None

    def write_abort_draft(self, flush: str, recovery_epoch: int) -> None:
        self._write(self.abort_draft, f"{flush} {recovery_epoch}".encode())

    def cut_intent(self) -> int | None:
        """Return the end to which a replica began to cut its log, and perhaps did not finish; else None."""
        text = self._read(self.cut_path)
        return int(text) if text.isdigit() else None

    def remove_cut_intent(self) -> None:
        self._disk.remove(self.cut_path)

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


LOCK_TRIES: Final = 1000
LOCK_PAUSE_SECONDS: Final = 0.01


def _is_alive(process_id: str) -> bool:
    """True if the process that wrote its id into the lock file still lives, and is not a zombie."""
    try:
        with open(f"/proc/{int(process_id)}/stat", "rb") as stat:
            state = stat.read().rpartition(b")")[2].split()[0]
    except (ValueError, OSError):
        return False
    return state not in (b"Z", b"X")


class DirectoryInUseError(StoreFailedError):
    """Another process has the data directory: who comes again later may have it."""


def lock_directory(descriptor: int, root: str, how: int, advice: str = "") -> None:
    """Lock a data directory by its lock file's descriptor: `how` is fcntl's LOCK_EX or LOCK_SH. A dead process's sync
    process, which is still writing, is waited for. Raises StoreFailedError where a living process has the lock."""
    for tries in reversed(range(LOCK_TRIES)):
        try:
            fcntl.flock(descriptor, how | fcntl.LOCK_NB)
            return
        except OSError:
            owner = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip()
            if _is_alive(owner) or not tries:
                text = f"the data directory {root} is in use by process {owner or 'unknown'}{advice}"
                raise DirectoryInUseError(text) from None
            time.sleep(LOCK_PAUSE_SECONDS)


class DirectoryLock:
    """A lock that keeps a second process out of a data directory.

    The sync process holds it too (`descriptor` is passed on). So nobody opens the store while a killed process's last
    writes are under way. A process that comes then waits for a moment.
    """

    def __init__(self, root: str) -> None:
        make_directories_durably(root)
        self._descriptor = open_private(f"{root}/lock", os.O_RDWR | os.O_CREAT)
        try:
            lock_directory(self._descriptor, root, fcntl.LOCK_EX)
        except StoreFailedError:
            os.close(self._descriptor)
            raise
        process_id = f"{os.getpid()}\n".encode()
        try:
            os.pwrite(self._descriptor, process_id, 0)  # in place: a full disk has no other room
            os.ftruncate(self._descriptor, len(process_id))
        except OSError as error:
            if not is_want_of_room(error):
                raise

    @property
    def descriptor(self) -> int:
        """Descriptor to be inherited by a process that holds the lock too."""
        return self._descriptor

    def release(self) -> None:
        os.close(self._descriptor)
