"""Replicas of a broker: their cost beside a broker without, and the time of a slow one, a move, a copy and a failover.

All processes share the cores of the machine, so a broker with three replicas has a third of them where one has all.
Messages per CPU-second show the cost of replicas; all of a side's processes are counted.
"""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Final

from rich.console import Console

from benchmarks import failover
from benchmarks.broker_group import BrokerGroup, broker_group
from benchmarks.mqtt_workloads import FAN_IN, OPEN_LOOP, WINDOW_20
from benchmarks.processes import BenchmarkError
from benchmarks.producing import AGAIN_SECONDS, Producer
from benchmarks.quorum_queues import compare
from benchmarks.report import Goal, Report

W1: Final = (*FAN_IN, *WINDOW_20, "--qos", "1", "--warmup", "2000")
PACED: Final = (*OPEN_LOOP, "--pubs", "10", "--topics", "1", "--qos", "1", "--size", "200")
GROUPS: Final = (("in-sync", 2, "2-2"), ("2-3", 3, "2-3"))
"""Rule, replicas, and name of a group: copies of a message before its confirm, and of all."""
QUORUM: Final = ("2-3", 3)
SYNC_SECONDS: Final = 0.05
"""Length of the pauses of a slow disk, in seconds; it works for a tenth of that between two."""
FILL: Final = ("--pubs", "20", "--topics", "10", "--window", "100", "--qos", "1", "--drain", "20")
COPY_SIZES: Final = (200, 4096)
COPIED_BYTES: Final = 200_000_000
FILLED_BYTES: Final = 40_000_000
"""Data of a group whose master is moved, with the size of a message:"""
FILL_MESSAGE_BYTES: Final = 200
TOPIC: Final = "moved"
MOVE_APART_SECONDS: Final = 0.5

Runs = dict[str, list[dict[str, Any]]]


def run(console: Console, *, quick: bool) -> Report:
    """Run all of it in fifteen minutes; quick: one round of each."""
    rounds, moves = (1, 4) if quick else (3, 10)
    report = Report("replication", "Replicas of a broker: confirmed by 2 of 2, and by 2 of 3", "beside")
    _cost(report, console, rounds)
    compare(report, console, rounds, "1.5" if quick else "3")
    _slow_disk(report, console, rounds)
    _moves(report, console, moves, FILLED_BYTES // 2 if quick else FILLED_BYTES)
    for size in COPY_SIZES:
        _copy(report, console, size, COPIED_BYTES // 4 if quick else COPIED_BYTES)
    failover.measure(report, console, quick=quick)
    report.notes += [
        f"medians of {rounds}, rounds alternating; the load generator shares the cores with all processes",
        "msg/CPU-s: by the CPU of all brokers with their processes for syncing, the gateway and the name server",
        f"a slow disk: the slave's process for syncs stands still for {SYNC_SECONDS * 1000:g} ms of each "
        f"{SYNC_SECONDS * 1100:g} ms",
        f"moves: the longest time between two confirms of one HTTP producer, around each of {moves}",
        "copying: from when a slave without data has started until it is in sync and even, by the bytes of the log",
    ]
    return report


# -- cost -------------------------------------------------------------------------------------------------------------


def _cost(report: Report, console: Console, rounds: int) -> None:
    """Add fan-in at full speed, then paced, of one broker and of each group."""
    fan_in: Runs = {}
    paced: Runs = {}
    for number in range(rounds):
        for rule, replicas, name in (("", 1, "one"), *GROUPS):
            console.print(f"fan-in, {name}, round {number + 1} of {rounds}", style="dim")
            with broker_group(rule, replicas) as group:
                fan_in.setdefault(name, []).append(group.gwload(*W1, "--duration", "3"))
                paced.setdefault(name, []).append(group.gwload(*PACED, "--duration", "3"))
    for _, _, name in GROUPS:
        what = f"{name} beside one without replicas: "
        goal = Goal(0.5) if name == "2-2" else None
        _compare(report, f"{what}W1, MQTT QoS 1 fan-in", "msg/CPU-s", fan_in, name, "pub_per_cpu_s", goal)
        _compare(report, f"{what}the same", "msg/s", fan_in, name, "pub_rate")
        for part in ("master", "slave", "gateway"):
            ours, theirs = (_by_cpu_of(part, fan_in[of]) for of in (name, "one"))
            report.add(f"{what}the same, by the CPU of one {part}", "msg/CPU-s", ours, theirs)
        latest = Goal(2, at_most=True)
        _compare(report, f"{what}to PUBACK at 2,000/s, p50", "ms", paced, name, "ack_p50_us", latest, 1000)
        _compare(report, f"{what}to PUBACK at 2,000/s, p99", "ms", paced, name, "ack_p99_us", None, 1000)


def _by_cpu_of(part: str, runs: list[dict[str, Any]]) -> float | None:
    """Messages per CPU-second of one process; None without it."""
    found = [float(each["acked"]) / each["parts"][part] for each in runs if part in each["parts"]]
    return statistics.median(found) if found else None


def _compare(
    report: Report,
    what: str,
    unit: str,
    runs: Runs,
    name: str,
    key: str,
    goal: Goal | None = None,
    divisor: float = 1,
    beside: str = "one",
) -> None:
    ours, theirs = (statistics.median(float(each[key]) for each in runs[of]) / divisor for of in (name, beside))
    report.add(what, unit, ours, theirs, judged="ratio", goal=goal)


# -- a slow disk ------------------------------------------------------------------------------------------------------


def _slow_disk(report: Report, console: Console, rounds: int) -> None:
    """Add the same group with healthy replicas, with a slow disk of one slave, and with a paused slave."""
    runs: Runs = {"well": [], "slow": [], "still": []}
    with broker_group(*QUORUM) as group:
        group.gwload(*PACED, "--duration", "1")
        slave = group.slaves()[0]
        for number in range(rounds):
            console.print(f"a slow disk, round {number + 1} of {rounds}", style="dim")
            runs["well"].append(group.gwload(*PACED, "--duration", "3"))
            with _slow(group, slave):
                runs["slow"].append(group.gwload(*PACED, "--duration", "3"))
            group.wait_even(group.replicas)
            with group.paused(slave):
                runs["still"].append(group.gwload(*PACED, "--duration", "3"))
            group.wait_even(group.replicas)
    for name, what in (("slow", "a slave with a slow disk"), ("still", "a slave that stands still")):
        for key, part in (("ack_p50_us", "p50"), ("ack_p99_us", "p99")):
            goal = Goal(1.3, at_most=True) if (name, part) == ("slow", "p99") else None
            named = f"2-3, {what} beside all well: to PUBACK at 2,000/s, {part}"
            _compare(report, named, "ms", runs, name, key, goal, 1000, beside="well")


@contextmanager
def _slow(group: BrokerGroup, replica: int) -> Iterator[None]:
    """Slow down the disk of one replica: its syncs stand still most of the time."""
    ended = threading.Event()

    def pulse() -> None:
        while not ended.is_set():
            with group.paused(replica, only_disk=True):
                ended.wait(SYNC_SECONDS)
            ended.wait(SYNC_SECONDS / 10)

    thread = threading.Thread(target=pulse)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


# -- moves ------------------------------------------------------------------------------------------------------------


def _moves(report: Report, console: Console, moves: int, filled: int) -> None:
    """Add moves of the master under a producer: of groups with few data, and of one with many."""
    for rule, replicas, name, size in (*((*group, 0) for group in GROUPS), (*GROUPS[0], filled)):
        named = f"{name}, {size / 1e6:g} MB of messages kept" if size else name
        console.print(f"{named}, {moves} moves", style="dim")
        with broker_group(rule, replicas) as group:
            if size:
                _fill(group, FILL_MESSAGE_BYTES, size)
            quiet, gaps, failures = _moved(group, moves)
        what = f"{named}: longest time between two confirms around a planned move"
        report.add(f"{what}, median", "ms", statistics.median(gaps), quiet, goal=Goal(200, at_most=True))
        report.add(f"{what}, worst", "ms", max(gaps), quiet)
        report.add(f"{named}: publishes that fail, of each move", "messages", len(failures) / moves)
        if failures:
            report.notes.append(f"{named}, moves: the first publish that failed: {failures[0]}")
    report.notes.append("moves, beside: the longest time between two confirms while nothing is moved")
    report.notes.append(f"moves: after a publish that failed the producer waits for {AGAIN_SECONDS * 1000:g} ms")


def _fill(group: BrokerGroup, size: int, wanted: int) -> None:
    """Publish `wanted` bytes in messages of `size`."""
    group.gwload(*FILL, "--size", str(size), "--count", str(wanted // size))


def _moved(group: BrokerGroup, moves: int) -> tuple[float, list[float], list[str]]:
    """Milliseconds of the longest gap before the first move, and around each; the publishes that failed."""
    answer = group.client.put(f"/api/v1/topics/{TOPIC}", json={})
    if answer.status_code not in (200, 201):
        raise BenchmarkError(f"no topic: {answer.status_code} {answer.text}")
    producer = Producer(group=group, topic=TOPIC)
    times: list[tuple[float, float]] = []
    with producer.running():
        time.sleep(1)
        quiet = (time.monotonic(), time.monotonic() + MOVE_APART_SECONDS)
        time.sleep(MOVE_APART_SECONDS)
        for _ in range(moves):
            group.wait_even(group.replicas)
            to = group.master() % len(group.replicas) + 1
            begun = time.monotonic()
            group.move(to)
            ended = time.monotonic()
            time.sleep(MOVE_APART_SECONDS)
            times.append((begun, ended))
    before, *gaps = (producer.longest_gap(*each) * 1000 for each in (quiet, *times))
    return before, gaps, producer.failures


# -- copying ----------------------------------------------------------------------------------------------------------


def _copy(report: Report, console: Console, size: int, wanted: int) -> None:
    """Add a slave that has lost its disk and copies all from the master."""
    console.print(f"copying, messages of {size:,} B", style="dim")
    with ExitStack() as stack:
        group = stack.enter_context(broker_group(*QUORUM))
        slave = group.slaves()[0]
        group.stop_replica(slave)
        _fill(group, size, wanted)
        [kept] = [int(each["synced"]) for each in group.views() if each["role"] == "master"]
        group.wipe_replica(slave)
        group.start_replica(slave)
        begun = time.monotonic()
        group.wait_even((slave,))
        seconds = time.monotonic() - begun
    goal = Goal(100) if size == max(COPY_SIZES) else None
    what = f"2-3: a slave without data copies {kept / 1e6:,.0f} MB, messages of {size:,} B"
    report.add(what, "MB/s", kept / 1e6 / seconds, goal=goal)
    report.add(f"{what}, until it is even", "s", seconds)
