"""A celery application on our server and on RabbitMQ: results, retries, ETA, chords, control, a killed worker."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import pytest
from celery import chain, chord, group  # type: ignore[import-untyped]

from tests.support.amqp import servers as amqp_servers
from tests.support.amqp.celery_app import ANSWER_SECONDS, Deployment, Worker, add, flaky, note, task, total, when
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.interop, pytest.mark.xdist_group("celery")]


@pytest.fixture(scope="module")
def workers(
    amqp_port: Callable[[str], int], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[str, str], Worker]]:
    """A worker for each server and kind of results, begun with its first use."""
    running: dict[tuple[str, str], Worker] = {}
    with ExitStack() as stack:

        def one(server: str, results: str) -> Worker:
            if (server, results) not in running:
                directory = tmp_path_factory.mktemp("celery")
                running[server, results] = stack.enter_context(Worker(_deployed(server, results, directory), directory))
            return running[server, results]

        def _deployed(server: str, results: str, directory: Path) -> Deployment:
            if results == "file":
                (directory / "results").mkdir()
                results = f"file://{directory / 'results'}"
            return Deployment(_url(amqp_port(server)), results, f"celery-{uuid4().hex[:8]}")

        yield one


def _url(port: int) -> str:
    return f"pyamqp://guest:guest@127.0.0.1:{port}//"


@pytest.fixture(params=amqp_servers.NAMES)
def server(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def worker(workers: Callable[[str, str], Worker], server: str) -> Worker:
    """A worker whose results are files."""
    return workers(server, "file")


def test_results_come_back_over_amqp(workers: Callable[[str, str], Worker], server: str) -> None:
    app = workers(server, "rpc://").app
    asked = [task(app, add).delay(n, n) for n in range(20)]
    assert [result.get(timeout=ANSWER_SECONDS) for result in asked] == [2 * n for n in range(20)]


def test_chain_and_group_over_amqp(workers: Callable[[str, str], Worker], server: str) -> None:
    app = workers(server, "rpc://").app
    plus = task(app, add)
    assert chain(plus.s(1, 2), plus.s(3), plus.s(4))().get(timeout=ANSWER_SECONDS) == 10
    assert group(plus.s(n, 1) for n in range(5))().get(timeout=ANSWER_SECONDS) == [1, 2, 3, 4, 5]


def test_retries(worker: Worker) -> None:
    assert task(worker.app, flaky).delay(3).get(timeout=ANSWER_SECONDS) == 3


def test_eta(worker: Worker) -> None:
    """Tasks that wait hold no place of the prefetch: those without an ETA pass them."""
    waiting = [task(worker.app, when).apply_async(countdown=3600) for _ in range(20)]
    eta = datetime.now(UTC) + timedelta(seconds=3)
    later = task(worker.app, when).apply_async(eta=eta)
    at_once = [task(worker.app, when).delay() for _ in range(5)]
    for result in at_once:
        result.get(timeout=ANSWER_SECONDS)
    assert later.get(timeout=ANSWER_SECONDS) >= eta.timestamp()
    worker.app.control.revoke([result.id for result in waiting], destination=[worker.name])


def test_chord(worker: Worker) -> None:
    numbers = [task(worker.app, add).s(n, n) for n in range(10)]
    assert chord(numbers)(task(worker.app, total).s()).get(timeout=ANSWER_SECONDS) == 90


def test_ping_and_stats(worker: Worker) -> None:
    wait_until(lambda: worker.ping() == [{worker.name: {"ok": "pong"}}], "it answers", ANSWER_SECONDS)
    stats = wait_until(lambda: worker.inspected("stats"), "it says its statistics", ANSWER_SECONDS)
    assert stats["broker"]["transport"] == "amqp"


def test_revoke(worker: Worker) -> None:
    result = task(worker.app, add).apply_async((1, 1), countdown=3600)
    wait_until(
        lambda: result.id in [each["request"]["id"] for each in worker.inspected("scheduled")], "the task is scheduled"
    )
    worker.app.control.revoke(result.id, destination=[worker.name])
    wait_until(lambda: result.id in worker.inspected("revoked"), "the task is revoked")


def test_killed_worker(server: str, amqp_port: Callable[[str], int], tmp_path: Path) -> None:
    """What a worker had not acknowledged as it was killed is done by the next one, and marked."""
    (tmp_path / "results").mkdir()
    results = f"file://{tmp_path / 'results'}"
    deployment = Deployment(_url(amqp_port(server)), results, f"celery-{uuid4().hex[:8]}")
    lines, end = tmp_path / "lines", tmp_path / "end"
    with Worker(deployment, tmp_path, "first") as first:
        result = task(first.app, note).delay(str(lines), str(end))
        wait_until(lambda: lines.exists() and lines.read_text() == "first\n", "the task began")
        first.kill()
        end.touch()
        with Worker(deployment, tmp_path, "second") as second:
            assert second.app.AsyncResult(result.id).get(timeout=ANSWER_SECONDS) == "done"
    assert lines.read_text() == "first\nagain\n"


def test_eta_with_quorum_queues(server: str, amqp_port: Callable[[str], int], tmp_path: Path) -> None:
    """With quorum queues celery waits in a chain of 28 exchanges and queues with a TTL each."""
    (tmp_path / "results").mkdir()
    results = f"file://{tmp_path / 'results'}"
    name = f"celery-{uuid4().hex[:8]}"
    with Worker(Deployment(_url(amqp_port(server)), results, name, "quorum"), tmp_path) as worker:
        sent = time.time()
        result = task(worker.app, when).apply_async(countdown=2)
        assert result.get(timeout=ANSWER_SECONDS) >= sent + 2
