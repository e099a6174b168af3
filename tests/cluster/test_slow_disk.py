"""Contract row 7 in a cluster: the disk of one broker is slow; its publishers are held back, and nobody else."""

from __future__ import annotations

import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from entrepot.protocols.mqtt.packets import Pingreq, Pingresp
from tests.e2e.test_hard_disk import flood
from tests.support.doors.load import door, event_headers
from tests.support.mqtt.client import RawClient
from tests.support.processes.deployment import BrokerProcess, ClusterProcesses
from tests.support.soak_table import tell

MIB = 1 << 20
SECONDS = 4.0
PATIENT = {"cluster.request_seconds": "30", "cluster.silence_seconds": "30"}
"""A machine that is busy does not make the broker one that is away."""


@contextmanager
def slow_disk(broker: BrokerProcess, milliseconds: int) -> Iterator[None]:
    """Every sync of a broker's disk takes so much longer."""
    strace = shutil.which("strace")
    if strace is None:
        pytest.skip("strace is not installed: make peers installs it")
    child = Path(f"/proc/{broker.pid}/task/{broker.pid}/children").read_text().split()[0]
    inject = f"inject=fdatasync:delay_enter={milliseconds * 1000}"
    tracing = subprocess.Popen(
        [strace, "-f", "-p", child, "-e", "trace=fdatasync", "-e", inject],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
    )
    assert tracing.stderr is not None
    if b"attached" not in tracing.stderr.readline():
        pytest.skip("this machine does not let strace attach")
    threading.Thread(target=tracing.stderr.read, daemon=True).start()
    try:
        yield
    finally:
        tracing.terminate()
        tracing.wait(10)


def ping(client: RawClient) -> None:
    """It says something: its keep-alive is longer than a flood, and not than all that is done around it."""
    client.say(Pingreq())
    client.expect(Pingresp)


@pytest.mark.failure(
    "A broker's disk is slow",
    group="Disks",
    does=("Publishers are held back, and the memory stays bounded. Consuming, other clients and health checks go on."),
    lost="nothing",
    told="`entrepot_store_sync_seconds`",
)
@pytest.mark.soak
@pytest.mark.timeout(300)
def test_a_slow_disk_of_a_broker_holds_publishers_back_and_nobody_else(tmp_path: Path) -> None:
    settings = {"store.max_unconfirmed_bytes": str(MIB), "topics.default_queues": "1", **PATIENT}
    with ClusterProcesses(tmp_path, settings, brokers=1) as cluster, door(cluster.gateways[0]) as client:
        gateway, broker = cluster.gateways[0], cluster.brokers[0]
        publish = "/topics/t:publish"
        assert client.post(publish, json={}, headers=event_headers("first")).status_code == 200
        with RawClient(gateway.port("mqtt")) as idle:
            idle.connect("idle", keep_alive=2 * int(SECONDS))
            idle.subscribe("quiet/#")
            before = [process.resident_bytes() for process in (gateway, broker)]
            with slow_disk(broker, 300):
                ping(idle)
                held = flood("127.0.0.1", gateway.port("mqtt"), SECONDS)
                ping(idle)
                assert held > SECONDS / 2, "the publisher is not held back although nothing is confirmed"
                for process, resident in zip((gateway, broker), before, strict=True):
                    assert process.resident_bytes() - resident < 40 * MIB, process.name
                assert client.get("/healthz").status_code == 200
                received = client.post("/topics/t/eventsubscriptions/g:receive?maxEvents=1&maxWaitTime=0")
                assert received.status_code == 200 and received.json()["value"], "consuming goes on"
            assert client.post(publish, json={}, headers=event_headers("last")).status_code == 200
            idle.publish("quiet/x", b"still here")
            assert [delivery.payload for delivery in idle.expect_deliveries(1)] == [b"still here"]
        tell("a slow disk of a broker", faults=1)
        assert "broker is away" not in gateway.log_text()
