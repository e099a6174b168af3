"""One history of a simulated Raft group, whole from its seed; and the command that replays one.

python -m tests.raft.histories SIZE SEED [--planted NAME]
"""

from __future__ import annotations

import argparse
import sys
from typing import Final

from structlog.testing import capture_logs

from tests.raft.simulated_cluster import NO_FAULTS, Cluster, PlantedFaults

SIZES: Final = (1, 3, 5)
LENGTHS: Final = (400.0, 1000.0, 2500.0)


class HistoryError(AssertionError):
    """A history has broken an invariant; says which, and names the command that repeats it."""


def run_history(seed: int, size: int, planted: PlantedFaults = NO_FAULTS, name: str = "") -> Cluster:
    """Faults, then none, and progress.  Raises HistoryError.  `size`: of the group at first."""
    cluster = Cluster(seed, size, planted)
    try:
        with capture_logs():
            cluster.clock.run_until(cluster.clock.chance("length").choice(LENGTHS))
            cluster.heal()
    except Exception as error:
        again = f"python -m tests.raft.histories {size} {seed}" + (f" --planted {name!r}" if name else "")
        told = [f"{error!r} at {cluster.clock.now:.2f}", *cluster.clock.tail(), f"again: {again}"]
        raise HistoryError("\n".join(told)) from error
    return cluster


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.raft.histories", description=__doc__)
    parser.add_argument("size", type=int, choices=SIZES)
    parser.add_argument("seed", type=int)
    parser.add_argument("--planted", default="", help="name of a planted fault")
    given = parser.parse_args()
    planted = NO_FAULTS
    if given.planted:
        from tests.raft.test_planted_faults import FAULTS

        planted = FAULTS[given.planted][0]
    try:
        cluster = run_history(given.seed, given.size, planted, given.planted)
    except HistoryError as error:
        print(error)
        return 1
    print(f"{len(cluster.truth)} entries committed, {len(cluster.leaders)} leaders, faults: {cluster.faults.done}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
