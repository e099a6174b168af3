"""Many topics and light queues on one broker: making them, opening them, publishing over them, saving them.

Each step is a process of its own (`python -m benchmarks.many_queues STEP DIRECTORY TOPICS LIGHT`), so that its memory
is measured alone; it prints its figures as JSON.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import random
import signal
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

from benchmarks.processes import ROOT, BenchmarkError, cpu_seconds, resident_bytes_here
from benchmarks.report import Goal, Report
from benchmarks.store_parts import append_all
from entrepot.broker.broker import Broker
from entrepot.broker.settings.store import BrokerSettings
from entrepot.domain.filter_hash import filter_hash
from entrepot.domain.message import Message
from entrepot.domain.topic import Topic
from entrepot.gateway.clock import SystemClock

TOPICS: Final = 20_000
LIGHT: Final = 200_000
QUEUES: Final = 4
CALL: Final = 2_000
"""Topics made with one call."""
NAMED_AT_ONCE: Final = 2_000
"""Light queues that one message names."""
ENTRIES: Final = 4
FEW: Final = 10
BATCH: Final = 100
PUBLISHED: Final = 200_000
Figures = dict[str, float]


def add_to(report: Report, console: Console, *, quick: bool) -> None:
    """Run all steps, in processes one after the other."""
    topics, light = (TOPICS // 10, LIGHT // 10) if quick else (TOPICS, LIGHT)
    with tempfile.TemporaryDirectory(prefix="entrepot-bench-") as directory:
        console.print("many queues: making them", style="dim")
        made = _step("make", directory, topics, light)
        console.print("many queues: publishing, opening", style="dim")
        clean = _step("open", directory, topics, light)
        used = _step("publish", directory, topics, light)
        killed = _step("open", directory, topics, light)
    what = f"{topics:,} topics of {QUEUES} queues, {CALL:,} in a call"
    report.add(what, "s", made["topics_seconds"])
    report.add("10,000 topics in one call", "s", made["call_seconds"])
    what = f"{topics * QUEUES:,} queues and {light:,} light ones"
    for how, figures in (("a clean end", clean), ("SIGKILL", killed)):
        report.add(f"{what}: open after {how}", "s", figures["seconds"], goal=Goal(10, at_most=True))
        report.add(f"{what}: open after {how}", "CPU-s", figures["cpu"])
    report.add(f"{what}: memory after opening", "GB", clean["rss"] / 1e9, goal=Goal(1.5, at_most=True))
    most = max(figures["descriptors"] for figures in (made, clean, used, killed))
    report.add(f"{what}: descriptors", "", most, goal=Goal(4096, at_most=True))
    report.add(f"{what}: longest pause of saving all", "ms", used["pause_ms"], goal=Goal(50, at_most=True))
    what = f"append to {topics:,} topics (ours) and to {FEW} (peer), batches of {BATCH}"
    report.add(what, "msg/CPU-s", used["many"], used["few"], judged="ratio", goal=Goal(0.8))


def _step(name: str, directory: str, topics: int, light: int) -> Figures:
    command = [sys.executable, "-m", "benchmarks.many_queues", name, directory, str(topics), str(light)]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, timeout=300, check=False)
    if done.returncode not in (0, -signal.SIGKILL):
        raise BenchmarkError(f"many queues: {name} ended with code {done.returncode}")
    figures: Figures = json.loads(done.stdout)
    return figures


# -- the steps -----------------------------------------------------------------------------------------------------


async def make(directory: Path, topics: int, light: int) -> Figures:
    """Make the topics and the light queues, each with a few entries, and end cleanly."""
    broker = await _opened(directory)
    begun = time.perf_counter()
    await _put([Topic(f"topic-{n}", queues=QUEUES) for n in range(topics)], broker)
    topics_seconds = time.perf_counter() - begun
    await _put([Topic(f"light-{n}", queues=1) for n in range(light)], broker)
    begun = time.perf_counter()
    await broker.topology.put_topics([Topic(f"more-{n}") for n in range(10_000)])
    call_seconds = time.perf_counter() - begun
    begun = time.perf_counter()
    for turn in range(ENTRIES):
        for first in range(0, light, NAMED_AT_ONCE):
            further = tuple((f"light-{n}", 0) for n in range(first, first + NAMED_AT_ONCE))
            await _confirmed(broker, [_message(f"topic-{turn}", 0, further)])
    entries_seconds = time.perf_counter() - begun
    descriptors = _descriptors()
    begun = time.perf_counter()
    await broker.close()
    return {
        "topics_seconds": topics_seconds,
        "call_seconds": call_seconds,
        "entries_seconds": entries_seconds,
        "close_seconds": time.perf_counter() - begun,
        "descriptors": descriptors,
    }


async def open_again(directory: Path, topics: int, light: int) -> Figures:
    """Open the data of the step before; `cpu` is the time on an idle machine."""
    cpu, begun = cpu_seconds(os.getpid()), time.perf_counter()
    broker = await _opened(directory)
    seconds = time.perf_counter() - begun
    figures = {
        "seconds": seconds,
        "cpu": cpu_seconds(os.getpid()) - cpu,
        "scanned": broker.engine.report.scanned_bytes,
        "rss": resident_bytes_here(),
        "descriptors": _descriptors(),
    }
    await broker.close()
    return figures


async def publish(directory: Path, topics: int, light: int) -> Figures:
    """Publish over many topics and over few in turns, save everything once, and be killed."""
    broker = await _opened(directory)
    pause_ms = await _longest_pause(lambda: _save_all(broker, light))
    rates: dict[int, list[float]] = {topics: [], FEW: []}
    for _ in range(5):
        for count, found in rates.items():
            found.append(await _rate(broker, count))
    descriptors = _descriptors()
    await _rate(broker, topics)  # messages that only the log has at the kill
    sys.stdout.write(
        json.dumps(
            {
                "many": sorted(rates[topics])[2],
                "few": sorted(rates[FEW])[2],
                "pause_ms": pause_ms,
                "descriptors": descriptors,
            }
        )
    )
    sys.stdout.flush()
    os.kill(os.getpid(), signal.SIGKILL)
    return {}


async def _put(topics: list[Topic], broker: Broker) -> None:
    for first in range(0, len(topics), CALL):
        refused = [outcome for outcome in await broker.topology.put_topics(topics[first : first + CALL]) if outcome]
        if refused:
            raise BenchmarkError(str(refused[0]))


async def _rate(broker: Broker, topics: int) -> float:
    """Messages per CPU-second over `topics`, in random order."""
    chosen = random.Random(1)
    messages = [_message(f"topic-{chosen.randrange(topics)}", n % QUEUES) for n in range(PUBLISHED)]
    gc.collect()
    gc.freeze()
    cpu = cpu_seconds(os.getpid())
    await append_all(broker, messages)
    return PUBLISHED / (cpu_seconds(os.getpid()) - cpu)


async def _save_all(broker: Broker, light: int) -> None:
    """Change every light queue, and save until nothing is behind."""
    for first in range(0, light, NAMED_AT_ONCE):
        further = tuple((f"light-{n}", 0) for n in range(first, first + NAMED_AT_ONCE))
        await _confirmed(broker, [_message("topic-0", 0, further)])
        await asyncio.sleep(0.01)
    end = broker.engine.end
    broker.checkpoints.begin()
    while broker.engine.checkpointer.position < end:  # noqa: ASYNC110
        await asyncio.sleep(0.01)


async def _longest_pause(work: Callable[[], Coroutine[Any, Any, None]]) -> float:
    """The longest pause of the event loop during some work, in milliseconds."""
    longest = 0.0

    async def beat() -> None:
        nonlocal longest
        last = time.perf_counter()
        while True:
            await asyncio.sleep(0.001)
            now = time.perf_counter()
            longest, last = max(longest, now - last - 0.001), now

    beating = asyncio.create_task(beat())
    await work()
    beating.cancel()
    return longest * 1000


def _message(topic: str, queue_id: int, further: tuple[tuple[str, int], ...] = ()) -> Message:
    return Message(
        topic,
        b"x" * 200,
        topic,
        queue_id,
        1,
        message_id=os.urandom(16),
        born_time_ms=1,
        filter_hash=filter_hash(topic, ""),
        further_queues=further,
    )


async def _confirmed(broker: Broker, messages: list[Message]) -> None:
    settled = asyncio.get_running_loop().create_future()
    confirmation = broker.messages.append(messages)
    confirmation.when_settled(settled.set_result)
    failure = await settled
    if failure is not None or confirmation.refusals:
        raise BenchmarkError(f"an append was refused: {failure or confirmation.refusals}")


async def _opened(directory: Path) -> Broker:
    return await Broker.open(BrokerSettings(directory), SystemClock())


def _descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


STEPS: Final = {"make": make, "open": open_again, "publish": publish}

if __name__ == "__main__":
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    step = STEPS[sys.argv[1]]
    sys.stdout.write(json.dumps(uvloop.run(step(Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])))))
