"""The parent of workers: how it is stopped."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.processes.service_manager import ServiceManager
from tests.support.waiting import PATIENCE_SECONDS, wait_until

Start = Callable[[str], "subprocess.Popen[bytes]"]


@pytest.fixture
def events(tmp_path: Path) -> Path:
    return tmp_path / "events"


@pytest.fixture
def start(events: Path) -> Iterator[Start]:
    with ExitStack() as stack:

        def started(mode: str) -> subprocess.Popen[bytes]:
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.processes.stub_workers", str(events), mode],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            stack.enter_context(process)
            stack.callback(process.kill)
            stack.callback(Path(f"{events}.go").touch)
            return process

        yield started


def noted(events: Path) -> list[str]:
    return events.read_text().split() if events.exists() else []


def test_a_stop_in_the_pause_before_a_restart_ends_the_parent(start: Start, events: Path):
    parent = start("crash")
    wait_until(lambda: "started" in noted(events), "the worker is there")
    worker_ended = Path(f"/proc/{parent.pid}/task/{parent.pid}/children")
    wait_until(lambda: not worker_ended.read_text().strip(), "it has ended, and the parent has seen that")
    parent.send_signal(signal.SIGTERM)
    assert parent.wait(PATIENCE_SECONDS) == 0
    assert noted(events).count("started") == 1, "none was started any more"


def test_a_worker_is_told_once_however_often_the_parent_is(start: Start, events: Path):
    parent = start("stay")
    wait_until(lambda: "started" in noted(events), "the worker is there")
    for times in (1, 2, 3):
        told = noted(events).count("told")
        parent.send_signal(signal.SIGTERM)
        wait_until(lambda n=told: noted(events).count("told") > n, "the parent has passed it on")  # type: ignore[misc]
        wait_until(lambda: "signalled" in noted(events), f"the worker was told at signal {times}")
    Path(f"{events}.go").touch()
    assert parent.wait(PATIENCE_SECONDS) == 0
    assert noted(events).count("signalled") == 1, "a second one would cut its draining short"


def test_a_worker_that_ends_before_the_parent_looks_again_is_no_surprise(start: Start, events: Path):
    parent = start("quick")
    wait_until(lambda: "started" in noted(events), "the worker is there")
    parent.send_signal(signal.SIGTERM)
    assert parent.wait(PATIENCE_SECONDS) == 0


def test_a_stuck_worker_is_killed_and_another_started(
    start: Start, events: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ServiceManager.below(tmp_path) as manager:
        monkeypatch.setenv("NOTIFY_SOCKET", manager.name)
        monkeypatch.setenv("WATCHDOG_USEC", "500000")
        parent = start("stuck")
        wait_until(lambda: noted(events).count("started") == 2, "another was started")
        for _ in range(3):
            manager.told.clear()
            manager.wait_for("WATCHDOG=1")
        assert noted(events).count("started") == 2, "who gives signs of life stays"
        assert "STOPPING=1" not in manager.read()
        assert "stale" not in noted(events), "the number of one that has ended may be another's soon"
        parent.send_signal(signal.SIGTERM)
        assert parent.wait(PATIENCE_SECONDS) == 0
        assert "STOPPING=1" in manager.read()


def test_nobody_is_killed_where_no_sign_of_life_is_asked_for(start: Start, events: Path) -> None:
    parent = start("stuck")
    wait_until(lambda: "started" in noted(events), "the worker is there")
    parent.send_signal(signal.SIGTERM)
    wait_until(lambda: "signalled" in noted(events), "it was told")
    os.kill(children_of(parent.pid)[0], signal.SIGKILL)
    assert parent.wait(PATIENCE_SECONDS) == 0
    assert noted(events).count("started") == 1


def children_of(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
