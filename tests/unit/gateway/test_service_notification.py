"""Words to the service manager: by sd_notify(3), and never to the harm of who speaks."""

from __future__ import annotations

import asyncio
import os
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from entrepot.gateway import service_notification
from entrepot.gateway.children import ProofOfLife
from entrepot.gateway.service_notification import (
    keep_alive,
    leave_to_parent,
    notify_alive,
    notify_ready,
    notify_status,
    notify_stopping,
    watchdog_seconds,
)
from tests.support.processes.service_manager import ServiceManager
from tests.support.virtual_time import run_virtually


@pytest.fixture(params=["path", "abstract"])
def manager(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ServiceManager]:
    name = str(tmp_path / "notify") if request.param == "path" else f"@entrepot-{uuid.uuid4()}"
    monkeypatch.setenv("NOTIFY_SOCKET", name)
    with ServiceManager(name) as manager:
        yield manager


def test_what_is_told(manager: ServiceManager) -> None:
    notify_status("starting")
    notify_ready({"mqtt": "127.0.0.1:1883", "http": "127.0.0.1:8080"})
    notify_alive()
    notify_stopping(0)
    assert manager.read() == [
        "STATUS=starting",
        "READY=1",
        "STATUS=serving mqtt 127.0.0.1:1883, http 127.0.0.1:8080",
        "WATCHDOG=1",
        "STOPPING=1",
        "STATUS=draining",
    ]
    notify_stopping(1)
    assert manager.read()[-1] == "STATUS=ending after a failure: the log tells of it"


def test_a_status_is_one_line_of_limited_length(manager: ServiceManager) -> None:
    notify_status("a\nREADY=1")
    notify_status("x" * 100_000)
    first, second = manager.read()
    assert first == r"STATUS=a\nREADY=1"
    assert len(second) == len("STATUS=") + service_notification.MAX_STATUS


def test_nothing_is_said_by_who_leaves_it_to_its_parent(
    manager: ServiceManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", "1000000")
    monkeypatch.setenv("WATCHDOG_PID", str(os.getpid()))
    assert watchdog_seconds() == 1.0
    leave_to_parent()
    notify_status("starting")
    assert manager.read() == []
    assert watchdog_seconds() is None
    assert {"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"}.isdisjoint(os.environ), "nor do its children"


@pytest.mark.parametrize("name", ["", "vsock:2:1234", "relative", "/" + "x" * 200, "/dev/null", "/none/there"])
def test_a_manager_that_cannot_be_told_does_no_harm(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", name)
    with structlog.testing.capture_logs() as logs:
        notify_ready({})
        notify_alive()
    assert [entry["event"] for entry in logs] == ["the service manager cannot be told"] * (2 if name else 0)
    assert all(entry["seldom"] for entry in logs)


def test_no_manager_no_word(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    monkeypatch.delenv("WATCHDOG_USEC", raising=False)
    with structlog.testing.capture_logs() as logs:
        notify_ready({})
    assert logs == [] and watchdog_seconds() is None


def test_a_sign_of_life_does_not_wait_for_a_manager_that_does_not_read(
    manager: ServiceManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service_notification, "SEND_SECONDS", None)  # whoever waits does so for ever
    with structlog.testing.capture_logs() as logs:
        for _ in range(100_000):
            notify_alive()
            if logs:
                break
    assert len(logs) == 1, "the socket was full"


def test_a_state_waits_for_a_manager_that_does_not_read_but_not_for_ever(
    manager: ServiceManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service_notification, "SEND_SECONDS", 0.05)
    with structlog.testing.capture_logs() as logs:
        while not logs:
            notify_alive()
        begun = time.monotonic()
        notify_ready({})
    assert time.monotonic() - begun >= 0.05
    assert len(logs) == 2


@pytest.mark.parametrize(
    ("usec", "pid", "seconds"),
    [
        ("60000000", None, 60.0),
        ("500000", "own", 0.5),
        ("60000000", "1", None),
        ("0", None, None),
        ("", None, None),
        ("-1", None, None),
        ("often", None, None),
    ],
)
def test_how_often_the_manager_wants_a_sign_of_life(
    usec: str, pid: str | None, seconds: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", usec)
    monkeypatch.delenv("WATCHDOG_PID", raising=False)
    if pid is not None:
        monkeypatch.setenv("WATCHDOG_PID", str(os.getpid()) if pid == "own" else pid)
    assert watchdog_seconds() == seconds


def test_signs_of_life_come_twice_in_the_time() -> None:
    async def work() -> list[float]:
        loop, times = asyncio.get_running_loop(), list[float]()
        keep_alive(None, lambda: times.append(-1.0))
        keep_alive(10.0, lambda: times.append(loop.time()))
        await asyncio.sleep(26.0)
        return [round(time - times[0]) for time in times]

    assert run_virtually(work()) == [0, 5, 10, 15, 20, 25]


def test_a_sign_of_life_that_fails_is_not_the_last() -> None:
    async def work() -> int:
        told = 0

        def tell() -> None:
            nonlocal told
            told += 1
            if told > 1:
                raise OSError("no")

        asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)
        keep_alive(10.0, tell)
        await asyncio.sleep(26.0)
        return told

    assert run_virtually(work()) == 6


def test_proof_of_life_of_a_child() -> None:
    now = [100.0]
    proof, unasked = ProofOfLife(10.0, lambda: now[0]), ProofOfLife(None, lambda: now[0])
    now[0] = 110.0
    assert not proof.is_overdue
    now[0] = 110.5
    assert proof.is_overdue
    assert not unasked.is_overdue
    if (pid := os.fork()) == 0:
        proof.give()
        os._exit(0)
    os.waitpid(pid, 0)
    assert not proof.is_overdue, "what the child says, the parent sees"


def test_the_socket_is_closed_after_each_word(manager: ServiceManager) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(10):
        notify_alive()
    assert len(os.listdir("/proc/self/fd")) == before
