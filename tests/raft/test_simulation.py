"""Seeded histories of a Raft group: clients, changes of members, all faults at once; then none, and progress."""

from __future__ import annotations

import pytest

from tests.raft.histories import MODULE, SIZES, run_history
from tests.raft.simulated_faults import KINDS
from tests.simulation.histories import many, tails
from tests.support.seed import SEED
from tests.tiers.marks import scaled

HISTORIES = scaled(25, 6_000)


@pytest.mark.scaled
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("size", SIZES)
def test_what_is_committed_stays(size: int) -> None:
    committed = leaders = reads = changes = snapshots = 0
    faults: set[str] = set()
    for cluster in many(
        f"histories of a Raft group of {size}",
        lambda seed: run_history(seed, size),
        HISTORIES,
        1_000_003,
        messages=lambda cluster: len(cluster.truth),
        faults=lambda cluster: sum(cluster.faults.done.values()),
    ):
        committed += len(cluster.truth)
        leaders += len(cluster.leaders)
        reads += cluster.reads
        changes += cluster.changes
        snapshots += cluster.snapshots
        faults |= cluster.faults.done.keys()
    assert committed > HISTORIES * 5, "something happens in these histories"
    assert leaders > HISTORIES, "leaders come and go"
    assert reads > HISTORIES and changes and snapshots, "reads, changes of members and snapshots come to their end"
    assert faults == set(KINDS), "every kind of fault comes"


def test_a_seed_is_one_history() -> None:
    """Whatever Python's own seeds are: its events are the same to the last one."""
    told = tails(MODULE, SEED, 3)
    assert len(told) == 1
    assert told != {""}
