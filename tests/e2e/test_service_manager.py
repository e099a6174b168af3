"""Processes under a service manager: it is told when they are ready, that they live, and that they stop."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.e2e.test_servers_outlive_their_log import processes
from tests.support.http.client import http_request
from tests.support.processes.server import Process, WorkersProcess
from tests.support.processes.service_manager import ServiceManager
from tests.support.waiting import wait_until
from tests.tiers.marks import soak_only


@pytest.fixture
def manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ServiceManager]:
    with ServiceManager.below(tmp_path) as manager:
        monkeypatch.setenv("NOTIFY_SOCKET", manager.name)
        monkeypatch.setenv("WATCHDOG_USEC", "2000000")
        yield manager


@pytest.mark.parametrize("kind", ["serve", soak_only("workers"), soak_only("cluster")])
def test_every_kind_of_process_tells_its_states(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", "30000000")
    with ExitStack() as stack:
        begun: list[tuple[Process, ServiceManager]] = []
        for each in processes(kind, tmp_path):
            manager = stack.enter_context(ServiceManager(str(tmp_path / f"{each.name}.notify")))
            monkeypatch.setenv("NOTIFY_SOCKET", manager.name)
            begun.append((stack.enter_context(each), manager))
            manager.wait_for("READY=1")
            assert manager.told[0] == "STATUS=starting"
            where = ", ".join(f"{door} {address}" for door, address in each.ports.items())
            assert f"STATUS=serving {where}" in manager.told
            assert manager.told.count("READY=1") == 1, "workers leave it to their parent"
            manager.wait_for("WATCHDOG=1")
            manager.told.clear()
        for each, manager in reversed(begun):
            assert each.stop() == 0
            told = [line for line in manager.read() if line != "WATCHDOG=1"]
            assert told == ["STOPPING=1", "STATUS=draining"], each.name


def test_ready_means_that_the_doors_are_open(tmp_path: Path, manager: ServiceManager) -> None:
    (server,) = processes("serve", tmp_path)
    with server:
        manager.wait_for("READY=1")
        assert http_request("GET", f"http://{server.address('http')}/readyz").status_code == 200


@pytest.mark.soak
@pytest.mark.parametrize("part", ["gateway", "store"])
def test_a_stuck_part_of_a_server_of_several_is_started_again(
    part: str, tmp_path: Path, manager: ServiceManager
) -> None:
    with WorkersProcess(tmp_path) as server:
        before = {"gateway": server.gateway_pids(), "store": {server.store_pid()}}
        stuck = min(before[part])
        os.kill(stuck, signal.SIGSTOP)
        wait_until(lambda: stuck not in server.parts(), "it was killed")
        wait_until(lambda: len(server.gateway_pids()) == 2 and len(server.parts()) == 3, "and started again")
        assert "is stuck: it is killed" in server.log_text()
        kept = {"gateway": before["gateway"] - {stuck}, "store": before["store"] - {stuck}}
        assert kept["gateway"] | kept["store"] <= set(server.parts()), "the others went on"
        url = f"http://{server.address('http')}/api/v1/topics/t"
        wait_until(lambda: http_request("PUT", url, json={}).status_code < 300, "it serves")
        assert server.is_running and "STOPPING=1" not in manager.read()
        assert server.stop() == 0
