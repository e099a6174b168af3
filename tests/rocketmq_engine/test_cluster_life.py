"""Apache RocketMQ as the tests start it: who is there, and that nothing is left."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from tests.support.processes.server import is_alive
from tests.support.rocketmq.cluster import RocketMqCluster, on_rocketmq

pytestmark = on_rocketmq


def test_brokers_are_known_by_their_names(rocketmq_cluster: RocketMqCluster):
    places = {
        f"broker-{number}": {"0": f"127.0.0.1:{place.port}"} for number, place in enumerate(rocketmq_cluster.brokers)
    }
    assert rocketmq_cluster.known_brokers() == places


def test_a_controller_makes_one_of_two_replicas_the_master_and_no_process_stays(tmp_path: Path):
    with RocketMqCluster(tmp_path, 2, controlled=True) as cluster:
        [(name, replicas)] = cluster.known_brokers().items()
        assert name == "broker-0"
        assert set(replicas.values()) == {f"127.0.0.1:{place.port}" for place in cluster.brokers}
        assert "0" in replicas, "a master has this number"
        started = [process.pid for process in cluster.processes]
        assert len(started) == 4
        assert all(map(is_alive, started))
    assert not any(map(is_alive, started))


def test_a_start_that_fails_leaves_no_process(tmp_path: Path):
    cluster = RocketMqCluster(tmp_path, 1)
    taken = ("127.0.0.1", cluster.brokers[0].port)
    with socket.create_server(taken), pytest.raises(AssertionError, match="broker-0-0 ended"), cluster:
        raise AssertionError("it started on a port that is taken")
    assert len(cluster.processes) == 2
    assert not any(is_alive(process.pid) for process in cluster.processes)
