"""Management requests: CPU of operations of the table, without sockets, beside a FastAPI with as many routes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import MutableMapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import structlog
from fastapi import FastAPI
from rich.console import Console

from benchmarks.report import Goal, Report
from entrepot.gateway.http.requests.asgi import AsgiApp
from entrepot.gateway.settings import Settings
from tests.support.http.server import serving

PATHS: Final = {
    "a namespace": "/api/v1/namespaces/default",
    "all gateways": "/api/v1/gateways",
    "the audit log": "/api/v1/audit?limit=1",
    "an unknown path": "/api/v1/nothing/here",
}
ROUTES: Final = 240
"""Routes of the other app: as many as this door has."""


def run(console: Console, *, quick: bool) -> Report:
    """Run all of it in seconds."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    rounds, requests = (2, 50) if quick else (9, 300)
    report = Report("management", "CPU of a management request", "FastAPI")
    with TemporaryDirectory() as directory, serving("memory", Path(directory), Settings()) as server:
        found = server.run(_measured(server, rounds, requests))
    for what in PATHS:
        ours, theirs = found["ours", what], found["theirs", what]
        report.add(what, "us", ours, theirs, judged="ratio", goal=Goal(0.5, at_most=True))
    unknown, known = found["ours", "an unknown path"], found["ours", "a namespace"]
    report.add("an unknown path beside a known one", "us", unknown, known, judged="ratio", goal=Goal(1.0, at_most=True))
    report.notes.append(
        f"least of {rounds} rounds of {requests} requests; theirs: the last of {ROUTES} routes, no rights"
    )
    return report


async def _measured(server: Any, rounds: int, requests: int) -> dict[tuple[str, str], float]:
    apps: dict[str, AsgiApp] = {"ours": server.door.app.asgi, "theirs": _fastapi()}
    found: dict[tuple[str, str], float] = {}
    for _ in range(rounds):
        for what, path in PATHS.items():
            for name, app in apps.items():
                took = await _cpu(app, path, requests)
                found[name, what] = min(took, found.get((name, what), took))
    return found


def _fastapi() -> AsgiApp:
    app = FastAPI(redirect_slashes=False)
    for number in range(ROUTES - len(PATHS)):
        app.get(f"/api/v1/noun{number}/{{name}}")(_row)
    for path in (each.partition("?")[0] for what, each in PATHS.items() if what != "an unknown path"):
        app.get(path)(_row)
    return app


async def _row() -> dict[str, Any]:
    return {"name": "default", "topics": 0}


async def _cpu(app: AsgiApp, path: str, requests: int) -> float:
    """Microseconds of a request."""

    async def receive() -> MutableMapping[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: MutableMapping[str, Any]) -> None: ...

    begun = time.thread_time()
    for _ in range(requests):
        await app(_scope(path), receive, send)
    await asyncio.sleep(0)
    return (time.thread_time() - begun) / requests * 1e6


def _scope(path: str) -> dict[str, Any]:
    plain, _, query = path.partition("?")
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": plain,
        "raw_path": plain.encode(),
        "query_string": query.encode(),
        "headers": [(b"host", b"localhost")],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
        "root_path": "",
    }
