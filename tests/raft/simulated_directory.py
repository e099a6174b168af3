"""The directory of a simulated member, on the disk that loses unsynced bytes.  Each act is a step of the disk."""

from __future__ import annotations

from entrepot.broker.raft.files import SNAPSHOT
from tests.simulation.disk import SimulatedDisk

PATH = "/raft"


class SimulatedDirectory:
    """Implements `broker.raft.files.Directory`.  `puts_snapshots_whole`: by a draft, as
    the others."""

    def __init__(self, disk: SimulatedDisk, *, puts_snapshots_whole: bool = True) -> None:
        self.disk, self._puts_snapshots_whole = disk, puts_snapshots_whole
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
        has_draft = self._puts_snapshots_whole or not name.startswith(SNAPSHOT)
        draft = f"{target}.draft" if has_draft else target
        descriptor = self.disk.open(draft)
        self.disk.truncate(descriptor, 0)
        self.disk.write(descriptor, data[: len(data) * 3 // 4], 0)
        self.disk.write(descriptor, data, 0)
        self.disk.close(descriptor)
        self.disk.sync_file(draft)
        if has_draft:
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
