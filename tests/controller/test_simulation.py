"""Seeded histories of a group with controllers: clients, elections, all faults at once; then none, and progress."""

from __future__ import annotations

import pytest

from tests.controller.histories import told_histories
from tests.controller.simulated_faults import KINDS
from tests.replication.histories import RULES
from tests.tiers.marks import scaled

HISTORIES = scaled(16, 6_000)


@pytest.mark.failure_also("The master's process or machine dies, under `in-sync` or `2-3`")
@pytest.mark.scaled
@pytest.mark.timeout(900)
@pytest.mark.parametrize("rule", RULES)
def test_what_is_confirmed_stays_though_nobody_elects_by_hand(rule: str) -> None:
    confirmed = elections = grown = shrunk = admitted = dismissed = 0
    faults: set[str] = set()
    reasons: set[str] = set()
    for group in told_histories(
        "histories of replicas with controllers",
        rule,
        HISTORIES,
        1_000_003,
        lambda group: sum(group.controller_faults.done.values()),
    ):
        confirmed += len(group.truth)
        elections += group.register.elections
        grown += group.register.grown
        shrunk += group.register.shrunk
        admitted += group.register.admitted
        dismissed += group.register.dismissed
        reasons |= group.register.reasons.keys()
        faults |= group.controller_faults.done.keys()
    assert confirmed > HISTORIES * 5, "something happens in these histories"
    is_rare = rule == "3-3" and HISTORIES < 1_000  # all replicas confirm: few elections, and few sets that change
    assert elections > HISTORIES or is_rare, "masters are elected"
    assert grown or is_rare, "sets grow"
    assert shrunk or rule not in ("2-2", "3 in sync"), "sets shrink"
    assert rule == "3-3" or HISTORIES < 1_000 or (admitted and dismissed), (
        "replicas are made observers, and count again"
    )
    assert len(reasons) > (3 if HISTORIES >= 1_000 else 1 - is_rare), f"elections have several reasons: {reasons}"
    least = len(KINDS) if HISTORIES >= 1_000 else len(KINDS) // 2  # in a few histories chance leaves one out
    assert len(faults & set(KINDS)) >= least, f"every kind of fault comes: {faults}"
