"""Growth of a server: its start and scrape by topics, and its connections, each with the longest wait of others."""

from __future__ import annotations

import http.client
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final, Protocol

import uvloop

from benchmarks.growth_store import TIMES, Row
from benchmarks.neighbour_abuses import Client
from benchmarks.processes import ENTREPOT, Server, cpu_seconds, own_resident_bytes, running
from entrepot.broker.broker import Broker
from entrepot.broker.settings.store import BrokerSettings
from entrepot.domain.definitions.consumer_group import ConsumerGroup
from entrepot.domain.topic import Topic
from entrepot.gateway.clock import SystemClock
from entrepot.protocols.mqtt.packets import Publish


class Add(Protocol):
    """Takes a figure. `is_each`: the cost of one operation, which must not grow."""

    def __call__(self, what: str, unit: str, value: float, *, is_each: bool = False) -> None: ...


def adding_to(rows: list[Row], name: str, count: int) -> Add:
    """Return the sink of the figures of one dimension at one size."""

    def add(what: str, unit: str, value: float, *, is_each: bool = False) -> None:
        rows.append((name, what, unit, count, value, is_each))

    return add


PAUSE_SECONDS: Final = 0.004
REST_SECONDS: Final = 5.0
PATHS: Final = {
    "/metrics": "scrape /metrics",
    "/api/v1/topics?limit=50": "a page of topics",
    "/api/v1/overview": "the overview",
}


def topics_of_a_server(quick: bool) -> list[Row]:
    """A server with topics of four queues and as many groups."""
    return [row for times in TIMES for row in _with_topics(times * (10 if quick else 100))]


def connections_of_a_server(quick: bool) -> list[Row]:
    """A server with MQTT connections that do nothing."""
    return [row for times in TIMES for row in _with_connections(times * (5 if quick else 50))]


PARTS: Final = (topics_of_a_server, connections_of_a_server)


@contextmanager
def server_of(data: Path) -> Iterator[Server]:
    ready = data.parent / "ready.json"
    command = [*ENTREPOT, "serve", "--free-ports", "--data-dir", str(data), "--ready-file", str(ready)]
    with running("entrepot", [*command, "--set", "log.level=warning"], ready) as server:
        yield server
    ready.unlink(missing_ok=True)


def _with_topics(count: int) -> list[Row]:
    rows: list[Row] = []
    add = adding_to(rows, "topics of 4 queues with groups, at a server", count)
    with tempfile.TemporaryDirectory(prefix="entrepot-bench-") as directory:
        data = Path(directory) / "data"
        uvloop.run(_plant(data, count))
        with server_of(data) as server:
            add("CPU of a start", "s", cpu_seconds(server.pid))
            add("memory of the server", "MiB", own_resident_bytes(server.pid) / (1 << 20))
            add("CPU at rest", "% of a core", 100 * rest(server))
            for path, what in PATHS.items():
                cpu, waited = beside(server, lambda path=path: get(server, path))  # type: ignore[misc]
                add(f"CPU of {what}", "ms", cpu * 1000)
                add(f"longest PUBACK beside {what}", "ms", waited, is_each=path == "/metrics")
        begun = time.perf_counter()
        with server_of(data):
            add("start until ready", "s", time.perf_counter() - begun)
            begun = time.perf_counter()
        add("stop", "s", time.perf_counter() - begun)
    return rows


async def _plant(data: Path, count: int) -> None:
    broker = await Broker.open(BrokerSettings(data, flush_async=True), SystemClock())
    for start in range(0, count, 1000):
        await broker.topology.put_topics([Topic(f"t{n}") for n in range(start, min(start + 1000, count))])
    for number in range(count):
        await broker.topology.put_group(ConsumerGroup(f"g{number}"))
    await broker.close()


def _with_connections(count: int) -> list[Row]:
    name = "idle MQTT connections"
    with ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="entrepot-bench-"))
        server = stack.enter_context(server_of(Path(directory) / "data"))
        stack.callback(Client(server.ports, "first").close)
        before, cpu = own_resident_bytes(server.pid), cpu_seconds(server.pid)
        for number in range(count):
            stack.callback(Client(server.ports, f"c{number}").close)
        made, grown = cpu_seconds(server.pid) - cpu, own_resident_bytes(server.pid) - before
        resting = rest(server)
        cpu, waited = beside(server, lambda: get(server, "/metrics"))
    return [
        (name, "memory of each", "KiB", count, max(grown, 1) / count / 1024, True),
        (name, "CPU of one connect", "us", count, made / count * 1e6, True),
        (name, "CPU at rest", "% of a core", count, 100 * resting, False),
        (name, "CPU of a scrape", "ms", count, cpu * 1000, False),
        (name, "longest PUBACK beside a scrape", "ms", count, waited, True),
    ]


def rest(server: Server) -> float:
    """Share of a core that a server takes which nobody asks for anything."""
    before = cpu_seconds(server.pid)
    time.sleep(REST_SECONDS)
    return (cpu_seconds(server.pid) - before) / REST_SECONDS


def beside(server: Server, work: Callable[[], None]) -> tuple[float, float]:
    """CPU seconds of some work, less those of the same time before it, and the longest PUBACK meanwhile in ms."""
    waits: list[float] = []
    is_over = threading.Event()
    client = Client(server.ports, f"probe-{time.monotonic_ns()}")

    def probe() -> None:
        while not is_over.is_set():
            begun = time.perf_counter()
            client.say(Publish("probe/puback", b"x", 1, 1))
            client.hear()
            waits.append((time.perf_counter() - begun) * 1000)
            time.sleep(PAUSE_SECONDS)

    thread = threading.Thread(target=probe)
    thread.start()
    time.sleep(0.5)
    waits.clear()
    before, begun = cpu_seconds(server.pid), time.perf_counter()
    work()
    cpu, took = cpu_seconds(server.pid) - before, time.perf_counter() - begun
    before = cpu_seconds(server.pid)
    longest = max(waits, default=0.0)
    time.sleep(max(took, 0.5))
    beside = (cpu_seconds(server.pid) - before) * took / max(took, 0.5)
    is_over.set()
    thread.join()
    return max(cpu - beside, 0.0), longest


def get(server: Server, path: str) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", server.ports["http"], timeout=60)
    connection.request("GET", path)
    answer = connection.getresponse()
    answer.read()
    assert answer.status == 200, (path, answer.status)
    connection.close()
