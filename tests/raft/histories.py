"""One history of a simulated Raft group, whole from its seed; and the command that replays one.

python -m tests.raft.histories SIZE SEED [--planted NAME]
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import Final

from tests.raft.simulated_cluster import NO_FAULTS, Cluster, PlantedFaults
from tests.simulation.histories import Replay, command, lived

MODULE: Final = "tests.raft.histories"
SIZES: Final = (1, 3, 5)
LENGTHS: Final = (400.0, 1000.0, 2500.0)


def run_history(seed: int, size: int, planted: PlantedFaults | None = None, name: str = "") -> Cluster:
    """Faults, then none, and progress.  Raises HistoryError.  `size`: of the group at first.  `name`: of the planted
    fault."""
    return lived(
        seed, lambda clock: Cluster(clock, size, planted or NO_FAULTS), LENGTHS, command(MODULE, size, seed, name)
    )


def _planted() -> Mapping[str, PlantedFaults]:
    from tests.raft.test_planted_faults import FAULTS

    return {name: planted for name, (planted, *_) in FAULTS.items()}


def _told(cluster: Cluster) -> Iterable[str]:
    yield f"{len(cluster.truth)} entries committed, {len(cluster.leaders)} leaders, faults: {cluster.faults.done}"


if __name__ == "__main__":
    sys.exit(Replay(MODULE, __doc__, "size", SIZES, run_history, _planted, _told).main())
