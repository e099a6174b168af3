"""Others read a table in processes of their own, while an uploader appends, merges and deletes what it has merged."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from entrepot.broker.tiered.fence import Writer
from entrepot.broker.tiered.folder import FolderStore
from entrepot.broker.tiered.upload.uploader import Uploader
from tests.support.clock import ManualClock
from tests.support.seed import seeded
from tests.support.waiting import PATIENCE_SECONDS, wait_until
from tests.tiered.uploads.model_broker import Master, ModelBroker
from tests.tiered.uploads.world import SMALL_SEGMENTS
from tests.tiers.marks import scaled, soak_only

ROOT = Path(__file__).parents[3]
PROGRAM = Path(__file__).with_name("table_reader.py")
QUEUES, APPENDS, MESSAGES = 3, 4, 25
"""Segments of a step, and messages of each."""
GRACE_MS = 60_000
YEARS_MS = 10**12
ALL = ["DuckDB", "polars", "delta-rs", "pyiceberg", "Spark"]


class Reader:
    """A program that reads a table.  `counts`: messages of each read; `faults`: what is wrong with them."""

    def __init__(self, name: str, place: Path) -> None:
        self.name = name
        self.counts: list[int] = []
        self.faults: list[str] = []
        self._process = subprocess.Popen(
            [sys.executable, str(PROGRAM), name, str(place)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    def _follow(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            told = json.loads(line)
            if "error" in told:
                self.faults.append(told["error"])
                continue
            count = 0
            for queue_id, rows, different, least, greatest in told["queues"]:
                count += rows
                if not rows == different == greatest + 1 - least or least != 0:
                    self.faults.append(f"queue {queue_id}: {rows} rows, {different} offsets, {least} to {greatest}")
            if self.counts and count < self.counts[-1]:
                self.faults.append(f"{count} messages after {self.counts[-1]}")
            self.counts.append(count)

    def reads_once_more(self, before: int) -> bool:
        """Whether a read that was begun later than the one under way, when `before` had ended, has ended, too."""
        assert not self.faults, f"{self.name}: {self.faults}"
        assert self._process.poll() is None, f"{self.name} has ended"
        return len(self.counts) >= before + 2

    def end(self) -> None:
        """Let it read once more, and end."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        assert self._process.wait(4 * PATIENCE_SECONDS) == 0
        self._thread.join()
        assert not self.faults, f"{self.name}: {self.faults}"

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


@contextmanager
def reading(names: list[str], place: Path) -> Iterator[list[Reader]]:
    readers = [Reader(name, place) for name in names]
    try:
        yield readers
    finally:
        for each in readers:
            each.kill()


@pytest.mark.scaled
@pytest.mark.timeout(600)
@pytest.mark.parametrize("names", [["delta-rs"], ["pyiceberg"], soak_only(ALL[:-1]), soak_only(ALL)])
def test_each_read_sees_one_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names: list[str]) -> None:
    """The vacuum's grace passes by the uploader's clock, which goes on when each reader has read: no read is longer."""
    monkeypatch.setattr("entrepot.broker.tiered.upload.housekeeping.HOUSEKEEPING_SECONDS", 0.0)
    monkeypatch.setattr("entrepot.broker.tiered.upload.housekeeping.VACUUM_SECONDS", 0.0)
    for name, value in SMALL_SEGMENTS.items():
        monkeypatch.setattr(f"entrepot.broker.tiered.merging.{name}", value)
    random, clock, objects = seeded("readers"), ManualClock(time.time_ns() // 1_000_000), FolderStore(tmp_path)
    master = Master(random)
    topic = master.make("factory", QUEUES, YEARS_MS)
    broker = ModelBroker(master)
    uploader = Uploader(
        broker, objects, clock, random, time.monotonic,
        writer=Writer("store", 1), number=2, segment_bytes=64 << 10, max_age=0.0,
        requests_per_hour=20_000, grace=GRACE_MS / 1000, iceberg=True,
    )  # fmt: skip

    def append() -> None:
        for _ in range(MESSAGES):
            master.publish(topic, random.randrange(QUEUES), clock.now_ms())
        clock.advance(1)
        uploader.round()
        assert not broker.progress[topic.root].problem

    append()
    written: set[Path] = set()
    with reading(names, tmp_path / topic.root) as readers:
        for _ in range(scaled(5, 40)):
            before = [len(each.counts) for each in readers]
            for _ in range(APPENDS):
                append()
                written.update((tmp_path / topic.root).rglob("*.parquet"))
            for each, count in zip(readers, before, strict=True):
                wait_until(lambda r=each, n=count: r.reads_once_more(n), f"{each.name} reads", 8 * PATIENCE_SECONDS)  # type: ignore[misc]
            clock.advance(GRACE_MS // 2 + 1)
        for each in readers:
            each.end()
    total = sum(len(queue) for queue in topic.queues)
    assert total == MESSAGES * (1 + APPENDS * scaled(5, 40))
    for each in readers:
        assert each.counts[-1] == total and len(set(each.counts)) > scaled(3, 20), each.name
    deleted = [path for path in written if not path.exists()]
    assert len(deleted) >= 8, "segments were merged, and those that they replace deleted"
