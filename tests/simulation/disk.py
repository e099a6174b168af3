"""A disk that can lose power.

Only what was synced survives a crash for certain.  Of the rest each page of 4 KiB keeps one of the contents it has had
since, each file one of its sizes, each directory entry its old or its new state; a seeded generator chooses.
Every call that changes something is a *step*; `crash_at` raises `Crash` at the n-th of them.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import PurePosixPath
from random import Random

from google_crc32c import value as crc32c

from entrepot.broker.rows.changed_rows import Change
from entrepot.broker.store.state_file import _CHANGE, _GONE, Rows, encode_changes
from entrepot.broker.store.sync_channel import NO_ROOM
from entrepot.domain.errors import StorageFullError, StoreFailedError
from tests.simulation.file import SimulatedFile

Fault = Callable[[str, str], "OSError | None"]


class Crash(BaseException):
    """The power is gone.  Not an Exception: nothing may catch it."""


class SimulatedDisk:
    """Implements `broker.store.disk.Disk`.  A directory is an entry whose file is None."""

    def __init__(self) -> None:
        self.entries: dict[str, SimulatedFile | None] = {"/": None}
        self.synced_entries: dict[str, SimulatedFile | None] = {"/": None}
        self.steps = 0
        self.crash_at: int | None = None
        self.is_off = False
        self.fault: Fault = lambda operation, path: None
        self.room: dict[str, int] = {}
        """By prefix of paths: how many bytes may be reserved there."""
        self._descriptors: dict[int, tuple[str, SimulatedFile]] = {}
        self._last_descriptor = 0
        self.total_bytes = self.free_bytes = 1 << 40

    # -- losing power and tampering --------------------------------------------------------------------------------

    def crash(self, rng: Random) -> SimulatedDisk:
        """What the next start finds."""
        self.is_off = True
        after = SimulatedDisk()
        files: dict[int, SimulatedFile] = {}
        for path in sorted(self.entries.keys() | self.synced_entries.keys()):
            here, synced = path in self.entries, path in self.synced_entries
            if here and synced and self.entries[path] is self.synced_entries[path]:
                kept: tuple[bool, SimulatedFile | None] = (True, self.entries[path])
            else:
                kept = rng.choice([(here, self.entries.get(path)), (synced, self.synced_entries.get(path))])
            if kept[0] and _parent(path) in after.entries:
                file = kept[1]
                if file is not None:  # two names of one file (a rename half kept) still are one file
                    file = files.setdefault(id(file), file.after_crash(rng))
                after.entries[path] = after.synced_entries[path] = file
        return after

    def restart(self) -> SimulatedDisk:
        """What is found after the process alone was killed: everything that was written."""
        self.is_off = True
        after = SimulatedDisk()
        for path, file in self.entries.items():
            after.entries[path] = after.synced_entries[path] = None if file is None else SimulatedFile(bytes(file.data))
        return after

    def copy(self) -> SimulatedDisk:
        """The same once more; this one goes on."""
        after = self.restart()
        self.is_off = False
        return after

    def files(self, prefix: str = "/") -> dict[str, bytes]:
        return {p: bytes(f.data) for p, f in sorted(self.entries.items()) if f is not None and p.startswith(prefix)}

    def put(self, path: str, data: bytes) -> None:
        self.entries[path] = self.synced_entries[path] = SimulatedFile(data)

    def flip(self, path: str, bit: int) -> None:
        file = self.entries[path]
        assert file is not None
        file.data[bit // 8] ^= 1 << bit % 8
        file.sync()

    def delete(self, path: str) -> None:
        del self.entries[path], self.synced_entries[path]

    # -- the protocol ----------------------------------------------------------------------------------------------

    def open(self, path: str) -> int:
        self._check()
        if path not in self.entries:
            if self.entries.get(_parent(path), 1) is not None:
                raise FileNotFoundError(errno.ENOENT, "no such directory", path)
            self._fail("open", path)
            self.entries[path] = SimulatedFile()
            self.step()
        file = self.entries[path]
        if file is None:
            raise IsADirectoryError(errno.EISDIR, "is a directory", path)
        self._last_descriptor += 1
        self._descriptors[self._last_descriptor] = (path, file)
        return self._last_descriptor

    def close(self, descriptor: int) -> None:
        del self._descriptors[descriptor]

    def write(self, descriptor: int, data: bytes, offset: int) -> None:
        path, file = self._use(descriptor)
        error = self.fault("write", path)
        if error is not None:  # some of it may have been written, as with a short write
            file.write(data[: len(data) // 2], offset)
            raise error
        file.write(data, offset)
        self.step()

    def read(self, descriptor: int, length: int, offset: int) -> bytes:
        path, file = self._use(descriptor)
        self._fail("read", path)
        return bytes(file.data[offset : offset + length])

    def allocate(self, descriptor: int, offset: int, length: int) -> None:
        path, file = self._use(descriptor)
        if offset + length > len(file.data):  # what is reserved already needs no room
            self._fail("allocate", path)
            self._check_room(path, offset + length - len(file.data))
            file.resize(offset + length)
        self.step()

    def truncate(self, descriptor: int, length: int) -> None:
        path, file = self._use(descriptor)
        self._fail("truncate", path)
        file.resize(length)
        self.step()

    def size(self, descriptor: int) -> int:
        return len(self._use(descriptor)[1].data)

    def make_directory(self, path: str) -> None:
        self._check()
        for directory in [*(str(p) for p in reversed(PurePosixPath(path).parents)), path]:
            if directory not in self.entries:
                self.entries[directory] = None
                self.step()

    def names(self, path: str) -> list[str]:
        self._check()
        return sorted(p.rpartition("/")[2] for p in self.entries if p != "/" and _parent(p) == path)

    def exists(self, path: str) -> bool:
        self._check()
        return path in self.entries

    def remove(self, path: str) -> None:
        self._check()
        for found in sorted((p for p in self.entries if p == path or p.startswith(path + "/")), reverse=True):
            del self.entries[found]
            self.step()

    def space(self, path: str) -> tuple[int, int]:
        return self.total_bytes, self.free_bytes

    # -- what the sync process does --------------------------------------------------------------------------------

    def sync_file(self, path: str) -> None:
        self._check()
        self._fail("sync", path)
        self.step()
        if path not in self.entries:
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        file = self.entries[path]
        if file is None:
            self.sync_directory(path)
        else:
            file.sync()

    def sync_directory(self, directory: str) -> None:
        self._check()
        self.step()
        for path in self.entries.keys() | self.synced_entries.keys():
            if path != "/" and _parent(path) == directory:
                if path in self.entries:
                    self.synced_entries[path] = self.entries[path]
                else:
                    del self.synced_entries[path]

    def replace(self, draft: str, final: str) -> None:
        self._check()
        self.entries[final] = self.entries.pop(draft)
        self.step()

    def step(self) -> None:
        self.steps += 1
        if self.crash_at is not None and self.steps >= self.crash_at:
            self.is_off = True
            raise Crash(f"at step {self.steps}")

    def _check(self) -> None:
        if self.is_off:
            raise Crash("the disk is off")

    def _use(self, descriptor: int) -> tuple[str, SimulatedFile]:
        self._check()
        return self._descriptors[descriptor]

    def _check_room(self, path: str, growth: int) -> None:
        for prefix, room in self.room.items():
            if path.startswith(prefix) and sum(map(len, self.files(prefix).values())) + growth > room:
                raise OSError(errno.ENOSPC, "full", path)

    def _fail(self, operation: str, path: str) -> None:
        error = self.fault(operation, path)
        if error is not None:
            raise error


class NoRoom(Exception):
    """A transaction found no room; nothing was changed."""


class SimulatedStateFile:
    """Implements `broker.store.state_file.StateFile` on a simulated disk: a checksum, then encoded changes."""

    def __init__(self, disk: SimulatedDisk, path: str) -> None:
        self.disk = disk
        self.path = path

    def load(self) -> Rows | None:
        if not self.disk.exists(self.path):
            return None
        descriptor = self.disk.open(self.path)
        data = self.disk.read(descriptor, self.disk.size(descriptor), 0)
        self.disk.close(descriptor)
        if not data or crc32c(data[4:]) != int.from_bytes(data[:4], "big"):
            return None
        return {key: value for key, value in decode_changes(data[4:]) if value is not None}

    def discard(self) -> None:
        if self.disk.exists(self.path):
            self.disk.remove(self.path)


class SimulatedSyncChannel:
    """Implements `broker.store.sync_channel.SyncChannel` as the sync process would, on a simulated disk.

    The work is done when asked for, or (`deferred`) when the answer is taken.
    """

    def __init__(self, disk: SimulatedDisk, *, deferred: bool = False) -> None:
        self.disk = disk
        self.deferred = deferred
        self._known: set[str] = set()
        self._work: Callable[[], None] | None = None
        self._answer = 0

    def fileno(self) -> int:
        raise NotImplementedError("no event loop here")

    def sync(self, paths: list[str]) -> None:
        def work() -> None:
            for path in paths:
                self._sync(path)

        self._ask(work)

    def _sync_those_that_are_there(self, paths: list[str]) -> None:
        for path in paths:
            try:
                self._sync(path)
            except FileNotFoundError:
                pass
            finally:
                self._known.discard(path)

    def publish(self, paths: list[str], draft: str, final: str) -> None:
        def work() -> None:
            self._sync_those_that_are_there(paths)
            self._known.discard(draft)
            self._sync(draft)
            self._known.discard(draft)
            self.disk.replace(draft, final)
            self.disk.sync_directory(_parent(final))

        self._ask(work)

    def commit(self, paths: list[str], state_path: str, changes: bytes) -> None:
        """Rows are changed all together or not at all, as a transaction does it."""

        def work() -> None:
            self._sync_those_that_are_there(paths)
            rows = SimulatedStateFile(self.disk, state_path).load() or {}
            for key, value in decode_changes(changes):
                if value is None:
                    rows.pop(key, None)
                else:
                    rows[key] = value
            draft = f"{state_path}.draft"
            descriptor = self.disk.open(draft)
            self.disk.truncate(descriptor, 0)
            try:
                data = encode_changes(list(rows.items()))
                self.disk.write(descriptor, crc32c(data).to_bytes(4, "big") + data, 0)
            except OSError as error:
                raise NoRoom if error.errno == errno.ENOSPC else error from error
            finally:
                self.disk.close(descriptor)
            self._known.discard(draft)
            self._sync(draft)
            self._known.discard(draft)
            self.disk.replace(draft, state_path)
            self.disk.sync_directory(_parent(state_path))

        self._ask(work)

    def finish(self) -> None:
        assert self._work is not None, "an answer without a question"
        work, self._work = self._work, None
        if self.deferred:
            self._answer = _errno_of(work)
        if self._answer == NO_ROOM:
            raise StorageFullError
        if self._answer:
            raise StoreFailedError(f"making data durable failed: {os.strerror(self._answer)}")

    def close(self) -> None:
        pass

    def _ask(self, work: Callable[[], None]) -> None:
        assert self._work is None, "one request at a time"
        self._work = work
        if not self.deferred:
            self._answer = _errno_of(work)

    def _sync(self, path: str) -> None:
        if path not in self._known:
            if not self.disk.exists(path):
                raise FileNotFoundError(errno.ENOENT, "no such file", path)
            self._known.add(path)
            self.disk.sync_directory(_parent(path))
        self.disk.sync_file(path)


def _errno_of(work: Callable[[], None]) -> int:
    try:
        work()
    except NoRoom:
        return NO_ROOM
    except OSError as error:
        return error.errno or -1
    return 0


def _parent(path: str) -> str:
    return str(PurePosixPath(path).parent)


def decode_changes(data: bytes) -> list[Change]:
    """The reverse of `encode_changes`."""
    changes: list[Change] = []
    at = 0
    while at < len(data):
        _, key_length, length = _CHANGE.unpack_from(data, at)
        at += _CHANGE.size
        key = data[at : at + key_length]
        at += key_length
        if length == _GONE:
            changes.append((key, None))
        else:
            changes.append((key, data[at : at + length]))
            at += length
    return changes
