"""Things that a server keeps, and their use: sessions that are away, retained messages, AMQP queues with bindings.

Each function fills a data directory with so many, starts a server over it, and tells figures to `add`.
"""

from __future__ import annotations

import http.client
import json
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

import uvloop

from benchmarks import large_data
from benchmarks.growth_server import Add, adding_to, beside, get, rest, server_of
from benchmarks.growth_store import TIMES, Row
from benchmarks.neighbour_abuses import Client
from benchmarks.processes import BenchmarkError, Server, cpu_seconds, own_resident_bytes
from entrepot.protocols.mqtt.packets import Puback, Publish, Subscribe, Subscription
from entrepot.protocols.mqtt.properties import PropertyId

NEW_SESSIONS: Final = 200
CALLS: Final = 100
QUEUES_PAGE: Final = "/api/queues?page=1&page_size=100"
AT_ONCE: Final = 1_000
BINDINGS_OF_A_QUEUE: Final = 10
BELOW: Final = 1_000
"""Retained messages that a subscription to some of them gets, at most."""


@contextmanager
def started(add: Add, data: Path) -> Iterator[Server]:
    """A server over the data; its start, its memory and its rest are told."""
    begun = time.perf_counter()
    with server_of(data) as server:
        add("start until ready", "s", time.perf_counter() - begun)
        add("CPU of the start", "s", cpu_seconds(server.pid))
        add("memory", "MiB", own_resident_bytes(server.pid) / (1 << 20))
        add("CPU at rest", "% of a core", 100 * rest(server))
        yield server


def add_beside(add: Add, what: str, server: Server, work: Callable[[], None], times: int = 1) -> None:
    """Tell the CPU of some work done so many times, and the longest wait of a publisher beside it."""
    cpu, waited = beside(server, work)
    add(f"CPU of {what}", "ms", cpu * 1000 / times, is_each=times > 1)
    add(f"longest PUBACK beside {what}", "ms", waited)


def sessions(add: Add, data: Path, count: int) -> None:
    """Sessions that are away."""
    uvloop.run(large_data.sessions(data, count))
    lasting = {PropertyId.SESSION_EXPIRY_INTERVAL: 3600}

    def connect(name: str, *, is_new: bool) -> None:
        for number in range(NEW_SESSIONS):
            client = Client(server.ports, name.format(number), clean_start=False, properties=lasting)
            if is_new:
                client.say(Subscribe(1, [Subscription(f"plant/{number}/state", 1)]))
                client.hear()
            client.close()

    with started(add, data) as server:
        for title, name, is_new in (("a new one", "new-{}", True), ("one that is back", "away-{:07}", False)):
            add_beside(add, title, server, partial(connect, name, is_new=is_new), NEW_SESSIONS)
        add_beside(add, "a page of 50", server, lambda: get(server, "/api/v1/sessions?limit=50"))
        add_beside(add, "a scrape", server, lambda: get(server, "/metrics"))


def retained(add: Add, data: Path, count: int) -> None:
    """Retained messages."""
    uvloop.run(large_data.retained(data, count))
    with started(add, data) as server:
        client = Client(server.ports, "reader")
        below = min(count, BELOW)
        add_beside(add, "a subscription to a thousand", server, lambda: _read(client, "plant/0/#", below))
        add_beside(add, "one to a single name", server, lambda: _read(client, "plant/0/dev/7", 1))
        begun = time.perf_counter()
        add_beside(add, "one to all of them", server, lambda: _read(client, "plant/#", count))
        add("all of them", "msg/s", count / (time.perf_counter() - begun))
        add_beside(add, "a new one", server, lambda: _retain(client), CALLS)
        add_beside(add, "a scrape", server, lambda: get(server, "/metrics"))
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


def queues(add: Add, data: Path, count: int) -> None:
    """AMQP queues, each with bindings to one exchange."""
    bindings = BINDINGS_OF_A_QUEUE * count
    with server_of(data) as server:
        before, begun = cpu_seconds(server.pid), time.perf_counter()
        _post(server, {"exchanges": [{"name": "x", "vhost": "/", "type": "topic", "durable": True}]})
        for start in range(0, count, AT_ONCE):
            some = range(start, min(start + AT_ONCE, count))
            _post(server, {"queues": [{"name": f"q{n}", "vhost": "/", "durable": True} for n in some]})
        for start in range(0, bindings, AT_ONCE):
            _post(server, {"bindings": [_binding(n, count) for n in range(start, min(start + AT_ONCE, bindings))]})
        add("import", "s", time.perf_counter() - begun)
        add("CPU of a definition", "us", (cpu_seconds(server.pid) - before) / (count + bindings) * 1e6, is_each=True)
    with started(add, data) as server:
        add_beside(add, "a publish to one queue", server, lambda: _publish(server, CALLS), CALLS)
        add_beside(add, "a page of queues", server, lambda: get(server, QUEUES_PAGE))
        add_beside(add, "one more binding", server, lambda: _bind(server, CALLS), CALLS)
        add_beside(add, "a scrape", server, lambda: get(server, "/metrics"))


def _binding(number: int, queues: int) -> dict[str, object]:
    key = f"plant.{number // 1000}.dev.{number}.#"
    return {
        "source": "x", "vhost": "/", "destination": f"q{number % queues}", "destination_type": "queue",
        "routing_key": key, "arguments": {},
    }  # fmt: skip


def _post(server: Server, definitions: dict[str, object]) -> None:
    request(server, "/api/definitions", definitions)


def _publish(server: Server, times: int) -> None:
    for number in range(times):
        body = {
            "properties": {},
            "routing_key": f"plant.0.dev.{number}.state",
            "payload": "x",
            "payload_encoding": "string",
        }
        assert json.loads(request(server, "/api/exchanges/%2F/x/publish", body)) == {"routed": True}


def _bind(server: Server, times: int) -> None:
    for number in range(times):
        request(server, "/api/bindings/%2F/e/x/q/q0", {"routing_key": f"more.{number}", "arguments": {}})


def request(server: Server, path: str, body: object) -> bytes:
    connection = http.client.HTTPConnection("127.0.0.1", server.ports["http"], timeout=120)
    connection.request("POST", path, json.dumps(body), {"content-type": "application/json"})
    answer = connection.getresponse()
    found = answer.read()
    if answer.status >= http.client.MULTIPLE_CHOICES:
        raise BenchmarkError(f"{path}: {answer.status} {found[:300]!r}")
    connection.close()
    return found


# -- at three sizes ------------------------------------------------------------------------------------------------


def sessions_of_a_server(quick: bool) -> list[Row]:
    """A server with MQTT sessions that are away."""
    return [row for times in TIMES for row in _rows(sessions, "sessions away", times * (100 if quick else 1_000))]


def retained_of_a_server(quick: bool) -> list[Row]:
    """A server with retained messages."""
    return [row for times in TIMES for row in _rows(retained, "retained messages", times * (100 if quick else 1_000))]


def queues_of_a_server(quick: bool) -> list[Row]:
    """A server with AMQP queues, each with bindings."""
    what = f"AMQP queues with {BINDINGS_OF_A_QUEUE} bindings"
    return [row for times in TIMES for row in _rows(queues, what, times * (10 if quick else 50))]


PARTS: Final = (sessions_of_a_server, retained_of_a_server, queues_of_a_server)


def _rows(kept: Callable[[Add, Path, int], None], name: str, count: int) -> list[Row]:
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="entrepot-bench-") as directory:
        kept(adding_to(rows, name, count), Path(directory) / "data", count)
    return rows
