"""Opens a data directory without a change to it.

`ReadOnlyDisk` serves reads from the real files. Recovery's writes, cuts and removals are visible only through this
disk. They are kept in a scratch directory elsewhere, so that memory stays small whatever has to be derived.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass, field

from entrepot.broker.store.state_file import Rows
from entrepot.broker.store.store_files import lock_directory
from entrepot.domain.errors import StoreFailedError


@dataclass(slots=True)
class _File:
    descriptor: int
    is_draft: bool
    users: set[int] = field(default_factory=set)


class ReadOnlyDisk:
    """A `broker.store.disk.Disk`. `hidden`: paths that it does not show."""

    def __init__(self, scratch: str, hidden: Iterable[str] = ()) -> None:
        self._scratch = scratch
        self._hidden = frozenset(hidden)
        self._drafts: dict[str, str] = {}
        self._removed: set[str] = set()
        self._ends: dict[str, int] = {}  # end of a real file that was cut
        self._files: dict[str, _File] = {}
        self._paths: dict[int, str] = {}
        self._last = self._made = 0

    def open(self, path: str) -> int:
        file = self._files.get(path)
        if file is None:
            file = self._files[path] = self._opened(path)
        self._last += 1
        self._paths[self._last] = path
        file.users.add(self._last)
        return self._last

    def _opened(self, path: str) -> _File:
        if path not in self._drafts and self._is_real(path):
            return _File(os.open(path, os.O_RDONLY | os.O_CLOEXEC), is_draft=False)
        draft = self._drafts.get(path) or self._new_draft(path)
        return _File(os.open(draft, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600), is_draft=True)

    def close(self, descriptor: int) -> None:
        path = self._paths.pop(descriptor)
        file = self._files.get(path)
        if file is None or descriptor not in file.users:
            return
        file.users.discard(descriptor)
        if not file.users:
            os.close(file.descriptor)
            del self._files[path]

    def close_all(self) -> None:
        """Close everything that is still open."""
        for descriptor in list(self._paths):
            self.close(descriptor)

    def write(self, descriptor: int, data: bytes, offset: int) -> None:
        os.pwrite(self._draft(descriptor).descriptor, data, offset)

    def read(self, descriptor: int, length: int, offset: int) -> bytes:
        end = self._ends.get(self._paths[descriptor])
        if end is not None:
            length = max(min(length, end - offset), 0)
        return os.pread(self._file(descriptor).descriptor, length, offset)

    def allocate(self, descriptor: int, offset: int, length: int) -> None:
        raise OSError(errno.EROFS, "nothing is allocated here", self._paths[descriptor])

    def truncate(self, descriptor: int, length: int) -> None:
        if self._file(descriptor).is_draft:
            os.ftruncate(self._file(descriptor).descriptor, length)
        else:
            self._ends[self._paths[descriptor]] = length

    def size(self, descriptor: int) -> int:
        size = os.fstat(self._file(descriptor).descriptor).st_size
        return min(size, self._ends.get(self._paths[descriptor], size))

    def make_directory(self, path: str) -> None:
        """Do nothing: a directory exists when something is in it."""

    def names(self, path: str) -> list[str]:
        found = {name for name in _listed(path) if self._is_real(f"{path}/{name}")}
        found |= {draft.rpartition("/")[2] for draft in self._drafts if draft.rpartition("/")[0] == path}
        return sorted(found)

    def exists(self, path: str) -> bool:
        return path in self._drafts or self._is_real(path)

    def space(self, path: str) -> tuple[int, int]:
        found = os.statvfs(path)
        return found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize

    def remove(self, path: str) -> None:
        self._removed.add(path)
        for draft in [d for d in self._drafts if d == path or d.startswith(path + "/")]:
            os.unlink(self._drafts.pop(draft))
        self._ends.pop(path, None)

    def _draft(self, descriptor: int) -> _File:
        """Return the file as a writable one: a copy, unless it is one already."""
        path, file = self._paths[descriptor], self._file(descriptor)
        if not file.is_draft:
            draft = self._new_draft(path)
            shutil.copyfile(path, draft)
            end = self._ends.pop(path, None)
            os.close(file.descriptor)
            file.descriptor, file.is_draft = os.open(draft, os.O_RDWR | os.O_CLOEXEC), True
            if end is not None:
                os.ftruncate(file.descriptor, end)
        return file

    def _new_draft(self, path: str) -> str:
        self._made += 1
        draft = self._drafts[path] = f"{self._scratch}/{self._made}"
        return draft

    def _file(self, descriptor: int) -> _File:
        return self._files[self._paths[descriptor]]

    def _is_real(self, path: str) -> bool:
        if path in self._hidden or not os.path.exists(path):
            return False
        while path not in self._removed:
            path, slash, _ = path.rpartition("/")
            if not slash:
                return True
        return False


class IdleSyncChannel:
    """A `broker.store.sync_channel.SyncChannel` with nothing to make durable."""

    def fileno(self) -> int:
        raise NotImplementedError("no event loop here")

    def sync(self, paths: list[str]) -> None:
        pass

    def publish(self, paths: list[str], draft: str, final: str) -> None:
        pass

    def commit(self, paths: list[str], state_path: str, changes: bytes) -> None:
        pass

    def finish(self) -> None:
        pass

    def close(self) -> None:
        pass


class ReadRows:
    """A `broker.store.state_file.StateFile` of rows read already."""

    def __init__(self, path: str, rows: Rows | None) -> None:
        self.path = path
        self._rows = rows

    def load(self) -> Rows | None:
        return self._rows

    def discard(self) -> None:
        self._rows = None


class SharedLock:
    """A lock that keeps a server from opening the directory during the inspection. Raises StoreFailedError while one
    has it. A copied directory may have no lock file: none is made."""

    def __init__(self, root: str) -> None:
        self._descriptor: int | None = None
        try:
            descriptor = os.open(f"{root}/lock", os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return
        try:
            lock_directory(descriptor, root, fcntl.LOCK_SH, ": stop it first")
        except StoreFailedError:
            os.close(descriptor)
            raise
        self._descriptor = descriptor

    def release(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _listed(path: str) -> list[str]:
    try:
        return os.listdir(path)
    except (FileNotFoundError, NotADirectoryError):
        return []
