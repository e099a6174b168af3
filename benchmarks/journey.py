"""The journey of a message: what its look-up costs, and that publishing costs no more for it.

`--against DIRECTORY` is another tree of the code: W1d runs in turn with a server of each, so that both meet the same
machine. Without it there are only the look-ups.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final
from unittest import mock

import uvloop
from rich.console import Console

from benchmarks import processes
from benchmarks.mqtt_workloads import chosen
from benchmarks.processes import BenchmarkError, entrepot, gwload
from benchmarks.report import Goal, Report
from benchmarks.store_parts import append_all, make_messages
from entrepot.broker.broker import Broker
from entrepot.broker.settings.store import BrokerSettings
from entrepot.domain.journey.telling import journey_of
from entrepot.domain.message import Message, SystemProperty
from entrepot.domain.ports import PopRequest
from entrepot.domain.topic import Topic
from entrepot.gateway.clock import SystemClock
from entrepot.gateway.operations.journey.gathering import Gathering
from entrepot.gateway.operations.journey.looking_up import MAX_SCANNED, By, Wanted, looked_up

PAIRS: Final = 12
TOPIC: Final = "bench"
MOST: Final = 1.02
"""Greatest CPU time of a publish, by that without journeys."""
TRIES: Final = 50
ATTEMPTS: Final = 5


def run(console: Console, *, quick: bool, against: str | None = None) -> Report:
    """Run all of it; with `against` in some four minutes."""
    report = Report("journey", "The journey of a message: look-ups, and their price for publishing", "before")
    with tempfile.TemporaryDirectory(prefix="entrepot-bench-") as directory:
        uvloop.run(_look_ups(report, Path(directory), 50_000 if quick else 300_000))
    if against is None:
        report.notes.append("publishing was not compared: name another tree of the code with --against")
    else:
        _publishing(console, report, against, 1 if quick else PAIRS)
    return report


# -- publishing ------------------------------------------------------------------------------------------------------


def _publishing(console: Console, report: Report, against: str, pairs: int) -> None:
    """W1d with a server of each tree in turn; the order changes from pair to pair."""
    trees = {"ours": str(processes.ROOT), "theirs": str(Path(against).absolute())}
    found: dict[str, list[float]] = {name: [] for name in trees}
    for pair in range(pairs):
        for name in sorted(trees, reverse=bool(pair % 2)):
            found[name].append(_microseconds(trees[name]))
        console.print(f"pair {pair + 1}: {found['ours'][-1]:.2f} and {found['theirs'][-1]:.2f} µs", style="dim")
    ours, theirs = (statistics.median(found[name]) for name in trees)
    goal = Goal(MOST, at_most=True)
    report.add("W1d: CPU time of a publish", "µs", ours, theirs, judged="ratio", goal=goal)
    ratios = sorted(mine / other for mine, other in zip(found["ours"], found["theirs"], strict=True))
    middle = statistics.median(ratios)
    spread = f"{middle:.3f} in the median, {ratios[0]:.3f} to {ratios[-1]:.3f}"
    report.notes.append(f"medians of {pairs} pairs; the ratio of a pair is {spread}")


def _microseconds(tree: str) -> float:
    """CPU time of the server for each message of one W1d."""
    [workload] = chosen("W1d")
    with _in(tree), entrepot() as server:
        figures = gwload(server, "mqtt", *workload.command(quick=False))
    if figures.get("lost"):
        raise BenchmarkError(f"{figures['lost']:,.0f} messages were lost")
    return 1e6 / float(figures["pub_pub_per_cpu_s"])


@contextmanager
def _in(tree: str) -> Iterator[None]:
    """Start processes with the code of a tree."""
    with mock.patch.object(processes, "ROOT", Path(tree)), mock.patch.dict(os.environ, {"PYTHONPATH": tree}):
        yield


# -- look-ups --------------------------------------------------------------------------------------------------------


async def _look_ups(report: Report, directory: Path, count: int) -> None:
    broker = await Broker.open(BrokerSettings(directory), SystemClock())
    try:
        await broker.topology.put_topic(Topic(TOPIC, queues=4))
        messages = [_named(message, number) for number, message in enumerate(make_messages(count))]
        await append_all(broker, messages)
        for attempt in range(ATTEMPTS):
            popped = await broker.consumption.pop(PopRequest(TOPIC, "workers", 1))
            receipts = [each.receipt_handle for each in popped]
            if attempt + 1 < ATTEMPTS:
                await broker.consumption.change_invisible_duration(TOPIC, "workers", receipts, 0, release=True)
            else:
                await broker.consumption.reject(TOPIC, "workers", receipts)
        busy = popped[0].message.message_id.hex()
        of = f"of {count:,} messages"
        await _add(report, broker, Wanted(By.MESSAGE_ID, busy), f"by id, {ATTEMPTS} failed attempts, {of}", 20)
        await _add(report, broker, Wanted(By.KEY, f"k{count // 2}", (TOPIC,)), f"by key, {of}", 20)
        wanted = Wanted(By.CORRELATION, "c0", (TOPIC,))
        await _add(report, broker, wanted, f"by correlation data, {MAX_SCANNED:,} messages read, {of}", 2000, tries=3)
    finally:
        await broker.close()


def _named(message: Message, number: int) -> Message:
    message.topic, message.queue_id = TOPIC, number % 4
    message.message_id = number.to_bytes(16, "big")
    message.keys = (f"k{number}",)
    message.system = {SystemProperty.CORRELATION_ID: f"c{number}".encode()}
    return message


async def _add(report: Report, broker: Broker, wanted: Wanted, what: str, most: float, tries: int = TRIES) -> None:
    subscriptions: Any = SimpleNamespace(by_topic={})
    times = []
    for _ in range(tries):
        began = time.perf_counter()
        found = await looked_up(broker.finder, wanted, "bench", time.monotonic)
        assert wanted.by is By.CORRELATION or found.messages
        for message in found.messages[-1:]:
            gathered = await Gathering(broker, subscriptions, list, sees_cluster=True).gather(message)
            assert journey_of(gathered.facts).hops
        times.append(time.perf_counter() - began)
    report.add(what, "ms", statistics.median(times) * 1000, goal=Goal(most, at_most=True))
