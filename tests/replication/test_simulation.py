"""Seeded histories of a broker group: clients, elections, all faults at once; then none, and progress."""

from __future__ import annotations

import pytest

from tests.replication.histories import MODULE, RULES, run_history
from tests.replication.simulated_faults import KINDS
from tests.simulation.histories import many, tails
from tests.support.seed import SEED
from tests.tiers.marks import scaled

HISTORIES = scaled(120, 6_000)


@pytest.mark.scaled
@pytest.mark.timeout(900)
@pytest.mark.parametrize("rule", RULES)
def test_what_is_confirmed_stays(rule: str) -> None:
    confirmed = opens = acknowledged = grown = 0
    faults: set[str] = set()
    for group in many(
        f"histories of replicas, {rule}",
        lambda seed: run_history(seed, rule),
        HISTORIES,
        1_000_003,
        messages=lambda group: len(group.truth),
        faults=lambda group: sum(group.faults.done.values()),
    ):
        confirmed += len(group.truth)
        opens += group.opens
        grown += group.register.grown
        acknowledged += len(group.ledger.acknowledged)
        faults |= group.faults.done.keys()
    assert confirmed > HISTORIES * 5, "something happens in these histories"
    assert opens > HISTORIES, "masters come and go"
    assert acknowledged and grown, "messages are acknowledged, sets grow"
    expected = {kind for kind in KINDS if rule != "3-3" or kind not in ("wipe", "roll back")}
    assert faults == expected, "every kind of fault comes"


def test_a_seed_is_one_history() -> None:
    """Whatever Python's own seeds are: its events are the same to the last one."""
    told = tails(MODULE, SEED, "2-3")
    assert len(told) == 1
    assert told != {""}
