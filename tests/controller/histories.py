"""One history of a simulated group with controllers, whole from its seed; and the command that replays one.

python -m tests.controller.histories RULE SEED [--planted NAME]
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Final

from tests.controller.simulated_controllers import NO_FAULTS, ControlledGroup, PlantedFaults
from tests.controller.simulated_machines import Machines
from tests.controller.simulated_put_backs import PutBacks
from tests.controller.simulated_replacements import Replacements
from tests.replication.histories import RULES
from tests.simulation.clock import Clock
from tests.simulation.histories import Replay, command, lived, many

MODULE: Final = "tests.controller.histories"
LENGTHS: Final = (600.0, 1500.0, 3000.0)
FLAGS: Final = {
    "puts_back": "put disks back to earlier states, too",
    "replaces": "replace controllers, too",
    "clocks": "give each machine a clock of its own",
}


def run_history(
    seed: int,
    rule: str,
    planted: PlantedFaults | None = None,
    name: str = "",
    *,
    puts_back: bool = False,
    machines: type[Machines] | None = None,
    replaces: bool = False,
) -> ControlledGroup:
    """Faults, then none, and progress.  Raises HistoryError.  `name`: of the planted fault.  `puts_back`: disks.
    `machines`: have clocks of their own.  `replaces`: controllers."""

    def make(clock: Clock) -> ControlledGroup:
        group = ControlledGroup(clock, RULES[rule], planted or NO_FAULTS, machines)
        if puts_back:
            group.put_backs = PutBacks(group)
        if replaces:
            group.replacements = Replacements(group)
        return group

    has = {"puts_back": puts_back, "replaces": replaces, "clocks": machines is not None}
    again = command(MODULE, rule, seed, name, [flag for flag in FLAGS if has[flag]])
    return lived(seed, make, LENGTHS, again)


def told_histories(
    what: str, rule: str, count: int, factor: int, faults: Callable[[ControlledGroup], int], **options: Any
) -> Iterator[ControlledGroup]:
    """As `many`.  `options`: as of `run_history`."""
    run = partial(run_history, rule=rule, **options)
    return many(f"{what}, {rule}", run, count, factor, messages=lambda group: len(group.truth), faults=faults)


def _replayed(seed: int, rule: str, planted: PlantedFaults | None, name: str, **flags: bool) -> ControlledGroup:
    machines = Machines if flags.pop("clocks") else None
    return run_history(seed, rule, planted, name, machines=machines, **flags)


def _planted() -> Mapping[str, PlantedFaults]:
    from tests.controller.test_planted_faults import FAULTS

    return {name: planted for name, (planted, _) in FAULTS.items()}


def _told(group: ControlledGroup) -> Iterable[str]:
    yield f"{len(group.truth)} records confirmed, {group.opens} masters, faults: {group.faults.done}"
    if group.put_backs is not None:
        yield f"{group.put_backs.done} disks put back, {group.put_backs.found} of them without what was confirmed"
    yield f"{group.register.elections} elections: {group.register.reasons}; {group.register.shrunk} sets shrunk"


if __name__ == "__main__":
    sys.exit(Replay(MODULE, __doc__, "rule", [*RULES], _replayed, _planted, _told, FLAGS).main())
