"""The two servers of the list: gateways of ours before a broker, and RocketMQ's proxies before one of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from tests.conformance.rocketmq.kept import OURS, THEIRS
from tests.conformance.rocketmq.sdks.stage import Server
from tests.support.http.pull import http_json
from tests.support.processes.deployment import ClusterProcesses
from tests.support.processes.server import ServerProcess
from tests.support.rocketmq.cluster import RocketMqCluster

NAMES: Final = (OURS, THEIRS)
_QUEUES: Final = 4
_LITE: Final = {"enableLmq": True, "enableMultiDispatch": True}
"""What lite topics need of a RocketMQ broker."""
_PORTS_OF_CLIENTS: Final = {"useEndpointPortFromRequest": True}
"""Proxies of one machine have a port each: their routes name those that the client used."""


class _Ours:
    def __init__(self, processes: ServerProcess | ClusterProcesses) -> None:
        self._processes = processes
        self._gateways = processes.gateways if isinstance(processes, ClusterProcesses) else [processes]

    @property
    def endpoints(self) -> list[str]:
        return [each.address("grpc") for each in self._gateways]

    def make_topic(self, name: str, message_type: str) -> None:
        # By default topics take all types but PRIORITY, and are made by their first use.
        if message_type == "PRIORITY":
            http_json(self._processes, "PUT", f"/api/v1/topics/{name}", {"queues": _QUEUES, "type": message_type})

    def make_group(self, name: str, *, fifo: bool, lite_topic: str) -> None:
        if fifo:
            http_json(self._processes, "PUT", f"/api/v1/groups/{name}", {"fifo": True})

    def stop(self, gateway: int) -> None:
        assert self._gateways[gateway].stop() == 0

    def start(self, gateway: int) -> None:
        self._gateways[gateway].restart()


class _Theirs:
    def __init__(self, cluster: RocketMqCluster) -> None:
        self._cluster = cluster

    @property
    def endpoints(self) -> list[str]:
        return [f"127.0.0.1:{each.port}" for each in self._cluster.proxies]

    def make_topic(self, name: str, message_type: str) -> None:
        self._cluster.put_topic(name, _QUEUES, message_type)

    def make_group(self, name: str, *, fifo: bool, lite_topic: str) -> None:
        self._cluster.put_group(name, fifo=fifo, lite_topic=lite_topic)

    def stop(self, gateway: int) -> None:
        self._cluster.proxies[gateway].kill()  # after SIGTERM it takes more than half a minute

    def start(self, gateway: int) -> None:
        self._cluster.proxies[gateway].start()
        self._cluster.proxies[gateway].wait_ready()


@contextmanager
def started(name: str, directory: Path, gateways: int = 1) -> Iterator[Server]:
    """A server on an empty directory, with default settings."""
    if name == THEIRS:
        with RocketMqCluster(directory, settings=_LITE) as cluster:
            settings: dict[str, Any] = _PORTS_OF_CLIENTS if gateways > 1 else {}
            cluster.start_proxies(gateways, settings)
            yield _Theirs(cluster)
    elif gateways == 1:
        with ServerProcess(directory) as server:
            yield _Ours(server)
    else:
        with ClusterProcesses(directory, brokers=1, gateways=gateways) as processes:
            yield _Ours(processes)
