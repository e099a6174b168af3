"""The HTTP listener: publishes, batches of CloudEvents, pulls, webhooks, and the cost of subscriptions.

Confirmed publishes are beside an empty ASGI app on the same server; the subscriptions match nothing.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import time
from typing import Any, Final

import uvloop
from rich.console import Console

from benchmarks import http_consuming as consuming
from benchmarks.processes import BenchmarkError, Server, bare_asgi, cpu_seconds, entrepot, gwload
from benchmarks.report import Goal, Report

PATH: Final = "/topics/bench:publish"
W11: Final = ("--pub-proto", "http", "--sub-proto", "none", "--pubs", "64", "--window", "1", "--size", "200")
EVENTS_IN_BATCH: Final = 100
CONNECTIONS: Final = 8


def run(console: Console, *, quick: bool) -> Report:
    """Run all of it, rounds alternating."""
    rounds, seconds = (1, 2) if quick else (3, 3)
    arguments = (*W11, "--path", PATH, "--topics", "1", "--duration", str(seconds), "--warmup", "2000")
    report = Report("http", "HTTP: CloudEvents, durable before the answer", "empty ASGI app")
    ours: list[dict[str, Any]] = []
    theirs: list[dict[str, Any]] = []
    batches: list[tuple[float, float]] = []
    for number in range(rounds):
        console.print(f"round {number + 1} of {rounds}", style="dim")
        with entrepot() as server:
            ours.append(gwload(server, "http", *arguments))
        with bare_asgi() as server:
            theirs.append(gwload(server, "http", *arguments))
        with entrepot() as server:
            batches.append(uvloop.run(in_batches(server, seconds)))
    what = "binary publish, 64 connections, one request each"
    for name, unit, goal in (("pub_per_cpu_s", "requests/CPU-s", Goal(0.6)), ("pub_rate", "requests/s", None)):
        mine, peer = (statistics.median(found[name] for found in figures) for figures in (ours, theirs))
        report.add(what, unit, mine, peer, judged="ratio", goal=goal)
    what = f"batches of {EVENTS_IN_BATCH}, {CONNECTIONS} connections"
    report.add(what, "events/s", statistics.median(rate for rate, _ in batches), goal=Goal(100_000))
    report.add(what, "events/CPU-s", statistics.median(per_cpu for _, per_cpu in batches))
    _add_consuming(report, console, quick=quick)
    _add_subscriptions(report, console, quick=quick)
    report.notes.append(f"medians of {rounds}; uvicorn with httptools and uvloop on both sides")
    return report


def _add_consuming(report: Report, console: Console, *, quick: bool) -> None:
    """Add pulls with acknowledgement, and webhooks."""
    console.print("pull, webhooks", style="dim")
    count = 10_000 if quick else 60_000
    with entrepot() as server:
        rate, per_cpu = uvloop.run(consuming.pulled(server, count))
    report.add("pull and acknowledge by 100", "events/s", rate, goal=Goal(50_000))
    report.add("pull and acknowledge by 100", "events/CPU-s", per_cpu)
    for mode, share in (("batched", 2), ("binary", 8)):
        with entrepot(*consuming.WEBHOOK_FLAGS) as server:
            rate, per_cpu = uvloop.run(consuming.delivered(server, count // share, mode))
        what = f"webhook, {mode}, published, dispatched, delivered"
        report.add(what, "events/s", rate, goal=Goal(5_000) if mode == "batched" else None)
        report.add(what, "events/CPU-s", per_cpu)


def _add_subscriptions(report: Report, console: Console, *, quick: bool) -> None:
    counts, seconds = ((1, 10, 100), 1) if quick else ((1, 100, 10_000), 5)
    console.print(f"subscriptions: {', '.join(map(str, counts))}", style="dim")

    async def curve(server: Server) -> None:
        made = 0
        for count in counts:
            await consuming.subscribed(server, made, count)
            made = count
            median_ms, per_cpu = await consuming.publish_cost(server, seconds)
            what = f"{count:,} subscriptions that do not match, batches of 100"
            report.add(what, "ms until confirmed", median_ms)
            report.add(what, "events/CPU-s, dispatch included", per_cpu)

    with entrepot(*consuming.WEBHOOK_FLAGS) as server:
        uvloop.run(curve(server))


def batch_request() -> bytes:
    """A whole POST request of a batch in JSON."""
    events = [
        {
            "specversion": "1.0",
            "id": f"event-{number}",
            "source": "/benchmark",
            "type": "dev.entrepot.benchmark",
            "subject": f"line{number % 10}",
            "datacontenttype": "application/json",
            "data": {"temperature": 21.5, "humidity": 40, "note": "x" * 150},
        }
        for number in range(EVENTS_IN_BATCH)
    ]
    body = json.dumps(events, separators=(",", ":")).encode()
    head = (
        f"POST {PATH} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/cloudevents-batch+json\r\n"
        f"content-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def in_batches(server: Server, seconds: float) -> tuple[float, float]:
    """Publish in batches; return (events per second, events per CPU-second of the server)."""
    request = batch_request()
    answered = 0
    is_over = False

    async def client() -> None:
        nonlocal answered
        reader, writer = await asyncio.open_connection("127.0.0.1", server.ports["http"])
        while not is_over:
            writer.write(request)
            head = await reader.readuntil(b"\r\n\r\n")
            length = _content_length(head)
            body = await reader.readexactly(length) if length else b""
            if not head.startswith(b"HTTP/1.1 2"):
                raise BenchmarkError(f"a batch was refused: {(head + body)[:300]!r}")
            answered += 1
        writer.close()

    async def measured() -> tuple[int, float, float]:
        nonlocal is_over
        await asyncio.sleep(0.5)  # the topic is there, caches are warm
        before, cpu, begun = answered, cpu_seconds(server.pid), time.perf_counter()
        await asyncio.sleep(seconds)
        found = answered - before, cpu_seconds(server.pid) - cpu, time.perf_counter() - begun
        is_over = True
        return found

    clients = asyncio.gather(*(client() for _ in range(CONNECTIONS)))
    (count, cpu, wall), _ = await asyncio.gather(measured(), clients)
    return count * EVENTS_IN_BATCH / wall, count * EVENTS_IN_BATCH / max(cpu, 0.01)


def _content_length(head: bytes) -> int:
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return int(line[15:])
    return 0
