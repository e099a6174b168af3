"""Memory and time of the list of a table's files, in a process of its own: the uploader has one, and the broker."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Final

from benchmarks.report import Goal, Report
from entrepot.broker.tiered.checkpoints import decode_checkpoint, encode_checkpoint
from entrepot.broker.tiered.columns import delta_schema
from entrepot.broker.tiered.cutting import DAY_MS, day_of
from entrepot.broker.tiered.delta_actions import PARQUET, Action, AddFile, Metadata, Protocol
from entrepot.broker.tiered.segment import Run, tags_of
from entrepot.broker.tiered.snapshot import Replay
from entrepot.broker.tiered.table import TopicTable
from tests.support.clock import ManualClock
from tests.support.tiered.memory_objects import MemoryObjects

QUEUES: Final = 8
ROWS: Final = 60_000
"""Messages of a queue in a file."""
BATCH: Final = 8_192
FILES_A_DAY: Final = 70
"""Final files of a day at some 50,000 messages a second."""
START_MS: Final = 20_000 * DAY_MS


def add_to(report: Report, *, quick: bool) -> None:
    """Add rows, each measured in a process of its own."""
    count = 20_000 if quick else 500_000
    told = subprocess.run(
        [sys.executable, "-m", "benchmarks.tier_files", str(count)], check=True, capture_output=True, text=True
    )
    found = json.loads(told.stdout)
    what = f"list of {count:,} files of {QUEUES} queues"
    report.add(f"{what}, in memory", "B a file", found["bytes"] / count, goal=Goal(1_500, at_most=True))
    report.add(f"{what}, most while it is read", "MB", found["peak"] / 1e6)
    report.add(f"{what}, read from a checkpoint", "s", found["seconds"])
    report.add(f"{what}, one commit taken over", "ms", 1000 * found["commit"])


def files(count: int, first: int = 0) -> Iterator[AddFile]:
    """Yield files as merging leaves them: of all queues, with bounds and runs."""
    chance = Random(first)
    for number in range(first, first + count):
        begin_ms = START_MS + number * (DAY_MS // FILES_A_DAY)
        end_ms = begin_ms + DAY_MS // FILES_A_DAY - 1
        runs = [
            Run(
                queue,
                number * ROWS,
                (number + 1) * ROWS,
                ROWS,
                (begin_ms + queue, end_ms - queue),
                chance.getrandbits(64),
            )
            for queue in range(QUEUES)
        ]
        path = f"{day_of(begin_ms)}/{chance.getrandbits(128):032x}.parquet"
        stats = json.dumps(_stats(number, chance))
        size = 60_000_000 + chance.randrange(10_000_000)
        yield AddFile(path, size, end_ms, False, stats, tags_of(runs, is_clustered=True))


def _stats(number: int, chance: Random) -> dict[str, object]:
    bounds: list[dict[str, object]] = [
        {
            "queue_id": 7 * end,
            "queue_offset": (number + end) * ROWS,
            "store_time": f"2026-11-{1 + number % 28:02}T{chance.randrange(24):02}:10:00.{chance.randrange(1000):03}Z",
            "born_time": f"2026-11-{1 + number % 28:02}T{chance.randrange(24):02}:10:00.{chance.randrange(1000):03}Z",
            "message_id": f"{chance.getrandbits(128):032x}",
            "sub_topic": f"factory/line{9 * end}/dev{999 * end:04}",
            "tag": "ok",
            "log_offset": number * 10**8 + chance.randrange(10**8),
        }
        for end in (0, 1)
    ]
    nulls = dict.fromkeys(bounds[0], 0)
    return {"numRecords": QUEUES * ROWS, "minValues": bounds[0], "maxValues": bounds[1], "nullCount": nulls}


def main(count: int) -> None:
    """Print the figures of a list of files as JSON: another process reads it, in which nothing made it."""
    metadata = Metadata(id="1", schema_string=delta_schema(), configuration={}, partition_columns=[], format=PARQUET)
    replay = Replay()
    first: list[Action] = [Protocol(1, 2), metadata]
    replay.begin(0, first)
    for start in range(0, count, BATCH):
        replay.begin(0, list(files(min(BATCH, count - start), start)))
    data = encode_checkpoint(replay.snapshot(0, "bench"), 0).data
    command = [sys.executable, "-m", "benchmarks.tier_files", str(count), "read"]
    print(subprocess.run(command, input=data, capture_output=True, check=True).stdout.decode())


def _status(name: str) -> int:
    """Return a size of this process in bytes, as Linux tells it."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:"))


def read(count: int) -> None:
    """Read a checkpoint from standard input, and print what it takes."""
    data = sys.stdin.buffer.read()
    before = _status("VmRSS")
    begun = time.perf_counter()
    snapshot = decode_checkpoint(0, {"bench": data}, 0, lambda some: None)
    clock = ManualClock(START_MS)
    table = TopicTable(MemoryObjects(clock), "bench/store-0", clock, Random(1))
    table.take(snapshot)
    seconds = time.perf_counter() - begun
    kept, peak = _status("VmRSS") - before, _status("VmHWM") - before
    changed = Replay(snapshot)
    changed.begin(1, list(files(1, count)))
    newer = changed.snapshot(0, "bench")
    begun = time.perf_counter()
    table.take(newer)
    print(json.dumps({"bytes": kept, "peak": peak, "seconds": seconds, "commit": time.perf_counter() - begun}))


if __name__ == "__main__":
    if len(sys.argv) > 2:
        read(int(sys.argv[1]))
    else:
        main(int(sys.argv[1]))
