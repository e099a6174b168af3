"""A store over the wire beside the same store in one process, and gateways with a broker beside the server.

Both sides take turns in one run. The broker is a child of this process: the CPU of both is counted.
"""

from __future__ import annotations

import asyncio
import gc
import json
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import structlog
import uvloop
from rich.console import Console

from benchmarks.processes import ENTREPOT, Server, entrepot, gwload, running
from benchmarks.report import Goal, Report
from benchmarks.store_parts import (
    APPEND_BATCH,
    BODY_BYTES,
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
from entrepot.domain.cluster_trust import NO_TRUST, ClusterTrust
from entrepot.domain.message import Message
from entrepot.domain.ports import Store
from entrepot.domain.topic import Topic
from entrepot.gateway.clock import SystemClock
from entrepot.protocols.wire import store_rows as rows
from entrepot.store_client.remote import RemoteSettings, RemoteStore, open_remote

FAN_IN: Final = ("--pubs", "100", "--topics", "10", "--size", "200", "--qos", "1", "--warmup", "2000")
PINGS: Final = 3000


def run(console: Console, *, quick: bool) -> Report:
    """Run all of it."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    rounds, messages = (1, 100_000) if quick else (5, 400_000)
    report = Report("remote", f"Over the wire beside in one process: {BODY_BYTES} B messages", "in one process")
    found: dict[str, list[dict[str, float]]] = {"embedded": [], "remote": []}
    for number in range(rounds):
        console.print(f"append and pop, round {number + 1} of {rounds}", style="dim")
        found["embedded"].append(uvloop.run(_embedded(messages)))
        with broker() as server:
            found["remote"].append(uvloop.run(remote_figures(server, messages)))
    for name, what in (
        ("append", f"append in batches of {APPEND_BATCH}"),
        ("pop", f"pop {POP_BATCH} and acknowledge"),
    ):
        wall, cpu = (_pair(found, f"{name}_{unit}") for unit in ("wall", "cpu"))
        report.add(what, "msg/s", messages / wall[0], messages / wall[1], judged="ratio", goal=Goal(0.6))
        report.add(what, "msg/CPU-s", messages / cpu[0], messages / cpu[1])
    report.add("round trip, p50", "ms", _pair(found, "trip")[0], goal=Goal(0.5, at_most=True))
    trip, own = _pair(found, "durable")
    report.add("one message, durable, p50", "ms", trip, own)
    console.print("two gateways and a broker beside the server", style="dim")
    for window in ("20", "1"):
        _gateways(report, window, 1 if quick else 3)
    report.notes.append(f"medians of {rounds}; the client of the wire and the broker share the cores")
    report.notes.append("ours: over the wire; fan-in: 100 publishers, and CPU of all processes of a side")
    return report


def _pair(found: dict[str, list[dict[str, float]]], name: str) -> tuple[float, float]:
    """Medians over the wire and in one process."""
    over, own = ([each[name] for each in found[side] if name in each] for side in ("remote", "embedded"))
    return statistics.median(over), statistics.median(own) if own else 0.0


async def _embedded(count: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory(prefix="entrepot-bench-") as directory:
        broker = await Broker.open(BrokerSettings(Path(directory)), SystemClock())
        figures = await _figures(broker, count)
        await broker.close()
        return figures


async def remote_figures(server: Server, count: int, trust: ClusterTrust = NO_TRUST) -> dict[str, float]:
    """Return seconds, of this process and the broker, for appending and popping so many messages; round trips in ms."""
    address = f"127.0.0.1:{server.ports['broker']}"
    store = await open_remote(RemoteSettings(brokers=[address], trust=trust), SystemClock())
    figures = await _figures(store, count)
    figures["trip"] = await _round_trip(store)
    await store.close()
    return figures


async def _figures(store: Store, count: int) -> dict[str, float]:
    await store.topology.put_topic(Topic(TOPIC, queues=QUEUES))
    messages = make_messages(count)
    gc.collect()
    gc.freeze()
    figures: dict[str, float] = {}
    figures["append_cpu"], figures["append_wall"] = await timed(lambda: append_all(store, messages))
    messages.clear()
    gc.unfreeze()
    gc.collect()
    figures["pop_cpu"], figures["pop_wall"] = await timed(lambda: consume_all(store, count))
    figures["durable"] = await _durable(store)
    return figures


async def _round_trip(store: RemoteStore) -> float:
    """Median time of questions that the broker answers at once, one after the other."""
    [client] = store.cluster.ready
    taken = []
    for _ in range(PINGS):
        begun = time.perf_counter()
        await client.ask(rows.BOUNDS.ask(TOPIC))
        taken.append((time.perf_counter() - begun) * 1000)
    return statistics.median(taken)


async def _durable(store: Store) -> float:
    """Median of appending one message and waiting for its confirm."""
    loop, taken = asyncio.get_running_loop(), []
    for _ in range(PINGS // 3):
        future: asyncio.Future[None] = loop.create_future()
        begun = time.perf_counter()
        confirmation = store.messages.append([Message(TOPIC, b"x" * BODY_BYTES, queue_id=0)])
        confirmation.when_settled(lambda failure, future=future: future.set_result(None))  # type: ignore[misc]
        await future
        taken.append((time.perf_counter() - begun) * 1000)
    return statistics.median(taken)


def _gateways(report: Report, window: str, rounds: int) -> None:
    ours, theirs = [], []
    for _ in range(rounds):
        arguments = ("--duration", "3", "--window", window)
        with entrepot() as server:
            theirs.append(gwload(server, "mqtt", *FAN_IN, *arguments))
        with _deployment() as server:
            ours.append(gwload(server, "mqtt", *FAN_IN, *arguments))
    what = f"two gateways, one broker: MQTT QoS 1 fan-in, window {window}"
    for name, unit, goal in (("pub_per_cpu_s", "msg/CPU-s", Goal(0.5)), ("pub_rate", "msg/s", None)):
        over, own = (statistics.median(each[name] for each in side) for side in (ours, theirs))
        report.add(what, unit, over, own, judged="ratio", goal=goal)


@contextmanager
def broker(secret: str = "") -> Iterator[Server]:
    """A broker with an empty store, and the secret of a cluster."""
    with tempfile.TemporaryDirectory(prefix="entrepot-bench-") as directory:
        command = _broker_command(directory)
        command += ["--set", f"cluster.secret={secret}"] if secret else []
        with running("broker", command, Path(directory) / "broker.json") as server:
            yield server


def _broker_command(directory: str) -> list[str]:
    ready = f"{directory}/broker.json"
    command = [*ENTREPOT, "broker", "--data-dir", f"{directory}/data", "--name", "broker-0", "--port", "0"]
    return [*command, "--ready-file", ready, "--set", "log.level=warning"]


@contextmanager
def _deployment() -> Iterator[Server]:
    """A broker and two gateways that share a port, as children of one process whose CPU is counted."""
    with tempfile.TemporaryDirectory(prefix="entrepot-bench-") as directory:
        broker = _broker_command(directory)
        ready = Path(directory) / "gateways.json"
        gateways = [*ENTREPOT, "gateway", "--workers", "2", "--free-ports", "--ready-file", str(ready)]
        script = (
            "import json, signal, subprocess, sys, time, pathlib\n"
            "signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))\n"
            "broker, gateways, directory = json.loads(sys.argv[1])\n"
            "first = subprocess.Popen(broker)\n"
            "ready = pathlib.Path(directory, 'broker.json')\n"
            "try:\n"
            "    while not ready.exists(): time.sleep(0.02)\n"
            "    where = json.loads(ready.read_bytes())['broker']\n"
            "    second = subprocess.Popen([*gateways, '--broker', where, '--set', 'log.level=warning'])\n"
            "    second.wait()\n"
            "finally:\n"
            "    second.terminate(); second.wait(); first.terminate(); first.wait()\n"
        )
        command = [ENTREPOT[0], "-c", script, json.dumps([broker, gateways, directory])]
        with running("two gateways and a broker", command, ready) as server:
            yield server
