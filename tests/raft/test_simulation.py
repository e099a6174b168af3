"""Seeded histories of a Raft group: clients, changes of members, all faults at once; then none, and progress."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.raft.histories import SIZES, run_history
from tests.raft.simulated_faults import KINDS
from tests.support.seed import SEED
from tests.support.soak_table import tell
from tests.tiers.marks import scaled
from tests.tiers.run import ROOT

HISTORIES = scaled(25, 6_000)


@pytest.mark.scaled
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("size", SIZES)
def test_what_is_committed_stays(size: int) -> None:
    print(f"ENTREPOT_TEST_SEED={SEED}")
    committed = leaders = reads = changes = snapshots = histories = 0
    faults: dict[str, int] = {}
    try:
        for number in range(HISTORIES):
            cluster = run_history(SEED * 1_000_003 + number, size)
            histories += 1
            committed += len(cluster.truth)
            leaders += len(cluster.leaders)
            reads += cluster.reads
            changes += cluster.changes
            snapshots += cluster.snapshots
            for kind, count in cluster.faults.done.items():
                faults[kind] = faults.get(kind, 0) + count
    finally:
        tell(
            f"histories of a Raft group of {size}",
            rounds=histories,
            messages=committed,
            lost=int(histories < HISTORIES),
            faults=sum(faults.values()),
        )
    assert committed > HISTORIES * 5, "something happens in these histories"
    assert leaders > HISTORIES, "leaders come and go"
    assert reads > HISTORIES and changes and snapshots, "reads, changes of members and snapshots come to their end"
    assert faults.keys() == set(KINDS), "every kind of fault comes"


def test_a_seed_is_one_history() -> None:
    """Whatever Python's own seeds are: its events are the same to the last one."""
    code = "from tests.raft.histories import run_history; print(*run_history({}, 3).clock.tail(), sep='\\n')"
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
