"""One history of a simulated group, whole from its seed; and the command that replays one.

python -m tests.replication.histories RULE SEED [--planted NAME]
"""

from __future__ import annotations

import argparse
import sys
from typing import Final

from entrepot.domain.replication.confirmation_rule import Rule, RuleKind
from tests.replication.simulated_group import NO_FAULTS, Group, PlantedFaults

RULES: Final = {
    "2-2": Rule(RuleKind.IN_SYNC, 2),
    "3 in sync": Rule(RuleKind.IN_SYNC, 3, min_in_sync=2),
    "2-3": Rule(RuleKind.QUORUM, 3, 2),
    "3-5": Rule(RuleKind.QUORUM, 5, 3),
    "3-3": Rule(RuleKind.QUORUM, 3, 3),
}


class HistoryError(AssertionError):
    """A history has broken an invariant; says which, and how it is seen again."""


def run_history(seed: int, rule: str, planted: PlantedFaults = NO_FAULTS, name: str = "") -> Group:
    """Faults, then none, and progress.  Raises HistoryError.  `name`: of the planted fault."""
    group = Group(seed, RULES[rule], planted)
    try:
        group.clock.run_until(group.clock.chance("length").choice((200.0, 600.0, 1500.0)))
        group.heal()
    except Exception as error:
        again = f"python -m tests.replication.histories {rule!r} {seed}" + (f" --planted {name!r}" if name else "")
        told = [f"{error!r} at {group.clock.now:.2f}", *group.clock.tail(), f"again: {again}"]
        raise HistoryError("\n".join(told)) from error
    return group


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.replication.histories", description=__doc__)
    parser.add_argument("rule", choices=RULES)
    parser.add_argument("seed", type=int)
    parser.add_argument("--planted", default="", help="name of a planted fault")
    given = parser.parse_args()
    planted = NO_FAULTS
    if given.planted:
        from tests.replication.test_planted_faults import FAULTS

        planted = FAULTS[given.planted][0]
    try:
        group = run_history(given.seed, given.rule, planted, given.planted)
    except HistoryError as error:
        print(error)
        return 1
    print(f"{len(group.truth)} records confirmed, {group.opens} masters, faults: {group.faults.done}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
