"""The benchmark's client of RocketMQ, and a cluster that flushes as it is told: what they say is what happened."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.engine_places import Sent, one_by_one
from benchmarks.processes import BenchmarkError
from tests.support.rocketmq.cluster import RocketMqCluster, on_rocketmq
from tests.support.rocketmq.remoting_client import RemotingClient

pytestmark = on_rocketmq

BROKER_SETTINGS = 26
"""GET_BROKER_CONFIG"""


def test_what_the_client_counts_is_stored(rocketmq_cluster: RocketMqCluster) -> None:
    rocketmq_cluster.put_topic("counted")
    sent: list[Sent] = []
    with one_by_one(rocketmq_cluster, "counted") as client:
        while sum(each.count > 0 for each in sent) < 2:  # a Java that has just begun may need longer for its first one
            sent.append(client.send(0.3))
    assert all(each.cpu_seconds > 0 and each.seconds > 0.3 for each in sent if each.count)
    rocketmq_cluster.wait_readable()
    stored = sum(end - first for first, end in rocketmq_cluster.bounds("counted").values())
    assert stored == sum(each.count for each in sent)


def test_a_message_that_is_refused_is_told(rocketmq_cluster: RocketMqCluster) -> None:
    rocketmq_cluster.put_topic("read-only", permission=4)
    with one_by_one(rocketmq_cluster, "read-only") as client, pytest.raises(BenchmarkError, match="client: failed"):
        client.send(0.3)


def test_a_broker_flushes_as_it_is_told(tmp_path: Path) -> None:
    with (
        RocketMqCluster(tmp_path, settings={"flushDiskType": "SYNC_FLUSH"}) as cluster,
        RemotingClient(cluster.brokers[0].port) as client,
    ):
        assert "flushDiskType=SYNC_FLUSH" in client.ask(BROKER_SETTINGS).body.decode().splitlines()
