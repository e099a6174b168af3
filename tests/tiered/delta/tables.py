"""Small tables for the tests of the log."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from entrepot.broker.tiered.delta_actions import AddFile, OwnAction, RemoveFile, Transaction
from entrepot.broker.tiered.delta_log import DeltaLog
from entrepot.broker.tiered.objects import MissingObjectError, StoredObject, TierError
from entrepot.broker.tiered.snapshot import Snapshot
from tests.support.clock import ManualClock
from tests.support.tiered.failing_objects import FailingObjects

SCHEMA = (
    '{"type":"struct","fields":[{"name":"n","type":"long","nullable":true,"metadata":{}},'
    '{"name":"text","type":"string","nullable":true,"metadata":{}}]}'
)
DAY_MS = 86_400_000


def rows(start: int, end: int) -> pa.Table:
    """Rows start ... end - 1."""
    numbers = range(start, end)
    return pa.table({"n": pa.array(numbers, pa.int64()), "text": [f"row {n} ä" for n in numbers]})


def add(path: str, size: int = 1, start: int = 0, end: int = 1) -> AddFile:
    """A file with the rows start ... end - 1."""
    stats = {"numRecords": end - start, "minValues": {"n": start}, "maxValues": {"n": end - 1}, "nullCount": {"n": 0}}
    return AddFile(path, size, 1_700_000_000_000, True, json.dumps(stats, separators=(",", ":")))


def remove(path: str, at_ms: int = 1_700_000_000_000) -> RemoveFile:
    """A removal of a file."""
    return RemoveFile(path, False, at_ms)


def memory_table(
    checkpoint_commits: int = 100,
) -> tuple[DeltaLog, FailingObjects, ManualClock, Snapshot]:
    """A new table in memory."""
    clock = ManualClock()
    objects = FailingObjects(clock)
    delta = DeltaLog(objects, "topics/t-1", clock, checkpoint_commits)
    return delta, objects, clock, delta.create(SCHEMA, {}, "creation")


def grow(delta: DeltaLog, snapshot: Snapshot, count: int, label: str = "f") -> Snapshot:
    """So many commits, each of one file and the progress of one queue."""
    for number in range(count):
        before = snapshot.transactions.get("queue/0")
        actions: list[OwnAction] = [
            add(f"{label}-{number:05d}.parquet", start=number, end=number + 1),
            Transaction("queue/0", (before or 0) + 1),
        ]
        snapshot = delta.commit(snapshot, actions, f"{label}-{number}", expected={"queue/0": before})
    return snapshot


class Folder:
    """As much of a folder store as other people's readers need to open what is in it."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @property
    def url(self) -> str:
        return self.root.as_uri()

    def put_new(self, path: str, data: bytes) -> bool:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            with target.open("xb") as file:
                file.write(data)
        except FileExistsError:
            return False
        return True

    def replace(self, path: str, data: bytes) -> None:
        self.put_new(f"{path}.new", data)
        (self.root / f"{path}.new").rename(self.root / path)

    def get(self, path: str) -> bytes:
        try:
            return (self.root / path).read_bytes()
        except FileNotFoundError:
            raise MissingObjectError(path) from None

    def get_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        data = self.get(path)
        if any(end > len(data) for _, end in ranges):
            raise TierError(f"{path} ends before a range")
        return [data[start:end] for start, end in ranges]

    def size(self, path: str) -> int:
        return len(self.get(path))

    def objects(self, prefix: str) -> Iterator[StoredObject]:
        found = sorted(
            (Path(folder, name).relative_to(self.root).as_posix(), Path(folder, name).stat())
            for folder, _, names in os.walk(self.root)
            for name in names
        )
        for path, stat in found:
            if path.startswith(prefix):
                yield StoredObject(path, stat.st_size, stat.st_mtime_ns // 1_000_000)

    def delete(self, paths: Sequence[str]) -> None:
        for path in paths:
            (self.root / path).unlink(missing_ok=True)


def put_rows(folder: Folder, root: str, path: str, start: int, end: int) -> AddFile:
    """A Parquet file of rows start ... end - 1, and its action."""
    sink = pa.BufferOutputStream()
    pq.write_table(rows(start, end), sink)
    data = sink.getvalue().to_pybytes()
    assert folder.put_new(f"{root}/{path}", data)
    return add(path, len(data), start, end)
