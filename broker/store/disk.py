"""The disk, as the engine sees it. Tests replace it by a simulated one that loses unsynced writes.

Only the calls that the engine makes are here. Durability is asked of a `SyncChannel` (`sync_channel.py`) instead:
waiting for the disk must never stop the event loop.
"""

from __future__ import annotations

import errno
import os
from typing import Protocol

from entrepot.broker.store.private_files import make_directories, open_private
from entrepot.broker.store.spare_descriptors import NO_DESCRIPTOR
from entrepot.domain.errors import StorageFullError


def is_want_of_room(error: OSError) -> bool:
    """True if the disk is full, or no further file can be open now; as opposed to a broken disk."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT, *NO_DESCRIPTOR)


def refusal_of(want: int) -> StorageFullError:
    """The refusal for a want of room, by its errno."""
    if want in NO_DESCRIPTOR:
        return StorageFullError(
            "the store cannot open its next file: too many files and connections are open (ulimit -n)"
        )
    return StorageFullError()


class Disk(Protocol):
    """File operations. All raise OSError; an error of `write` is final for the store."""

    def open(self, path: str) -> int:
        """Open for reading and writing, for this user alone; create if missing. Returns a descriptor. EMFILE and ENFILE
        come from here."""

    def close(self, descriptor: int) -> None: ...

    def write(self, descriptor: int, data: bytes, offset: int) -> None:
        """Write all of `data` at `offset`; a short write is an error."""

    def read(self, descriptor: int, length: int, offset: int) -> bytes:
        """Return up to `length` bytes; fewer only at the end of the file."""

    def allocate(self, descriptor: int, offset: int, length: int) -> None:
        """Reserve space so that later writes there cannot fail for want of it. ENOSPC comes from here."""

    def truncate(self, descriptor: int, length: int) -> None: ...

    def size(self, descriptor: int) -> int: ...

    def make_directory(self, path: str) -> None:
        """Make a directory with its parents, for this user alone; fine if it is there."""

    def names(self, path: str) -> list[str]:
        """Return the sorted names in a directory; none if it does not exist."""

    def exists(self, path: str) -> bool: ...

    def remove(self, path: str) -> None:
        """Remove a file or a whole directory; fine if it is not there."""

    def space(self, path: str) -> tuple[int, int]:
        """Return the file system's bytes and its free bytes at a path."""


class OsDisk:
    """The operating system's disk."""

    def open(self, path: str) -> int:
        return open_private(path, os.O_RDWR | os.O_CREAT)

    def close(self, descriptor: int) -> None:
        os.close(descriptor)

    def write(self, descriptor: int, data: bytes, offset: int) -> None:
        written = os.pwrite(descriptor, data, offset)
        if written == len(data):
            return
        view = memoryview(data)
        while written < len(view):  # the kernel may stop after 2 GiB, or at a signal; no progress is an error
            more = os.pwrite(descriptor, view[written:], offset + written)
            if more == 0:
                raise OSError(f"short write: {written} of {len(view)} bytes")
            written += more

    def read(self, descriptor: int, length: int, offset: int) -> bytes:
        return os.pread(descriptor, length, offset)

    def allocate(self, descriptor: int, offset: int, length: int) -> None:
        os.posix_fallocate(descriptor, offset, length)

    def truncate(self, descriptor: int, length: int) -> None:
        os.ftruncate(descriptor, length)

    def size(self, descriptor: int) -> int:
        return os.fstat(descriptor).st_size

    def make_directory(self, path: str) -> None:
        make_directories(path)

    def names(self, path: str) -> list[str]:
        try:
            return sorted(os.listdir(path))
        except FileNotFoundError:
            return []

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def remove(self, path: str) -> None:
        if os.path.isdir(path):
            for name in os.listdir(path):
                self.remove(os.path.join(path, name))
            os.rmdir(path)
        elif os.path.exists(path):
            os.unlink(path)

    def space(self, path: str) -> tuple[int, int]:
        found = os.statvfs(path)
        return found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize
