"""Metrics of controllers and their elections, read for each scrape.

Election metrics are the same on every gateway; reachability of a controller is each gateway's own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from prometheus_client.metrics_core import Metric

from entrepot.domain.ports.cluster import AWAY, LEADS, BrokerStatus, ControllerStatus
from entrepot.gateway.http.metrics.metric_families import counters, gauges


def controller_metrics(controllers: Sequence[ControllerStatus], brokers: Sequence[BrokerStatus]) -> Iterator[Metric]:
    """All metrics of controllers; without a leader none of elections."""
    described = {
        "entrepot_controller_available": "1 while this gateway reaches the controller",
        "entrepot_controller_leads": "1 for the controller that leads the others",
    }
    names = ((str(each.controller or each.address), each.state) for each in controllers)
    yield from gauges(["controller"], described, (([name], (state != AWAY, state == LEADS)) for name, state in names))
    elections = [
        ([each.name], each.election, any(replica.control_problem for replica in each.replicas))
        for each in brokers
        if each.election is not None
    ]
    yield from counters(
        ["broker"],
        {"entrepot_broker_elections": "Elections of a broker's master begun"},
        ((name, (election.given,)) for name, election, _ in elections),
    )
    described = {
        "entrepot_broker_in_sync_replicas": "Replicas of a broker in sync",
        "entrepot_broker_election_problem": (
            "1 while no master of a broker can be elected: it needs one, or a replica knows no controller that leads"
        ),
    }
    rows = ((name, (election.in_sync, bool(election.problem) or is_unled)) for name, election, is_unled in elections)
    yield from gauges(["broker"], described, rows)
