"""Contract row 6 in a cluster: a broker that is killed while its disk is full starts again."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.e2e.test_hard_disk import MIB, SMALL_STORE, fill, publish_until_refused, small_disk
from tests.e2e.test_serve import publish, receive
from tests.support.processes.deployment import ClusterProcesses
from tests.support.soak_table import tell
from tests.support.waiting import wait_until

__all__ = ["small_disk"]
SETTINGS = {**SMALL_STORE, "topics.default_queues": "1"}


@pytest.mark.failure(
    "A broker is killed while its disk is full",
    group="Disks",
    does="It starts again, and consuming goes on from its reserve. Publishing goes on when there is room.",
    lost="nothing confirmed",
)
@pytest.mark.soak
@pytest.mark.timeout(300)
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to mount a small file system")
def test_a_broker_killed_on_a_full_disk_starts_again(tmp_path: Path, small_disk: Path) -> None:
    cluster = ClusterProcesses(tmp_path, SETTINGS, brokers=1)
    [broker] = cluster.brokers
    broker.data_dir = small_disk / "data"
    (small_disk / "ballast").write_bytes(bytes(6 * MIB))
    with cluster:
        kept = publish_until_refused(cluster)
        broker.kill()
        ballast = fill(small_disk)
        broker.start()
        got: list[object] = []

        def receives() -> bool:
            try:
                got.extend(receive(cluster, "t", "g", 100))
            except AssertionError:  # the gateway does not know yet that it is back
                return False
            return bool(got)

        wait_until(receives, cluster.log_text)
        ballast.unlink()
        wait_until(lambda: publish(cluster, "t", "after", {}) == 200, cluster.log_text)
        wait_until(lambda: (not receives()) or len(got) == kept + 1, cluster.log_text)
        tell("a broker killed on a full disk", messages=kept + 1, lost=kept + 1 - len(got), faults=1)
        assert len(got) == kept + 1
