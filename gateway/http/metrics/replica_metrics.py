"""Metrics of brokers and their replicas, read from the masters for each scrape.

Metrics of a broker group are the same on every gateway; reachability of a broker is each gateway's own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from prometheus_client.metrics_core import Metric

from entrepot.domain.ports.cluster import BrokerStatus
from entrepot.gateway.http.metrics.metric_families import gauges

ROLES: Final = ("master", "slave", "away")


def replica_metrics(brokers: Sequence[BrokerStatus]) -> Iterator[Metric]:
    """All metrics of brokers; without an answer of the master none of its replicas."""
    described = {
        "entrepot_broker_available": "1 while this gateway reaches the broker, or its master",
        "entrepot_broker_epoch": "Epoch of a replicated broker's master",
    }
    yield from gauges(
        ["broker"],
        described,
        (([each.name], (each.is_available, each.epoch if each.replicas else None)) for each in brokers),
    )
    replicas = [([broker.name, str(each.replica)], each) for broker in brokers for each in broker.replicas]
    yield from gauges(
        ["broker", "replica", "role"],
        {"entrepot_replica_role": "1 for the role of a replica, 0 for its other roles"},
        (((*values, role), (each.role == role,)) for values, each in replicas for role in ROLES),
    )
    described = {
        "entrepot_replica_in_sync": "1 while a replica is in sync",
        "entrepot_replica_behind_bytes": "Bytes of the master's log that a replica lacks",
        "entrepot_replica_behind_seconds": "Age of the first record that a replica lacks",
    }
    rows = ((values, (each.is_in_sync, each.behind, each.behind_seconds)) for values, each in replicas)
    yield from gauges(["broker", "replica"], described, rows)
