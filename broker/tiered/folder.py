"""FolderStore: a folder as an object store.

Object stores' clients never sync what they write to a disk, and the log is deleted once the tier has its messages. So
this writes a temporary file, syncs it, links it to its name, and syncs each directory on the way to it.
"""

from __future__ import annotations

import errno
import fcntl
import itertools
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from entrepot.broker.store.private_files import make_directories
from entrepot.broker.store.small_files import make_directories_durably, sync_directory
from entrepot.broker.tiered.object_paths import checked_path, checked_prefix, checked_ranges, checked_size, ends_before
from entrepot.broker.tiered.objects import MissingObjectError, StoredObject, TierError
from entrepot.domain.errors import Code

TEMPORARY: Final = ".tmp"
"""Directory of files being written; no object lies there."""
FILE_MODE: Final = 0o640
DIRECTORY_MODE: Final = 0o750
"""Mode of directories: tables are for others to read, the folder's group, unless the process's umask says less."""
MAX_TRIES: Final = 16
"""Tries to put a file in place whose empty directory somebody removes meanwhile."""

_NOT_THERE: Final = (FileNotFoundError, NotADirectoryError, IsADirectoryError)
_NO_LINKS: Final = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EXDEV, errno.EMLINK)
_REASONS: Final = {
    errno.ENOSPC: "the disk is full: make room, or take a larger one",
    errno.EDQUOT: "the user's quota of the disk is used up: raise it",
    errno.EACCES: "this user has no permission: give the folder to the user that the broker runs as",
    errno.EPERM: "this user has no permission: give the folder to the user that the broker runs as",
    errno.EROFS: "the file system is mounted read-only",
    errno.EIO: "the disk is broken: its log says more (dmesg)",
    errno.EMFILE: "too many files are open: raise the limit (ulimit -n)",
    errno.ELOOP: "it is a symbolic link, and may leave the folder",
    errno.ENOTDIR: "an object has the name of a directory on the way",
    errno.EEXIST: "an object has the name of a directory on the way",
    errno.ESTALE: "the network's file system is away",
}


class FolderStore:
    """A folder, made if missing, for several processes at once. `file_mode`, `directory_mode`: of what is made. Raises
    TierError where it cannot be made."""

    def __init__(self, directory: Path, file_mode: int = FILE_MODE, directory_mode: int = DIRECTORY_MODE) -> None:
        self._file_mode, self._directory_mode = file_mode, directory_mode
        self._root = os.path.realpath(directory)
        self._url = directory.absolute().as_uri()
        self._turns = itertools.count()
        try:
            make_directories_durably(self._root, self._directory_mode)
            self._sweep()
        except OSError as error:
            raise self._failed("cannot be made", error) from error

    @property
    def url(self) -> str:
        return self._url

    def __repr__(self) -> str:
        return f"FolderStore({self._url!r})"

    def put_new(self, path: str, data: bytes) -> bool:
        """Put an object as in ObjectStore; an existing one, whoever put it, is durable on return, too."""
        return self._put(path, data, os.link)

    def replace(self, path: str, data: bytes) -> None:
        self._put(path, data, os.replace)

    def _put(self, path: str, data: bytes, name: Callable[[str, str], None]) -> bool:
        target = self._place(path)
        checked_size(path, len(data))
        try:
            temporary, descriptor = self._new_temporary()
            try:
                _write(descriptor, data)
                is_new = self._named(temporary, target, name)
            finally:
                with suppress(FileNotFoundError):
                    os.unlink(temporary)
                os.close(descriptor)
            self._sync_up(os.path.dirname(target))
        except OSError as error:
            raise self._failed(f"does not take {path}", error) from error
        return is_new

    def get(self, path: str) -> bytes:
        descriptor = self._open(path)
        try:
            size = os.fstat(descriptor).st_size
            checked_size(path, size)
            return self._read(path, descriptor, 0, size)
        finally:
            os.close(descriptor)

    def get_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        checked_ranges(path, ranges)
        descriptor = self._open(path)
        try:
            return [self._read(path, descriptor, start, end) for start, end in ranges]
        finally:
            os.close(descriptor)

    def size(self, path: str) -> int:
        descriptor = self._open(path)
        try:
            return os.fstat(descriptor).st_size
        finally:
            os.close(descriptor)

    def objects(self, prefix: str) -> Iterator[StoredObject]:
        checked_prefix(prefix)
        self._check_there()
        directory, _, _ = prefix.rpartition("/")
        return self._walk(directory, prefix)

    def delete(self, paths: Sequence[str]) -> None:
        """Delete objects as in ObjectStore, durably on return. Directories left empty are removed, too."""
        places = [self._place(path) for path in paths]
        self._check_there()
        touched: set[str] = set()
        try:
            for place in places:
                with suppress(*_NOT_THERE):
                    os.unlink(place)
                    touched.add(os.path.dirname(place))
            for directory in {self._prune(each) for each in touched}:
                with suppress(FileNotFoundError):  # somebody else removed more
                    sync_directory(directory)
        except OSError as error:
            raise self._failed("does not delete", error) from error

    def _place(self, path: str) -> str:
        if checked_path(path).partition("/")[0] == TEMPORARY:
            raise TierError(
                f"{path!r} is not an object's path: {TEMPORARY} is for files in the making", Code.BAD_REQUEST
            )
        place = f"{self._root}/{path}"
        if os.path.realpath(os.path.dirname(place)) != os.path.dirname(place):
            raise TierError(f"{self._url}: the way to {path} is a symbolic link, and may leave the folder")
        return place

    def _failed(self, what: str, error: OSError) -> TierError:
        reason = _REASONS.get(error.errno or 0) or error.strerror or type(error).__name__
        return TierError(f"{self._url} {what}: {reason}")

    def _check_there(self) -> None:
        """Raise an error for a missing folder, which is not an empty store: its disk may not be mounted."""
        if not os.path.isdir(self._root):
            raise TierError(f"{self._url} is gone: mount its disk, or set another URL")

    def _open(self, path: str) -> int:
        place = self._place(path)
        try:
            descriptor = os.open(place, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        except _NOT_THERE:
            self._check_there()
            raise MissingObjectError(path) from None
        except OSError as error:
            raise self._failed(f"does not give {path}", error) from error
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise MissingObjectError(path)
        return descriptor

    def _read(self, path: str, descriptor: int, start: int, end: int) -> bytes:
        pieces: list[bytes] = []
        at = start
        while at < end:  # the kernel returns at most 2 GiB at once
            try:
                piece = os.pread(descriptor, end - at, at)
            except OSError as error:
                raise self._failed(f"does not give {path}", error) from error
            if not piece:
                raise ends_before(path, start, end)
            pieces.append(piece)
            at += len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _new_temporary(self) -> tuple[str, int]:
        """Return a new file and its descriptor, locked: `_sweep` of another process leaves it alone."""
        self._check_there()
        with suppress(FileExistsError):
            os.mkdir(f"{self._root}/{TEMPORARY}", self._directory_mode)
        while True:
            path = f"{self._root}/{TEMPORARY}/{os.getpid()}-{next(self._turns)}"
            try:
                descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, self._file_mode)
            except FileExistsError:  # of another store of this process, or of another machine
                continue
            if _is_locked(descriptor) and os.fstat(descriptor).st_nlink:
                return path, descriptor
            os.close(descriptor)  # a sweep was faster

    def _named(self, temporary: str, target: str, name: Callable[[str, str], None]) -> bool:
        """Give a written file its name by `os.link`, or by `os.replace`; False where there is one."""
        for _ in range(MAX_TRIES):
            with suppress(FileNotFoundError):
                make_directories(os.path.dirname(target), self._directory_mode)
            try:
                name(temporary, target)
            except FileExistsError:
                if os.path.isdir(target):
                    raise
                return False
            except FileNotFoundError:  # a delete took the empty directory
                continue
            except OSError as error:
                if error.errno in _NO_LINKS:
                    raise TierError(
                        f"{self._url} has no hard links, by which one of two writers is refused: "
                        "take a local file system or an object store"
                    ) from error
                raise
            return True
        raise TierError(f"{self._url}: {os.path.dirname(target)} was removed {MAX_TRIES} times while it was written to")

    def _sync_up(self, directory: str) -> None:
        """Sync a directory and those above it: their maker may not have done so yet."""
        while True:
            with suppress(FileNotFoundError):  # its object was deleted meanwhile
                sync_directory(directory)
            if len(directory) <= len(self._root):
                return
            directory = os.path.dirname(directory)

    def _prune(self, directory: str) -> str:
        """Remove a directory and those above it as far as they are empty; return the first that is left."""
        while directory != self._root:
            try:
                os.rmdir(directory)
            except FileNotFoundError:
                pass
            except OSError:
                break
            directory = os.path.dirname(directory)
        return directory

    def _walk(self, directory: str, prefix: str) -> Iterator[StoredObject]:
        """Yield the objects below a directory. A directory is ordered by its name and "/"."""
        found: list[tuple[str, os.DirEntry[str]]] = []
        try:
            with os.scandir(f"{self._root}/{directory}" if directory else self._root) as entries:
                for each in entries:
                    path = f"{directory}/{each.name}" if directory else each.name
                    if path != TEMPORARY and each.name.isprintable():
                        found.append((f"{path}/" if each.is_dir(follow_symlinks=False) else path, each))
        except _NOT_THERE:
            return
        except OSError as error:
            raise self._failed("cannot be listed", error) from error
        found.sort(key=lambda each: each[0])
        for path, entry in found:
            if path.endswith("/"):
                if path.startswith(prefix) or prefix.startswith(path):
                    yield from self._walk(path[:-1], prefix)
            elif path.startswith(prefix):
                with suppress(FileNotFoundError):  # deleted since
                    seen = entry.stat(follow_symlinks=False)
                    if stat.S_ISREG(seen.st_mode):
                        yield StoredObject(path, seen.st_size, seen.st_mtime_ns // 1_000_000)

    def _sweep(self) -> None:
        """Remove files that a dead process was writing: those that nobody holds locked."""
        with suppress(FileNotFoundError, PermissionError), os.scandir(f"{self._root}/{TEMPORARY}") as entries:
            for entry in entries:
                with suppress(OSError):
                    descriptor = os.open(entry.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
                    try:
                        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                        os.unlink(entry.path)
                    finally:
                        os.close(descriptor)


def _write(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
    os.fsync(descriptor)


def _is_locked(descriptor: int) -> bool:
    """Lock a new file; False where somebody has. Without locks in the file system there is no sweep either: True."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True
