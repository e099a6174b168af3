"""Replicas of a broker under real controllers: who is in sync, and who is the master."""

from __future__ import annotations

import json
from functools import partial
from typing import Final

from tests.support.rocketmq.cluster import BrokerPlace, RocketMqCluster
from tests.support.rocketmq.remoting_client import RemotingClient, RemotingError
from tests.support.rocketmq.store_load import GOES_ON_SECONDS
from tests.support.waiting import until

_SYNC_STATE: Final = 1006
"""CONTROLLER_GET_SYNC_STATE_DATA"""
_TOPIC_CONFIG: Final = 351


def in_sync(cluster: RocketMqCluster) -> int:
    """How many replicas of the broker the leading controller counts as in sync."""
    for port in cluster.controller_ports:
        try:
            with RemotingClient(port) as client:
                told = client.ask(_SYNC_STATE, None, json.dumps(["broker-0"]).encode()).content()
        except (OSError, RemotingError):
            continue  # it does not lead
        about = told["replicasInfoTable"].get("broker-0")
        if about is not None:
            return len(about["inSyncReplicas"])
    return 0


def _has(place: BrokerPlace, topic: str) -> bool:
    with RemotingClient(place.port) as client:
        try:
            client.ask(_TOPIC_CONFIG, {"topic": topic})
        except RemotingError:
            return False
    return True


async def known_everywhere(cluster: RocketMqCluster, topic: str) -> None:
    """Wait until every replica knows a topic: they copy definitions only now and then, and not by the log."""
    for place in cluster.brokers:
        await until(partial(_has, place, topic), cluster.log_text, GOES_ON_SECONDS)


async def all_in_sync(cluster: RocketMqCluster) -> BrokerPlace:
    """Wait until every replica may become the master; the present one."""
    await until(lambda: in_sync(cluster) == len(cluster.brokers), cluster.log_text, GOES_ON_SECONDS)
    return await master_other_than(cluster, None)


async def master_other_than(cluster: RocketMqCluster, old: BrokerPlace | None) -> BrokerPlace:
    """Wait until another replica is the master; that one."""

    def found() -> BrokerPlace | None:
        master = cluster.master()
        return None if master is None or master == old else master

    master = await until(found, cluster.log_text, GOES_ON_SECONDS)
    assert master is not None
    return master
