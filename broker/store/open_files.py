"""OpenFiles: descriptors of consume-queue files, opened when needed; the longest unused are closed."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from entrepot.broker.store.disk import Disk
from entrepot.broker.store.spare_descriptors import NO_DESCRIPTOR

MAX_OPEN_FILES: Final = 512


class OpenFiles:
    """A bounded cache of descriptors over a disk. Paths are below `root`."""

    def __init__(self, disk: Disk, root: str) -> None:
        self.disk = disk
        self.root = root
        self._descriptors: OrderedDict[str, int] = OrderedDict()
        self._directories: set[str] = set()

    def write(self, path: str, data: bytes, offset: int) -> None:
        self.disk.write(self._open(path), data, offset)

    def read(self, path: str, length: int, offset: int) -> bytes:
        return self.disk.read(self._open(path), length, offset)

    def exists(self, path: str) -> bool:
        return path in self._descriptors or self.disk.exists(path)

    def remove(self, path: str) -> None:
        """Remove a file or a directory with all its files."""
        below = path + "/"
        for name in [n for n in self._descriptors if n == path or n.startswith(below)]:
            self.disk.close(self._descriptors.pop(name))
        self._directories = {d for d in self._directories if d != path and not d.startswith(below)}
        self.disk.remove(path)

    def close(self) -> None:
        for descriptor in self._descriptors.values():
            self.disk.close(descriptor)
        self._descriptors.clear()

    def _open(self, path: str) -> int:
        descriptor = self._descriptors.get(path)
        if descriptor is not None:
            self._descriptors.move_to_end(path)
            return descriptor
        directory = path.rpartition("/")[0]
        if directory not in self._directories:
            self.disk.make_directory(directory)
            self._directories.add(directory)
        if len(self._descriptors) >= MAX_OPEN_FILES:
            self.disk.close(self._descriptors.popitem(last=False)[1])
        descriptor = self._descriptors[path] = self._opened(path)
        return descriptor

    def _opened(self, path: str) -> int:
        """Open a file, with a descriptor of another one if the process has no more."""
        while True:
            try:
                return self.disk.open(path)
            except OSError as error:
                if error.errno not in NO_DESCRIPTOR or not self._descriptors:
                    raise
                self.disk.close(self._descriptors.popitem(last=False)[1])
