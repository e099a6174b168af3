"""Servers whose standard streams have no reader, no room, or are closed: they serve, and stop as told."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.http.client import http_request
from tests.support.processes.deployment import BrokerProcess, ControllerProcess, GatewayProcess, NameServerProcess
from tests.support.processes.server import START_SECONDS, STOP_SECONDS, Process, ServerProcess, WorkersProcess
from tests.support.waiting import wait_until
from tests.tiers.marks import soak_only


class Piped:
    """The log of a process that is to be started: a pipe that nobody reads but `text`."""

    def __init__(self, process: Process) -> None:
        path = process.directory / f"{process.name}.pipe"
        os.mkfifo(path)
        self._path = path
        self.reading = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        process._log = path
        process.log_text = self.text  # type: ignore[method-assign]

    def text(self) -> str:
        found = b""
        try:
            while piece := os.read(self.reading, 1 << 16):
                found += piece
        except OSError:  # nothing more, or ended
            pass
        return found.decode()

    def end(self) -> None:
        os.close(self.reading)

    def come_back(self) -> None:
        self.reading = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK)


def lost_lines(server: Process) -> int:
    text = http_request("GET", f"http://{server.address('http')}/metrics").text
    found = re.search(r"^entrepot_log_lines_lost_total (\S+)$", text, re.MULTILINE)
    assert found is not None, text
    return int(float(found[1]))


def cause_a_line(server: Process) -> None:
    """A request that the log tells of."""
    assert http_request("GET", f"http://{server.address('http')}/api/v1/topics/none").status_code == 404


def processes(kind: str, directory: Path) -> list[Process]:
    """All that are to be started, in this order."""
    if kind == "serve":
        return [ServerProcess(directory)]
    if kind == "workers":
        return [WorkersProcess(directory)]
    name_server = NameServerProcess(directory, None, "nameserver")
    broker = BrokerProcess(directory, [name_server], {}, "broker")
    controller = ControllerProcess(directory, {"controller.id": "1"}, "controller")
    controller.settings["cluster.controllers"] = json.dumps([f"1={controller.place}"])
    return [controller, name_server, broker, GatewayProcess(directory, [name_server], {}, "gateway")]


@pytest.mark.failure_also("The reader of a server's log hangs or ends")
@pytest.mark.parametrize("kind", ["serve", soak_only("workers"), soak_only("cluster")])
def test_sigterm_stops_every_kind_of_process_whose_log_has_lost_its_reader(kind: str, tmp_path: Path) -> None:
    with ExitStack() as stack:
        begun = []
        for each in processes(kind, tmp_path):
            log = Piped(each)
            begun.append((stack.enter_context(each), log))
        for _, log in begun:
            assert "listening" in log.text()
            log.end()
        server = begun[-1][0]
        cause_a_line(server)
        assert kind == "workers" or lost_lines(server) > 0
        for each, _ in reversed(begun):
            assert each.stop() == 0, each.name
            assert not each.ready_file.exists()


def test_a_reader_that_comes_back_learns_how_many_lines_it_missed(tmp_path: Path) -> None:
    server = ServerProcess(tmp_path, {"log.format": "json"})
    log = Piped(server)
    with server:
        log.text()
        assert lost_lines(server) == 0
        log.end()
        cause_a_line(server)
        cause_a_line(server)
        missed = lost_lines(server)
        assert missed >= 2
        log.come_back()
        cause_a_line(server)
        told, *_ = (json.loads(line) for line in log.text().splitlines() if line.startswith("{"))  # no greeting
        assert {"event": "lines were lost", "lost": missed, "level": "warning"}.items() <= told.items()
        assert lost_lines(server) == missed
        assert server.stop() == 0
        assert "draining" in log.text()


@pytest.mark.failure(
    "The reader of a server's log hangs or ends",
    group="Operators' mistakes and maintenance",
    does="The server goes on, and stops when told.",
    lost="lines of the log",
    told="`entrepot_log_lines_lost_total`",
)
def test_a_reader_that_does_not_read_is_not_waited_for(tmp_path: Path) -> None:
    server = ServerProcess(tmp_path)
    log = Piped(server)
    with server:
        full = os.open(server._log, os.O_WRONLY | os.O_NONBLOCK)
        try:
            for size in (4096, 1):
                while os.write(full, b"x" * size):
                    pass
        except BlockingIOError:
            pass
        with pytest.raises(BlockingIOError):
            os.write(full, b"x")
        os.close(full)
        cause_a_line(server)
        assert lost_lines(server) == 1
        assert server.stop() == 0
        log.end()


COMMANDS = {
    "serve": ["serve", "--free-ports", "--data-dir", "data"],
    "workers": ["serve", "--free-ports", "--data-dir", "data", "--workers", "2"],
    "nameserver": ["nameserver", "--port", "0"],
    "broker": ["broker", "--port", "0", "--data-dir", "data", "--name", "b"],
}


@pytest.mark.parametrize("kind", ["nameserver", *map(soak_only, ("serve", "workers", "broker"))])
def test_a_server_whose_standard_streams_are_closed(kind: str, tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    shell = ["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", sys.executable, "-m", "entrepot.gateway.cli"]
    process = subprocess.Popen([*shell, *COMMANDS[kind], "--ready-file", str(ready)], cwd=tmp_path)
    try:
        wait_until(lambda: ready.exists() or process.poll() is not None, "it is ready", START_SECONDS)
        assert process.poll() is None, "it has ended by itself"
        for number in (0, 1, 2):
            assert os.readlink(f"/proc/{process.pid}/fd/{number}") == os.devnull, "no socket has its number"
        process.send_signal(signal.SIGTERM)
        assert process.wait(STOP_SECONDS) == 0
    finally:
        process.kill()
        process.wait()
