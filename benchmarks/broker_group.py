"""A broker with replicas, a name server and a gateway, each a child process, all of them counted as one server.

Controllers may elect its masters: each is a child process, too.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import httpx2

from benchmarks.processes import (
    ENTREPOT,
    BenchmarkError,
    Server,
    children,
    cpu_seconds,
    free_port,
    gwload,
    ports_in,
    start,
    stop,
    wait_until,
)

NAME: Final = "broker-0"
BROKER: Final = "broker "
"""Prefix of the names of the brokers' processes."""
LOOK_SECONDS: Final = 0.02
"""Pause between two looks at the replicas."""
ELECT_SECONDS: Final = 60.0


class BrokerGroup:
    """A broker with `replicas` behind one gateway. Without a rule it is one broker, not a replica. `controllers` is
    the number that elect its masters; `lease` is a master's silence, in seconds, before they do. `secret`: of all
    parts."""

    def __init__(
        self, directory: Path, rule: str, replicas: int, controllers: int = 0, lease: float = 3.0, secret: str = ""
    ) -> None:
        self.what = f"{replicas} replicas, {rule}" if rule else "a broker without replicas"
        self.replicas = tuple(range(1, replicas + 1)) if rule else (0,)
        self._directory, self._rule = directory, rule
        self._broker_ports = {replica: free_port() for replica in self.replicas}
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._name_server = f"127.0.0.1:{free_port()}"
        self._controller_ports = {number: free_port() for number in range(1, controllers + 1)}
        self._lease, self._secret = lease, secret
        self._client: httpx2.Client | None = None
        self.ports: dict[str, int] = {}

    # -- life ----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start all; return when the gateway is ready and the replicas are even."""
        port = self._name_server.rpartition(":")[2]
        self._start("nameserver", "nameserver", "--set", f"nameserver.port={port}")
        for controller in self._controller_ports:
            self._start_controller(controller)
        for replica in self.replicas:
            self.start_replica(replica, waits=False)
        flags = ("--free-ports", "--nameserver", self._name_server)
        self._start("gateway", "gateway", *flags, *_flags(self._controlled))
        self.ports = self._ready("gateway")
        self._client = httpx2.Client(base_url=f"http://127.0.0.1:{self.ports['http']}", timeout=ELECT_SECONDS)
        if self._rule:
            self.wait_even(self.replicas)

    def start_replica(self, replica: int, *, waits: bool = True) -> None:
        """Start one replica on its port and its data."""
        flags = ["--data-dir", str(self.data_dir(replica)), "--name", NAME, "--nameserver", self._name_server]
        settings = {"broker.port": str(self._broker_ports[replica])}
        if self._rule:
            addresses = [f"{each}=127.0.0.1:{port}" for each, port in self._broker_ports.items()]
            settings |= {"broker.replica_id": str(replica), "broker.rule": self._rule}
            settings |= {"broker.replicas": json.dumps(addresses), **self._controlled}
        self._start(_broker(replica), "broker", *flags, *_flags(settings))
        if waits:
            self._ready(_broker(replica))

    @property
    def _controlled(self) -> dict[str, str]:
        """Settings with the controllers' addresses, if there are controllers."""
        if not self._controller_ports:
            return {}
        addresses = [f"{each}=127.0.0.1:{port}" for each, port in self._controller_ports.items()]
        return {"cluster.controllers": json.dumps(addresses), "cluster.lease_seconds": str(self._lease)}

    def _start_controller(self, controller: int) -> None:
        own = {"controller.id": str(controller), "controller.port": str(self._controller_ports[controller])}
        own["controller.data_dir"] = str(self._directory / f"controller-{controller}")
        self._start(f"controller {controller}", "controller", *_flags({**self._controlled, **own}))

    def kill_replica(self, replica: int) -> None:
        """Kill one with SIGKILL, and wait for its end."""
        process = self._processes[_broker(replica)]
        process.kill()
        process.wait()

    def stop_replica(self, replica: int) -> None:
        """Stop one cleanly."""
        stop(self._processes[_broker(replica)])

    def wipe_replica(self, replica: int) -> None:
        """Remove all data of a stopped one."""
        shutil.rmtree(self.data_dir(replica))

    def close(self) -> None:
        """End all."""
        if self._client is not None:
            self._client.close()
        for process in self._processes.values():
            if process.poll() is None:
                process.terminate()
        for process in self._processes.values():
            stop(process)

    def data_dir(self, replica: int) -> Path:
        return self._directory / f"data-{replica}"

    def _start(self, name: str, *command: str) -> None:
        ready = self._directory / f"{name}.json"
        ready.unlink(missing_ok=True)
        arguments = [*ENTREPOT, *command, "--ready-file", str(ready), "--set", "log.level=error"]
        arguments += _flags({"cluster.secret": self._secret}) if self._secret else []
        self._processes[name] = start(arguments)

    def _ready(self, name: str) -> dict[str, int]:
        ready = self._directory / f"{name}.json"
        wait_until(ready.exists, self._processes[name], name, ELECT_SECONDS)
        return ports_in(ready)

    # -- as an operator has it ----------------------------------------------------------------------------------------

    @property
    def client(self) -> httpx2.Client:
        """A client of the gateway's HTTP API."""
        assert self._client is not None, "it is started"
        return self._client

    def views(self) -> list[dict[str, Any]]:
        """The replicas as the management API shows them; none without an answer."""
        answer = self.client.get("/api/v1/brokers")
        brokers = answer.json()["value"] if answer.status_code == 200 else []
        return [replica for broker in brokers for replica in broker["replicas"]]

    def wait_even(self, replicas: tuple[int, ...], seconds: float = ELECT_SECONDS) -> None:
        """Return when these are in sync and have all that the master has."""
        deadline = time.monotonic() + seconds
        while True:
            views = self.views()
            even = {each["replica"] for each in views if each["isInSync"] and each["behind"] == 0}
            if even >= set(replicas):
                return
            if time.monotonic() > deadline:
                raise BenchmarkError(f"{self.what}: not even after {seconds:g} s: {views}")
            time.sleep(LOOK_SECONDS)

    def master(self) -> int:
        """Id of the replica that is master."""
        found = [int(each["replica"]) for each in self.views() if each["role"] == "master"]
        if len(found) != 1:
            raise BenchmarkError(f"{self.what}: {len(found)} masters")
        return found[0]

    def slaves(self) -> list[int]:
        """Ids of the others."""
        master = self.master()
        return [replica for replica in self.replicas if replica != master]

    def move(self, to: int) -> None:
        """Make a replica master, by plan."""
        answer = self.client.post(f"/api/v1/brokers/{NAME}:elect", json={"to": to})
        if answer.status_code != 200:
            raise BenchmarkError(f"{self.what}: the move to replica {to} failed: {answer.status_code} {answer.text}")

    # -- measured ------------------------------------------------------------------------------------------------

    def gwload(self, *arguments: str, door: str = "mqtt") -> dict[str, Any]:
        """Run the load generator against a listener of the gateway; the CPU of every process is counted. Its figures
        have `parts`, too: the CPU-seconds of each process with its children, by role."""
        first, *others = self._processes.values()
        watched = ",".join(str(each.pid) for each in others)
        before = self._cpu()
        figures = gwload(Server(self.what, first, self.ports), door, "--pid", watched, *arguments)
        used = {name: cpu - before[name] for name, cpu in self._cpu().items()}
        # The two looks include the beginning and the end of the run: gwload's own figure is divided in the same shares.
        share = float(figures["broker_cpu_s"]) / max(sum(used.values()), 0.01)
        master = _broker(self.master() if self._rule else self.replicas[0])
        slaves = [cpu for name, cpu in used.items() if name.startswith(BROKER) and name != master]
        parts = {"master": used[master], "gateway": used["gateway"]}
        if slaves:
            parts["slave"] = sum(slaves) / len(slaves)
        figures["parts"] = {name: max(cpu * share, 0.01) for name, cpu in parts.items()}
        return figures

    def _cpu(self) -> dict[str, float]:
        return {name: cpu_seconds(process.pid) for name, process in self._processes.items()}

    @contextmanager
    def paused(self, replica: int, *, only_disk: bool = False) -> Iterator[None]:
        """Pause one replica, or its disk: the process that syncs for it."""
        pid = self._processes[_broker(replica)].pid
        pids = [*([] if only_disk else [pid]), *children(pid)]
        _signal(pids, signal.SIGSTOP)
        try:
            yield
        finally:
            _signal(pids, signal.SIGCONT)


def _broker(replica: int) -> str:
    return f"{BROKER}{replica}"


def _flags(settings: dict[str, str]) -> list[str]:
    return [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]


def _signal(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        os.kill(pid, number)


@contextmanager
def broker_group(
    rule: str = "", replicas: int = 1, controllers: int = 0, lease: float = 3.0, secret: str = ""
) -> Iterator[BrokerGroup]:
    """All of it on free ports, with empty stores that are removed at the end."""
    with ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="entrepot-bench-"))
        group = BrokerGroup(Path(directory), rule, replicas, controllers, lease, secret)
        stack.callback(group.close)
        group.start()
        yield group
