"""A RocketMQ cluster, etcd, and two gateways in front of them, on this machine: `make engine`.

The parts are those of the tests, on free loopback ports and empty folders.  They end together at Ctrl-C.
"""

from __future__ import annotations

import contextlib
import signal
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from tests.support.etcd.cluster import EtcdCluster, require_etcd
from tests.support.processes.deployment import GatewayProcess
from tests.support.rocketmq.cluster import RocketMqCluster
from tests.support.rocketmq.java_process import require_rocketmq

GATEWAYS = ("one", "two")


def main() -> int:
    """Start everything, say where it is, and wait for the end."""
    try:
        require_rocketmq()
        require_etcd()
    except pytest.skip.Exception as missing:
        print(f"make engine: {missing.msg}", file=sys.stderr)
        return 1
    ended = threading.Event()
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, lambda *_: ended.set())
    with tempfile.TemporaryDirectory(prefix="entrepot-engine-") as folder, contextlib.ExitStack() as stack:
        directory = Path(folder)
        print("Starting RocketMQ: a name server and two brokers ...", flush=True)
        rocketmq = stack.enter_context(RocketMqCluster(_made(directory / "rocketmq"), 2))
        print("Starting etcd and two gateways ...", flush=True)
        etcd = stack.enter_context(EtcdCluster(_made(directory / "etcd"), 1))
        settings = {
            "rocketmq.name_servers": f'["127.0.0.1:{rocketmq.name_server_port}"]',
            "facts.url": f"etcd://{','.join(etcd.addresses)}/",
        }
        gateways = [GatewayProcess(directory, [], {**settings, "server.name": name}, name) for name in GATEWAYS]
        for gateway in gateways:
            stack.callback(gateway.kill)
            gateway.start()
        print(_told(rocketmq, gateways), flush=True)
        ended.wait()
        for gateway in gateways:
            gateway.stop()
    return 0


def _made(directory: Path) -> Path:
    directory.mkdir()
    return directory


def _told(rocketmq: RocketMqCluster, gateways: list[GatewayProcess]) -> str:
    """Return the addresses, and something to try."""
    lines = [f"  gateway {each.name}: {_addresses(each)}" for each in gateways]
    one, two = (each.address("http") for each in gateways)
    host, port = gateways[1].address("mqtt").rsplit(":", 1)
    event = "-H 'ce-specversion: 1.0' -H 'ce-id: 1' -H 'ce-type: hello' -H 'ce-source: /me'"
    return "\n".join(
        (
            f"RocketMQ's name server: 127.0.0.1:{rocketmq.name_server_port}",
            *lines,
            "Two gateways, one cluster: what one takes, the other delivers. Try, in other terminals:",
            f"  mosquitto_sub -h {host} -p {port} -t 'factory/#' -v",
            f"  curl --json '{{\"temp\": 21}}' {event} http://{one}/topics/factory:publish",
            f"  curl http://{two}/api/v1/topics",
            f"The page: http://{one}/dashboard/   (Ctrl-C ends everything)",
        )
    )


def _addresses(gateway: GatewayProcess) -> str:
    return "  ".join(f"{door}://{gateway.address(door)}" for door in ("http", "mqtt", "amqp", "grpc"))


if __name__ == "__main__":
    sys.exit(main())
