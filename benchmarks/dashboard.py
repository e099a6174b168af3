"""The dashboard: first pages of long lists, and the cost of watching beside a scrape of the metrics each second."""

from __future__ import annotations

import asyncio
import json
import statistics
import time
from collections.abc import Awaitable
from typing import Final

from rich.console import Console

from benchmarks.http_consuming import Connection
from benchmarks.processes import BenchmarkError, Server, cpu_seconds, entrepot
from benchmarks.report import Goal, Report

TOPICS: Final = 10_000
QUEUES: Final = 10_000
CONNECTIONS: Final = 10_000
"""As many as a client of one process may open; each gateway answers for its own."""
CALL: Final = 1_000
CONNECTING: Final = 200
TRIES: Final = 5
WATCHERS: Final = 10
SECONDS: Final = 20
PAGE_MS: Final = 500
PAGES: Final = {
    "topics": "/api/v1/topics?limit=50",
    "topics whose name contains a word": "/api/v1/topics?limit=50&contains=999",
    "groups": "/api/v1/groups?limit=50",
    "AMQP queues": "/api/queues?page=1&page_size=50",
    "MQTT clients": "/api/v1/clients?limit=50",
    "subscriptions of MQTT clients": "/api/v1/subscriptions?limit=50",
    "slow subscribers": "/api/v1/slow-subscribers?limit=50",
    "the overview": "/api/v1/overview",
}


def run(console: Console, *, quick: bool) -> Report:
    """Measure all of it against one server."""
    report = Report("dashboard", "The dashboard's pages")
    part = 10 if quick else 1
    with entrepot("--set", "grpc.enabled=false") as server:
        asyncio.run(_measure(server, report, console, part))
    return report


async def _measure(server: Server, report: Report, console: Console, part: int) -> None:
    connection = await Connection.open(server)
    console.print("dashboard: making topics, queues, connections", style="dim")
    await _make(connection, TOPICS // part, QUEUES // part)
    clients = await _connect(server, CONNECTIONS // part)
    here = f"{TOPICS // part:,} topics, {QUEUES // part:,} queues, {len(clients):,} connections"
    for name, path in PAGES.items():
        taken = []
        for _ in range(TRIES):
            begun = time.perf_counter()
            await connection.ask(path, b"", method="GET")
            taken.append((time.perf_counter() - begun) * 1000)
        report.add(f"first page of {name}", "ms", statistics.median(taken), goal=Goal(PAGE_MS, at_most=True))
    idle = await _cost(server, asyncio.sleep(SECONDS / part))
    scraped = await _cost(server, _scrape(connection, round(SECONDS / part)))
    watched = await _cost(server, _watch(server, SECONDS / part))
    what = f"{WATCHERS} browsers watch (ours), one scrape a second (peer), idle server included"
    report.add(what, "CPU-s/s", watched, scraped, judged="ratio", goal=Goal(1, at_most=True))
    report.notes.append(f"One server with {here}; an idle second costs {idle:.3f} CPU-s.")
    for writer in clients:
        writer.close()


async def _make(connection: Connection, topics: int, queues: int) -> None:
    for first in range(0, topics, CALL):
        named = [{"name": f"topic{number:05}"} for number in range(first, min(first + CALL, topics))]
        await connection.ask("/api/v1/topics", json.dumps({"value": named}).encode(), method="PUT")
        for each in named[:100]:
            await connection.ask(f"/api/v1/groups/of-{each['name']}", b"{}", method="PUT")
    for first in range(0, queues, CALL):
        of_call = [
            {"name": f"queue{number:05}", "vhost": "/", "durable": True, "auto_delete": False, "arguments": {}}
            for number in range(first, min(first + CALL, queues))
        ]
        await connection.ask("/api/definitions", json.dumps({"queues": of_call}).encode())


async def _connect(server: Server, count: int) -> list[asyncio.StreamWriter]:
    """MQTT 3.1.1 clients with one subscription each."""

    async def one(number: int) -> asyncio.StreamWriter:
        name = b"client%06d" % number
        body = b"\x00\x04MQTT\x04\x02\x00\x00" + len(name).to_bytes(2, "big") + name
        reader, writer = await asyncio.open_connection("127.0.0.1", server.ports["mqtt"])
        writer.write(b"\x10" + bytes([len(body)]) + body)
        if (await reader.readexactly(4))[3] != 0:
            raise BenchmarkError("a client was refused")
        topic = b"topic%05d/#" % (number % 100)
        writer.write(b"\x82" + bytes([5 + len(topic)]) + b"\x00\x01" + len(topic).to_bytes(2, "big") + topic + b"\x00")
        await reader.readexactly(5)
        return writer

    found: list[asyncio.StreamWriter] = []
    for first in range(0, count, CONNECTING):
        found += await asyncio.gather(*(one(number) for number in range(first, min(first + CONNECTING, count))))
    return found


async def _cost(server: Server, work: Awaitable[None]) -> float:
    """CPU seconds of the server in a second of this work."""
    before, begun = cpu_seconds(server.pid), time.perf_counter()
    await work
    return (cpu_seconds(server.pid) - before) / (time.perf_counter() - begun)


async def _scrape(connection: Connection, times: int) -> None:
    for _ in range(times):
        begun = time.perf_counter()
        await connection.ask("/metrics", b"", method="GET")
        await asyncio.sleep(max(1 - (time.perf_counter() - begun), 0))


async def _watch(server: Server, seconds: float) -> None:
    async def one() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.ports["http"], limit=1 << 24)
        writer.write(b"GET /api/v1/overview:watch HTTP/1.1\r\nhost: localhost\r\n\r\n")
        try:
            async with asyncio.timeout(seconds):
                while await reader.read(1 << 16):
                    pass
        except TimeoutError:
            writer.close()

    await asyncio.gather(*(one() for _ in range(WATCHERS)))
