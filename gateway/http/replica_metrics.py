"""Metrics of brokers and their replicas, read from the masters for each scrape.

Metrics of a broker group are the same on every gateway; reachability of a broker is each gateway's own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from entrepot.domain.cluster import BrokerStatus

ROLES: Final = ("master", "slave", "away")


def replica_metrics(brokers: Sequence[BrokerStatus]) -> Iterator[Metric]:
    """All metrics of brokers; without an answer of the master none of its replicas."""
    available = GaugeMetricFamily(
        "entrepot_broker_available", "1 while this gateway reaches the broker, or its master", labels=["broker"]
    )
    epoch = GaugeMetricFamily("entrepot_broker_epoch", "Epoch of a replicated broker's master", labels=["broker"])
    labels = ["broker", "replica"]
    role = GaugeMetricFamily(
        "entrepot_replica_role", "1 for the role of a replica, 0 for its other roles", labels=[*labels, "role"]
    )
    in_sync = GaugeMetricFamily("entrepot_replica_in_sync", "1 while a replica is in sync", labels=labels)
    behind = GaugeMetricFamily(
        "entrepot_replica_behind_bytes", "Bytes of the master's log that a replica lacks", labels=labels
    )
    seconds = GaugeMetricFamily(
        "entrepot_replica_behind_seconds", "Age of the first record that a replica lacks", labels=labels
    )
    for broker in brokers:
        available.add_metric([broker.name], broker.is_available)
        if broker.replicas:
            epoch.add_metric([broker.name], broker.epoch)
        for each in broker.replicas:
            values = [broker.name, str(each.replica)]
            for name in ROLES:
                role.add_metric([*values, name], each.role == name)
            in_sync.add_metric(values, each.is_in_sync)
            if each.behind is not None:
                behind.add_metric(values, each.behind)
            if each.behind_seconds is not None:
                seconds.add_metric(values, each.behind_seconds)
    yield from (available, epoch, role, in_sync, behind, seconds)
