"""One history of a simulated group with controllers, whole from its seed; and the command that replays one.

python -m tests.controller.histories RULE SEED [--planted NAME]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from typing import Any

from tests.controller.simulated_controllers import NO_FAULTS, ControlledGroup, PlantedFaults
from tests.controller.simulated_machines import Machines
from tests.controller.simulated_put_backs import PutBacks
from tests.controller.simulated_replacements import Replacements
from tests.replication.histories import RULES, HistoryError
from tests.support.seed import SEED
from tests.support.soak_table import tell


def run_history(
    seed: int,
    rule: str,
    planted: PlantedFaults = NO_FAULTS,
    name: str = "",
    *,
    puts_back: bool = False,
    machines: type[Machines] | None = None,
    replaces: bool = False,
) -> ControlledGroup:
    """Faults, then none, and progress.  Raises HistoryError.  `name`: of the planted fault.  `puts_back`: disks.
    `machines`: have clocks of their own.  `replaces`: controllers."""
    group = ControlledGroup.__new__(ControlledGroup)
    try:
        group.__init__(seed, RULES[rule], planted, machines)  # type: ignore[misc]
        if puts_back:
            group.put_backs = PutBacks(group)
        if replaces:
            group.replacements = Replacements(group)
        group.clock.run_until(group.clock.now + group.clock.chance("length").choice((600.0, 1500.0, 3000.0)))
        group.heal()
    except Exception as error:
        again = f"python -m tests.controller.histories {rule!r} {seed}" + (f" --planted {name!r}" if name else "")
        again += (" --puts-back" if puts_back else "") + (" --clocks" if machines else "")
        again += " --replaces" if replaces else ""
        told = [f"{error!r} at {group.clock.now:.2f}", *group.clock.tail(), f"again: {again}"]
        raise HistoryError("\n".join(told)) from error
    return group


def told_histories(
    what: str, rule: str, count: int, factor: int, faults: Callable[[ControlledGroup], int], **options: Any
) -> Iterator[ControlledGroup]:
    """Yield so many histories, and tell how many they were at the end, whatever that is.  `factor`: of their seeds;
    `faults`: returns how many came in one; `options`: as of `run_history`."""
    print(f"ENTREPOT_TEST_SEED={SEED}")
    done = confirmed = found = 0
    try:
        for number in range(count):
            group = run_history(SEED * factor + number, rule, **options)
            done, confirmed, found = done + 1, confirmed + len(group.truth), found + faults(group)
            yield group
    finally:
        tell(f"{what}, {rule}", rounds=done, messages=confirmed, lost=int(done < count), faults=found)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.controller.histories", description=__doc__)
    parser.add_argument("rule", choices=RULES)
    parser.add_argument("seed", type=int)
    parser.add_argument("--planted", default="", help="name of a planted fault")
    parser.add_argument("--puts-back", action="store_true", help="put disks back to earlier states, too")
    parser.add_argument("--replaces", action="store_true", help="replace controllers, too")
    parser.add_argument("--clocks", action="store_true", help="give each machine a clock of its own")
    given = parser.parse_args()
    planted = NO_FAULTS
    if given.planted:
        from tests.controller.test_planted_faults import FAULTS

        planted = FAULTS[given.planted][0]
    try:
        group = run_history(
            given.seed,
            given.rule,
            planted,
            given.planted,
            puts_back=given.puts_back,
            replaces=given.replaces,
            machines=Machines if given.clocks else None,
        )
    except HistoryError as error:
        print(error)
        return 1
    print(f"{len(group.truth)} records confirmed, {group.opens} masters, faults: {group.faults.done}")
    if group.put_backs is not None:
        print(f"{group.put_backs.done} disks put back, {group.put_backs.found} of them without what was confirmed")
    print(f"{group.register.elections} elections: {group.register.reasons}; {group.register.shrunk} sets shrunk")
    return 0


if __name__ == "__main__":
    sys.exit(main())
