"""The directory of a simulated member, on the disk that loses what is not synced.  Each act is a step of the disk."""

from __future__ import annotations

from tests.support.simulated_disk import SimulatedDisk

PATH = "/raft"


class SimulatedDirectory:
    """Implements `broker.controller.raft_files.Directory`.  `is_atomic`: files are put in place by a draft."""

    def __init__(self, disk: SimulatedDisk, *, is_atomic: bool = True) -> None:
        self.disk, self._is_atomic = disk, is_atomic
        disk.make_directory(PATH)
        disk.sync_directory("/")

    def names(self) -> list[str]:
        return self.disk.names(PATH)

    def read(self, name: str) -> bytes:
        descriptor = self.disk.open(f"{PATH}/{name}")
        try:
            return self.disk.read(descriptor, self.disk.size(descriptor), 0)
        finally:
            self.disk.close(descriptor)

    def put(self, name: str, data: bytes) -> None:
        target = f"{PATH}/{name}"
        draft = f"{target}.draft" if self._is_atomic else target
        descriptor = self.disk.open(draft)
        self.disk.truncate(descriptor, 0)
        if not self._is_atomic:
            self.disk.sync_directory(PATH)
            for place in range(0, len(data), 16):
                self.disk.write(descriptor, data[place : place + 16], place)
        self.disk.write(descriptor, data, 0)
        self.disk.close(descriptor)
        self.disk.sync_file(draft)
        if self._is_atomic:
            self.disk.replace(draft, target)
        self.disk.sync_directory(PATH)

    def write(self, name: str, data: bytes, offset: int) -> None:
        descriptor = self.disk.open(f"{PATH}/{name}")
        self.disk.write(descriptor, data, offset)
        self.disk.close(descriptor)

    def truncate(self, name: str, size: int) -> None:
        descriptor = self.disk.open(f"{PATH}/{name}")
        self.disk.truncate(descriptor, size)
        self.disk.close(descriptor)

    def sync(self, name: str) -> None:
        self.disk.sync_file(f"{PATH}/{name}")
        self.disk.sync_directory(PATH)

    def remove(self, name: str) -> None:
        self.disk.remove(f"{PATH}/{name}")
