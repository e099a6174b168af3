"""Noisy neighbours: the wait of others beside one client that asks much.

Two clients publish at a steady pace, one by MQTT at QoS 1 and one by HTTP, before and during each of twelve abuses by
another ordinary client (`neighbour_abuses`).  The ratio of the 99th percentiles is what a neighbour costs them.  Before
and during alternate in rounds of one server, so that a slow moment of the machine meets both.
"""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Final

from rich.console import Console

from benchmarks.neighbour_abuses import ABUSES, Client
from benchmarks.processes import ROOT, Server, entrepot, stop
from benchmarks.report import Goal, Report
from entrepot.protocols.mqtt.packets import Publish

ROUNDS: Final = 3
ROUND_SECONDS: Final = 4.0
QUICK_SECONDS: Final = 1.0
PAUSE_SECONDS: Final = 0.004
"""Pause between two publishes of a neighbour."""
SETTLE_SECONDS: Final = 1.0
GOAL: Final = Goal(2.0, at_most=True)
TOPIC: Final = "neighbours"
MAX_TOPICS: Final = 20_000


def run(console: Console, *, quick: bool) -> Report:
    """Run for seven minutes."""
    rounds, seconds = (1, QUICK_SECONDS) if quick else (ROUNDS, ROUND_SECONDS)
    report = Report("neighbours", "Publishes of others beside one client's abuse: 99th percentile", "before it")
    for name in ABUSES:
        console.print(name, style="dim")
        most = 3 if name == "refused publishes" else MAX_TOPICS
        with entrepot("--set", f"topics.max_auto_created={most}") as server:
            before, during = _beside(server, name, rounds, seconds)
        for door in ("PUBACK", "HTTP publish"):
            report.add(f"{name}: {door}", "ms", _p99(during[door]), _p99(before[door]), judged="ratio", goal=GOAL)
    report.notes += [
        f"{rounds} rounds of {seconds:g} s before and during, each with a publish every {PAUSE_SECONDS * 1000:g} ms and"
        " its answer; one server for each abuse",
        "server, abuser and neighbours share the machine's cores",
    ]
    return report


def _beside(
    server: Server, name: str, rounds: int, seconds: float
) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    before: dict[str, list[float]] = {"PUBACK": [], "HTTP publish": []}
    during: dict[str, list[float]] = {"PUBACK": [], "HTTP publish": []}
    _measure(server, SETTLE_SECONDS, {door: [] for door in before})  # topic and caches are there
    for _ in range(rounds):
        _measure(server, seconds, before)
        command = [sys.executable, "-m", "benchmarks.neighbour_abuses", name, json.dumps(server.ports)]
        abuser = subprocess.Popen(command, cwd=ROOT)
        try:
            time.sleep(SETTLE_SECONDS)
            _measure(server, seconds, during)
            if abuser.poll() is not None:
                raise RuntimeError(f"the abuser ({name}) has ended by itself")
        finally:
            stop(abuser)
        time.sleep(SETTLE_SECONDS)
    return before, during


def _measure(server: Server, seconds: float, waits: dict[str, list[float]]) -> None:
    threads = [
        threading.Thread(target=_steadily, args=(seconds, _by_mqtt(server), waits["PUBACK"])),
        threading.Thread(target=_steadily, args=(seconds, _by_http(server), waits["HTTP publish"])),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _steadily(seconds: float, publish: Callable[[], None], waits: list[float]) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        began = time.perf_counter()
        publish()
        waits.append((time.perf_counter() - began) * 1000)
        time.sleep(PAUSE_SECONDS)


def _by_mqtt(server: Server) -> Callable[[], None]:
    client = Client(server.ports, f"neighbour-{time.monotonic_ns()}")

    def publish() -> None:
        client.say(Publish(f"{TOPIC}/mqtt", b"m" * 100, 1, 1))
        client.hear()

    return publish


def _by_http(server: Server) -> Callable[[], None]:
    connection = http.client.HTTPConnection("127.0.0.1", server.ports["http"], timeout=20)
    headers = {"ce-specversion": "1.0", "ce-id": "1", "ce-type": "t", "ce-source": "/s"}

    def publish() -> None:
        connection.request("POST", f"/topics/{TOPIC}:publish", b"m" * 100, headers)
        connection.getresponse().read()

    return publish


def _p99(waits: list[float]) -> float:
    return sorted(waits)[int(len(waits) * 0.99)]
