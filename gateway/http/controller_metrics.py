"""Metrics of controllers and their elections, read for each scrape.

Election metrics are the same on every gateway; reachability of a controller is each gateway's own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from entrepot.domain.cluster import AWAY, LEADS, BrokerStatus, ControllerStatus


def controller_metrics(controllers: Sequence[ControllerStatus], brokers: Sequence[BrokerStatus]) -> Iterator[Metric]:
    """All metrics of controllers; without a leader none of elections."""
    available = GaugeMetricFamily(
        "entrepot_controller_available", "1 while this gateway reaches the controller", labels=["controller"]
    )
    leads = GaugeMetricFamily(
        "entrepot_controller_leads", "1 for the controller that leads the others", labels=["controller"]
    )
    for each in controllers:
        labels = [str(each.controller or each.address)]
        available.add_metric(labels, each.state != AWAY)
        leads.add_metric(labels, each.state == LEADS)
    yield from (available, leads)
    yield from _elections(brokers)


def _elections(brokers: Sequence[BrokerStatus]) -> Iterator[Metric]:
    begun = CounterMetricFamily("entrepot_broker_elections", "Elections of a broker's master begun", labels=["broker"])
    in_sync = GaugeMetricFamily("entrepot_broker_in_sync_replicas", "Replicas of a broker in sync", labels=["broker"])
    problem = GaugeMetricFamily(
        "entrepot_broker_election_problem", "1 while a broker needs a master and none can be elected", labels=["broker"]
    )
    for broker in brokers:
        election = broker.election
        if election is not None:
            begun.add_metric([broker.name], election.given)
            in_sync.add_metric([broker.name], election.in_sync)
            problem.add_metric([broker.name], bool(election.problem))
    yield from (begun, in_sync, problem)
