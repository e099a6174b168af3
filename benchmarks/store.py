"""The storage engine alone, with its real sync process on a real disk.

CPU-seconds are those of this process and of the sync process together; the messages are made beforehand.
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Final

import structlog
import uvloop
from rich.console import Console

from benchmarks.processes import ROOT, BenchmarkError, cpu_seconds
from benchmarks.report import Goal, Report
from broker.broker import Broker
from broker.settings import BrokerSettings
from domain.confirmation import Confirmation
from domain.filter_hash import filter_hash
from domain.message import Message
from domain.ports import PopRequest
from domain.topic import Topic
from gateway.clock import SystemClock

TOPIC: Final = "bench"
GROUP: Final = "workers"
QUEUES: Final = 4
BODY_BYTES: Final = 200
APPEND_BATCH: Final = 100
BATCHES_IN_FLIGHT: Final = 32
POP_BATCH: Final = 32
CONSUMERS: Final = 16
LOG_BYTES: Final = 1_000_000_000


def run(console: Console, *, quick: bool) -> Report:
    """All of it; the recovery needs twice the log in disk space for a moment."""
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
    report.notes.append(f"medians of {rounds}; CPU of the process and its sync process, wall time of all")
    return report


async def _append_and_pop(directory: Path, count: int) -> tuple[tuple[float, float], tuple[float, float]]:
    broker = await Broker.open(BrokerSettings(directory), SystemClock())
    await broker.put_topic(Topic(TOPIC, queues=QUEUES))
    messages = make_messages(count)
    gc.collect()
    gc.freeze()
    append = await _timed(lambda: append_all(broker, messages))
    messages.clear()
    gc.unfreeze()
    gc.collect()
    pop = await _timed(lambda: consume_all(broker, count))
    await broker.close()
    return append, pop


async def _timed(work: Callable[[], Coroutine[Any, Any, None]]) -> tuple[float, float]:
    """(CPU seconds with children, wall seconds)."""
    cpu, begun = cpu_seconds(os.getpid()), time.perf_counter()
    await work()
    return cpu_seconds(os.getpid()) - cpu, time.perf_counter() - begun


def make_messages(count: int) -> list[Message]:
    """As a door would hand them over: queue chosen, id minted, hash made."""
    names = [f"{TOPIC}/{number}" for number in range(10)]
    hashes = [filter_hash(name, "") for name in names]
    body = b"x" * BODY_BYTES
    return [
        Message(
            TOPIC,
            body,
            names[number % 10],
            number % QUEUES,
            1,
            message_id=number.to_bytes(16, "big"),
            born_time_ms=1,
            filter_hash=hashes[number % 10],
        )
        for number in range(count)
    ]


async def append_all(broker: Broker, messages: list[Message]) -> None:
    """Append in batches with a few of them unconfirmed at a time, as connections do; ends when all is confirmed."""
    loop = asyncio.get_running_loop()
    finished = loop.create_future()
    state = {"next": 0, "in_flight": 0}

    def settled(failure: object) -> None:
        state["in_flight"] -= 1
        if failure is not None and not finished.done():
            finished.set_exception(BenchmarkError(str(failure)))
        elif state["in_flight"] == 0 and state["next"] >= len(messages):
            finished.set_result(None)
        elif state["in_flight"] == BATCHES_IN_FLIGHT // 2:
            loop.call_soon(fill)

    def fill() -> None:
        while state["in_flight"] < BATCHES_IN_FLIGHT and state["next"] < len(messages):
            start = state["next"]
            state["next"] += APPEND_BATCH
            state["in_flight"] += 1
            confirmation: Confirmation = broker.append(messages[start : start + APPEND_BATCH])
            confirmation.when_settled(settled)

    fill()
    await finished


async def consume_all(broker: Broker, count: int) -> None:
    """Pop and acknowledge everything, by consumers of one group."""
    left = count

    async def consumer() -> None:
        nonlocal left
        request = PopRequest(TOPIC, GROUP, POP_BATCH)
        while left > 0:
            deliveries = await broker.pop(request)
            if not deliveries:
                return
            left -= len(deliveries)
            outcomes = await broker.acknowledge(TOPIC, GROUP, [delivery.receipt_handle for delivery in deliveries])
            if any(outcomes):
                raise BenchmarkError(f"an acknowledgement was refused: {outcomes}")

    await asyncio.gather(*(consumer() for _ in range(CONSUMERS)))
    if left:
        raise BenchmarkError(f"{left} messages were not delivered")


# -- recovery ----------------------------------------------------------------------------------------------------


def _recovery(report: Report, log_bytes: int) -> None:
    """Kill a process that appends, in the middle of it, and open what it left."""
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
    """In the child: append until killed, and say how far the log is."""
    broker = await Broker.open(BrokerSettings(directory), SystemClock())
    await broker.put_topic(Topic(TOPIC, queues=QUEUES))
    messages = make_messages(20_000)
    progress = directory / "appended"
    while True:
        await append_all(broker, messages)
        progress.write_text(str(broker.engine.end))


def _median(values: Any) -> float:
    return statistics.median(list(values))


if __name__ == "__main__":
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    uvloop.run(_fill(Path(sys.argv[1])))
