"""Seeded histories of a broker group: clients, elections, all faults at once; then none, and progress."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.replication.histories import RULES, run_history
from tests.replication.simulated_faults import KINDS
from tests.support.seed import SEED
from tests.support.soak_table import tell
from tests.tiers.marks import scaled
from tests.tiers.run import ROOT

HISTORIES = scaled(120, 6_000)


@pytest.mark.scaled
@pytest.mark.timeout(900)
@pytest.mark.parametrize("rule", RULES)
def test_what_is_confirmed_stays(rule: str) -> None:
    print(f"ENTREPOT_TEST_SEED={SEED}")
    confirmed = opens = acknowledged = grown = histories = 0
    faults: dict[str, int] = {}
    try:
        for number in range(HISTORIES):
            group = run_history(SEED * 1_000_003 + number, rule)
            histories += 1
            confirmed += len(group.truth)
            opens += group.opens
            grown += group.register.grown
            acknowledged += len(group.ledger.acknowledged)
            for kind, count in group.faults.done.items():
                faults[kind] = faults.get(kind, 0) + count
    finally:
        tell(
            f"histories of replicas, {rule}",
            rounds=histories,
            messages=confirmed,
            lost=int(histories < HISTORIES),
            faults=sum(faults.values()),
        )
    assert confirmed > HISTORIES * 5, "something happens in these histories"
    assert opens > HISTORIES, "masters come and go"
    assert acknowledged and grown, "messages are acknowledged, sets grow"
    expected = {kind for kind in KINDS if rule != "3-3" or kind not in ("wipe", "roll back")}
    assert faults.keys() == expected, "every kind of fault comes"


def test_a_seed_is_one_history() -> None:
    """Whatever Python's own seeds are: its events are the same to the last one."""
    code = "from tests.replication.histories import run_history; print(*run_history({}, '2-3').clock.tail(), sep='\\n')"
    told = {
        subprocess.run(
            [sys.executable, "-c", code.format(SEED)],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(told) == 1
    assert told != {""}
