"""The storage engine alone, with its real sync process on a real disk.

CPU-seconds are those of this process and of the sync process together; the messages are made beforehand.
"""

from __future__ import annotations

import gc
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

import structlog
import uvloop
from rich.console import Console

from benchmarks import many_queues, store_questions, store_waiting
from benchmarks.processes import ROOT, BenchmarkError
from benchmarks.report import Goal, Report
from benchmarks.store_parts import (
    APPEND_BATCH,
    BODY_BYTES,
    CONSUMERS,
    POP_BATCH,
    QUEUES,
    TOPIC,
    append_all,
    consume_all,
    make_messages,
    timed,
)
from entrepot.broker.broker import Broker
from entrepot.broker.settings.store import BrokerSettings
from entrepot.domain.topic import Topic
from entrepot.gateway.clock import SystemClock

LOG_BYTES: Final = 1_000_000_000


def run(console: Console, *, quick: bool) -> Report:
    """Run all of it; the recovery needs twice the log in disk space for a moment."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    rounds, messages = (1, 200_000) if quick else (3, 1_000_000)
    log_bytes = LOG_BYTES // 10 if quick else LOG_BYTES
    report = Report("store", f"The store alone: {BODY_BYTES} B messages, one process and its sync process")
    appends, pops = [], []
    for number in range(rounds):
        console.print(f"append and pop, round {number + 1} of {rounds}", style="dim")
        with tempfile.TemporaryDirectory(prefix="entrepot-bench-") as directory:
            append, pop = uvloop.run(_append_and_pop(Path(directory), messages))
        appends.append(append)
        pops.append(pop)
    what = f"append in batches of {APPEND_BATCH}, group commit"
    report.add(what, "msg/CPU-s", _median(messages / cpu for cpu, _ in appends), goal=Goal(500_000))
    report.add(what, "msg/s", _median(messages / wall for _, wall in appends))
    what = f"pop {POP_BATCH} and acknowledge, {CONSUMERS} consumers"
    report.add(what, "msg/s", _median(messages / wall for _, wall in pops), goal=Goal(300_000))
    report.add(what, "msg/CPU-s", _median(messages / cpu for cpu, _ in pops))
    console.print("recovery", style="dim")
    _recovery(report, log_bytes)
    for part in (many_queues, store_questions, store_waiting):
        part.add_to(report, console, quick=quick)
    report.notes.append(f"medians of {rounds}; CPU of the process and its sync process, wall time of all")
    return report


async def _append_and_pop(directory: Path, count: int) -> tuple[tuple[float, float], tuple[float, float]]:
    broker = await Broker.open(BrokerSettings(directory), SystemClock())
    await broker.topology.put_topic(Topic(TOPIC, queues=QUEUES))
    messages = make_messages(count)
    gc.collect()
    gc.freeze()
    append = await timed(lambda: append_all(broker, messages))
    messages.clear()
    gc.unfreeze()
    gc.collect()
    pop = await timed(lambda: consume_all(broker, count))
    await broker.close()
    return append, pop


# -- recovery ----------------------------------------------------------------------------------------------------


def _recovery(report: Report, log_bytes: int) -> None:
    """Add the recovery after the kill of a process in the middle of appending."""
    with tempfile.TemporaryDirectory(prefix="entrepot-bench-") as directory:
        child = subprocess.Popen([sys.executable, "-m", "benchmarks.store", directory], cwd=ROOT)
        log, deadline = Path(directory) / "commitlog", time.monotonic() + 120
        while _last_write(directory) < log_bytes:
            if child.poll() is not None or time.monotonic() > deadline:
                child.kill()
                raise BenchmarkError("the process that fills the log did not get there")
            time.sleep(0.05)
        child.send_signal(signal.SIGKILL)
        child.wait()
        size = sum(path.stat().st_size for path in log.iterdir())
        time.sleep(0.2)  # its sync process ends by itself
        seconds, end, scanned = uvloop.run(_open_again(Path(directory)))
    what = f"ready after SIGKILL at a log of {end / 1e9:.2f} GB"
    report.add(what, "s", seconds, goal=Goal(3, at_most=True))
    report.notes.append(
        f"the recovery scanned {scanned / 1e6:.0f} MB behind the last checkpoint ({size / 1e9:.2f} GB of files)"
    )


async def _open_again(directory: Path) -> tuple[float, int, int]:
    begun = time.perf_counter()
    broker = await Broker.open(BrokerSettings(directory), SystemClock())
    seconds = time.perf_counter() - begun
    found = broker.engine.end, broker.engine.report.scanned_bytes
    await broker.close()
    return seconds, *found


def _last_write(directory: str) -> int:
    try:
        return int((Path(directory) / "appended").read_text() or 0)
    except FileNotFoundError:
        return 0


async def _fill(directory: Path) -> None:
    """Append in the child until killed, and print the size of the log."""
    broker = await Broker.open(BrokerSettings(directory), SystemClock())
    await broker.topology.put_topic(Topic(TOPIC, queues=QUEUES))
    messages = make_messages(20_000)
    progress = directory / "appended"
    while True:
        await append_all(broker, messages)
        progress.write_text(str(broker.engine.end))


def _median(values: Any) -> float:
    return float(statistics.median(list(values)))


if __name__ == "__main__":
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    uvloop.run(_fill(Path(sys.argv[1])))
