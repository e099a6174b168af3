"""A replica that knows no controller that leads is told: nobody would replace its master."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from entrepot.domain.ports.cluster import BrokerStatus, ElectionView, LogCondition, ReplicaView
from entrepot.gateway.http.metrics.controller_metrics import controller_metrics
from entrepot.gateway.operations.nouns.brokers import broker_of
from entrepot.gateway.operations.overview.alarms import alarms_of
from entrepot.gateway.operations.overview.shapes import Severity
from tests.support.gateways.overviews import QUIET

WORDS = "none of the controllers that it knows leads: a:1"


def broker(of_election: str, of_replica: str) -> BrokerStatus:
    replicas = (ReplicaView(1, "r:1", "master", True, control_problem=of_replica), ReplicaView(2, "r:2", "slave", True))
    return BrokerStatus(
        "b", 0, "r:1", "", True, False, True, replicas=replicas, election=ElectionView(3, "why", 0, 3, 2, of_election)
    )


@pytest.mark.parametrize(
    ("of_election", "of_replica", "value"), [("", "", 0), ("too few", "", 1), ("", WORDS, 1), ("too few", WORDS, 1)]
)
def test_it_is_in_the_metric_of_elections(of_election: str, of_replica: str, value: int) -> None:
    [metric] = [
        each
        for each in controller_metrics((), [broker(of_election, of_replica)])
        if each.name == "entrepot_broker_election_problem"
    ]
    assert [(each.labels, each.value) for each in metric.samples] == [({"broker": "b"}, value)]


def test_a_control_problem_is_an_alarm() -> None:
    def alarms(words: str) -> list[tuple[Severity, str, str]]:
        overview = replace(QUIET, brokers=[broker_of(broker("", words))])
        return [(each.severity, each.subject, each.text) for each in alarms_of(overview, ())]

    assert alarms("") == []
    assert alarms(WORDS) == [(Severity.WARNING, "Replica 1 of b would not be replaced", WORDS)]


@pytest.mark.failure_also("An operator elects with `--unclean` a replica that lacks confirmed messages")
def test_confirmed_messages_that_were_given_up_are_an_alarm() -> None:
    def alarms(condition: LogCondition) -> list[tuple[Severity, str, str]]:
        view = ReplicaView(1, "r:1", "master", True, log=condition)
        row = broker_of(BrokerStatus("b", 0, "r:1", "", True, False, True, replicas=(view,)))
        return [(each.severity, each.subject, each.text) for each in alarms_of(replace(QUIET, brokers=[row]), ())]

    kept = LogCondition(diverged=((100, 300),))
    assert alarms(kept) == [], "nobody was told of that"
    assert kept.text == "1 parts of 200 bytes in diverged/"
    lost = LogCondition(diverged=((100, 300),), lost=50)
    assert lost.text == "1 parts of 200 bytes in diverged/, 50 bytes of them had been confirmed"
    [(severity, subject, text)] = alarms(lost)
    assert (severity, subject) == (Severity.CRITICAL, "Replica 1 of b has given up confirmed messages")
    assert text == "50 bytes of them are in its diverged/: entrepot store dump --diverged shows them"
