"""Very much of one thing at once, each at a server of its own: what it costs, and how long others wait meanwhile.

50,000 connections over two gateways, a million sessions that are away, a million retained messages, 10,000 AMQP queues
with 100,000 bindings, a log of 10 GB, a backlog of 5,000,000 in one group.  Data come from `large_data`.  It takes some
twenty minutes and 15 GB of disk; a quick run has a hundredth of each.
"""

from __future__ import annotations

import http.client
import json
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Final

import uvloop
from rich.console import Console

from benchmarks import large_data
from benchmarks.growth_server import beside, get, rest, server_of
from benchmarks.neighbour_abuses import Client
from benchmarks.processes import (
    ENTREPOT,
    ROOT,
    BenchmarkError,
    Server,
    children,
    cpu_seconds,
    own_resident_bytes,
    running,
)  # fmt: skip
from benchmarks.report import Goal, Report
from benchmarks.store_parts import GROUP, TOPIC, consume_all, timed
from entrepot.protocols.mqtt.packets import Puback, Publish, Subscribe, Subscription
from entrepot.protocols.mqtt.properties import PropertyId

CONNECTIONS, SESSIONS, RETAINED = 50_000, 1_000_000, 1_000_000
QUEUES, BINDINGS, AT_ONCE = 10_000, 100_000, 1_000
LOG_BYTES, BACKLOG = 10 << 30, 5_000_000
WORKERS: Final = 2
"""Processes of each gateway: a process may have as many files open as the system allows, often 20,000."""
CROWDS: Final = 2
"""Clients of each gateway, with an address of this machine each."""
NEW_SESSIONS: Final = 200
CALLS: Final = 100
QUEUES_PAGE: Final = "/api/queues?page=1&page_size=100"


def run(console: Console, *, quick: bool) -> Report:
    """Run all parts, one after the other."""
    report = Report("large", "Very much of one thing at once")
    share = 100 if quick else 1
    for part, count in (
        (_connections, CONNECTIONS), (_sessions, SESSIONS), (_retained, RETAINED),
        (_queues, QUEUES), (_log, LOG_BYTES), (_backlog, BACKLOG),
    ):  # fmt: skip
        console.print(part.__name__.strip("_"), style="dim")
        with tempfile.TemporaryDirectory(prefix="entrepot-bench-") as directory:
            part(report, Path(directory) / "data", count // share)
    report.notes.append("CPU and memory of a server with all its processes; PUBACK: the longest of a publisher beside")
    return report


@contextmanager
def _started(report: Report, what: str, data: Path) -> Iterator[Server]:
    """A server over the data; its start, its memory and its rest are reported."""
    begun = time.perf_counter()
    with server_of(data) as server:
        report.add(f"{what}: start until ready", "s", time.perf_counter() - begun)
        report.add(f"{what}: CPU of the start", "s", cpu_seconds(server.pid))
        report.add(f"{what}: memory", "MiB", own_resident_bytes(server.pid) / (1 << 20))
        report.add(f"{what}: CPU at rest", "% of a core", 100 * rest(server))
        yield server


def _add_beside(report: Report, what: str, server: Server, work: Callable[[], None], times: int = 1) -> None:
    cpu, waited = beside(server, work)
    report.add(f"{what}: CPU", "ms", cpu * 1000 / times)
    report.add(f"{what}: longest PUBACK", "ms", waited)


# -- connections ---------------------------------------------------------------------------------------------------


def _connections(report: Report, data: Path, count: int) -> None:
    what = f"{count:,} MQTT connections over two gateways"
    with ExitStack() as stack:
        broker = stack.enter_context(
            _process(data, "broker", "broker", "--data-dir", str(data), "--name", "b", "--port", "0")
        )
        where = f"127.0.0.1:{broker.ports['broker']}"
        arguments = ("gateway", "--workers", str(WORKERS), "--free-ports", "--broker", where)
        gateways = [stack.enter_context(_process(data, f"gateway-{n}", *arguments)) for n in range(2)]
        before = [_memory(each) for each in gateways], sum(cpu_seconds(each.pid) for each in gateways)
        begun = time.perf_counter()
        crowds = [
            stack.enter_context(_crowd(gateways[n % 2], count // (2 * CROWDS), f"127.0.1.{n + 1}"))
            for n in range(2 * CROWDS)
        ]
        for crowd in crowds:
            assert crowd.stdout is not None
            if crowd.stdout.readline() != "there\n":
                raise BenchmarkError("a connection was refused")
        report.add(f"{what}: until all are there", "s", time.perf_counter() - begun)
        grown = sum(_memory(each) for each in gateways) - sum(before[0])
        report.add(f"{what}: memory of each", "KiB", grown / count / 1024)
        cpu = sum(cpu_seconds(each.pid) for each in gateways) - before[1]
        report.add(f"{what}: CPU of one connect", "us", cpu / count * 1e6)
        report.add(f"{what}: CPU at rest", "% of a core", 100 * sum(rest(each) for each in gateways))
        _add_beside(report, f"{what}: a scrape", gateways[0], lambda: get(gateways[0], "/metrics"))
        _add_beside(report, f"{what}: the overview", gateways[0], lambda: get(gateways[0], "/api/v1/overview"))
        left = [int(crowd.communicate("")[0]) for crowd in crowds]
        report.add(f"{what}: still there at the end", "", sum(left), goal=Goal(count))


@contextmanager
def _process(data: Path, name: str, *arguments: str) -> Iterator[Server]:
    ready = data.parent / f"{name}.json"
    with running(name, [*ENTREPOT, *arguments, "--ready-file", str(ready), "--set", "log.level=warning"], ready) as one:
        yield one


@contextmanager
def _crowd(server: Server, count: int, source: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "benchmarks.large_clients", str(server.ports["mqtt"]), str(count), source]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as crowd:
        try:
            yield crowd
        finally:
            crowd.kill()


def _memory(server: Server) -> int:
    return own_resident_bytes(server.pid) + sum(map(own_resident_bytes, children(server.pid)))


# -- MQTT ----------------------------------------------------------------------------------------------------------


def _sessions(report: Report, data: Path, count: int) -> None:
    what = f"{count:,} sessions away"
    uvloop.run(large_data.sessions(data, count))
    lasting = {PropertyId.SESSION_EXPIRY_INTERVAL: 3600}

    def connect(name: str, *, is_new: bool) -> None:
        for number in range(NEW_SESSIONS):
            client = Client(server.ports, name.format(number), clean_start=False, properties=lasting)
            if is_new:
                client.say(Subscribe(1, [Subscription(f"plant/{number}/state", 1)]))
                client.hear()
            client.close()

    with _started(report, what, data) as server:
        for title, name, is_new in (("a new one", "new-{}", True), ("one that is back", "away-{:07}", False)):
            _add_beside(report, f"{what}: {title}", server, partial(connect, name, is_new=is_new), NEW_SESSIONS)
        _add_beside(report, f"{what}: a page of 50", server, lambda: get(server, "/api/v1/sessions?limit=50"))
        _add_beside(report, f"{what}: a scrape", server, lambda: get(server, "/metrics"))


def _retained(report: Report, data: Path, count: int) -> None:
    what = f"{count:,} retained messages"
    uvloop.run(large_data.retained(data, count))
    with _started(report, what, data) as server:
        client = Client(server.ports, "reader")
        below = min(count, 1000)
        _add_beside(report, f"{what}: a subscription to {below}", server, lambda: _read(client, "plant/0/#", below))
        _add_beside(report, f"{what}: one to a single name", server, lambda: _read(client, "plant/0/dev/7", 1))
        begun = time.perf_counter()
        _add_beside(report, f"{what}: one to all of them", server, lambda: _read(client, "plant/#", count))
        report.add(f"{what}: all of them", "msg/s", count / (time.perf_counter() - begun))
        _add_beside(report, f"{what}: a new one", server, lambda: _retain(client), CALLS)
        _add_beside(report, f"{what}: a scrape", server, lambda: get(server, "/metrics"))
        client.close()


def _read(client: Client, topic_filter: str, count: int) -> None:
    """Subscribe, and take so many retained messages."""
    client.say(Subscribe(1, [Subscription(topic_filter, 1)]))
    taken = 0
    while taken < count:
        packet = client.hear()
        if isinstance(packet, Publish):
            taken += 1
            client.say(Puback(packet.packet_id))


def _retain(client: Client) -> None:
    for number in range(CALLS):
        client.say(Publish(f"kept/{number}", b"x", 1, number + 1, retain=True))
        client.hear()


# -- AMQP ----------------------------------------------------------------------------------------------------------


def _queues(report: Report, data: Path, count: int) -> None:
    bindings = BINDINGS * count // QUEUES
    what = f"{count:,} AMQP queues with {bindings:,} bindings"
    with server_of(data) as server:
        before, begun = cpu_seconds(server.pid), time.perf_counter()
        _post(server, {"exchanges": [{"name": "x", "vhost": "/", "type": "topic", "durable": True}]})
        for start in range(0, count, AT_ONCE):
            some = range(start, min(start + AT_ONCE, count))
            _post(server, {"queues": [{"name": f"q{n}", "vhost": "/", "durable": True} for n in some]})
        for start in range(0, bindings, AT_ONCE):
            _post(server, {"bindings": [_binding(n, count) for n in range(start, min(start + AT_ONCE, bindings))]})
        report.add(f"{what}: import", "s", time.perf_counter() - begun)
        report.add(f"{what}: CPU of a definition", "us", (cpu_seconds(server.pid) - before) / (count + bindings) * 1e6)
    with _started(report, what, data) as server:
        _add_beside(report, f"{what}: a publish to one queue", server, lambda: _publish(server, CALLS), CALLS)
        _add_beside(
            report, f"{what}: a page of queues", server, lambda: get(server, "/api/queues?page=1&page_size=100")
        )
        _add_beside(report, f"{what}: one more binding", server, lambda: _bind(server, CALLS), CALLS)
        _add_beside(report, f"{what}: a scrape", server, lambda: get(server, "/metrics"))


def _binding(number: int, queues: int) -> dict[str, object]:
    key = f"plant.{number // 1000}.dev.{number}.#"
    return {
        "source": "x", "vhost": "/", "destination": f"q{number % queues}", "destination_type": "queue",
        "routing_key": key, "arguments": {},
    }  # fmt: skip


def _post(server: Server, definitions: dict[str, object]) -> None:
    _request(server, "/api/definitions", definitions)


def _publish(server: Server, times: int) -> None:
    for number in range(times):
        body = {
            "properties": {},
            "routing_key": f"plant.0.dev.{number}.state",
            "payload": "x",
            "payload_encoding": "string",
        }
        assert json.loads(_request(server, "/api/exchanges/%2F/x/publish", body)) == {"routed": True}


def _bind(server: Server, times: int) -> None:
    for number in range(times):
        _request(server, "/api/bindings/%2F/e/x/q/q0", {"routing_key": f"more.{number}", "arguments": {}})


def _request(server: Server, path: str, body: object) -> bytes:
    connection = http.client.HTTPConnection("127.0.0.1", server.ports["http"], timeout=120)
    connection.request("POST", path, json.dumps(body), {"content-type": "application/json"})
    answer = connection.getresponse()
    found = answer.read()
    if answer.status >= http.client.MULTIPLE_CHOICES:
        raise BenchmarkError(f"{path}: {answer.status} {found[:300]!r}")
    connection.close()
    return found


# -- the store -----------------------------------------------------------------------------------------------------


def _log(report: Report, data: Path, size: int) -> None:
    count = size // len(large_data.LARGE_BODY)
    what = f"a log of {size / (1 << 30):,.3g} GiB"
    begun = time.perf_counter()
    uvloop.run(large_data.messages(data, count, large_data.LARGE_BODY))
    report.add(f"{what}: written", "MB/s", size / 1e6 / (time.perf_counter() - begun))
    with _started(report, what, data) as server:
        _add_beside(report, f"{what}: 100 receives", server, lambda: _receive(server, CALLS))
        _add_beside(report, f"{what}: a scrape", server, lambda: get(server, "/metrics"))
        server.process.send_signal(signal.SIGKILL)
        server.process.wait()
        (data.parent / "ready.json").unlink()
    with _started(report, f"{what}, after SIGKILL", data):
        pass
    begun = time.perf_counter()
    command = [*ENTREPOT, "store", "verify", "--data-dir", str(data)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    report.add(f"{what}: entrepot store verify", "s", time.perf_counter() - begun)
    if done.returncode:
        raise BenchmarkError(f"store verify: {done.stdout}{done.stderr}")


def _receive(server: Server, times: int) -> None:
    for _ in range(times):
        found = _request(server, f"/topics/{TOPIC}/eventsubscriptions/{GROUP}:receive?maxEvents=1&maxWaitTime=0", {})
        assert json.loads(found)["value"]


def _backlog(report: Report, data: Path, count: int) -> None:
    what = f"a backlog of {count:,} in one group"
    begun = time.perf_counter()
    uvloop.run(large_data.messages(data, count, b"x" * 100))
    report.add(f"{what}: written", "msg/s", count / (time.perf_counter() - begun))
    with _started(report, what, data) as server:
        _add_beside(report, f"{what}: 100 receives", server, lambda: _receive(server, CALLS))
        _add_beside(report, f"{what}: its status", server, lambda: get(server, f"/api/v1/groups/{GROUP}"))
        _add_beside(report, f"{what}: the overview", server, lambda: get(server, "/api/v1/overview"))
    uvloop.run(_consumed(report, what, data, count - CALLS))


async def _consumed(report: Report, what: str, data: Path, count: int) -> None:
    async with large_data.opened(data) as broker:
        cpu, wall = await timed(lambda: consume_all(broker, count))
        report.add(f"{what}: popped and acknowledged", "msg/s", count / wall)
        report.add(f"{what}: popped and acknowledged", "msg/CPU-s", count / cpu)
        found = await broker.topology.group_status(GROUP)
        left = sum(each.lag for each in found.progress)
        report.add(f"{what}: left at the end", "", left, goal=Goal(0, at_most=True))
