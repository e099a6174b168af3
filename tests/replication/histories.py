"""One history of a simulated group, whole from its seed; and the command that replays one.

python -m tests.replication.histories RULE SEED [--planted NAME]
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import Final

from entrepot.domain.replication.confirmation_rule import Rule, RuleKind
from tests.replication.simulated_group import NO_FAULTS, Group, PlantedFaults
from tests.simulation.histories import Replay, command, lived

MODULE: Final = "tests.replication.histories"
LENGTHS: Final = (200.0, 600.0, 1500.0)
RULES: Final = {
    "2-2": Rule(RuleKind.IN_SYNC, 2),
    "3 in sync": Rule(RuleKind.IN_SYNC, 3, min_in_sync=2),
    "2-3": Rule(RuleKind.QUORUM, 3, 2),
    "3-5": Rule(RuleKind.QUORUM, 5, 3),
    "3-3": Rule(RuleKind.QUORUM, 3, 3),
}


def run_history(seed: int, rule: str, planted: PlantedFaults | None = None, name: str = "") -> Group:
    """Faults, then none, and progress.  Raises HistoryError.  `name`: of the planted fault."""
    return lived(
        seed, lambda clock: Group(clock, RULES[rule], planted or NO_FAULTS), LENGTHS, command(MODULE, rule, seed, name)
    )


def _planted() -> Mapping[str, PlantedFaults]:
    from tests.replication.test_planted_faults import FAULTS

    return {name: planted for name, (planted, _) in FAULTS.items()}


def _told(group: Group) -> Iterable[str]:
    yield f"{len(group.truth)} records confirmed, {group.opens} masters, faults: {group.faults.done}"


if __name__ == "__main__":
    sys.exit(Replay(MODULE, __doc__, "rule", [*RULES], run_history, _planted, _told).main())
