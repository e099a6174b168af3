"""A rolling restart: every process of a deployment, one after the other, each only while all are healthy.

Name servers and controllers come first, then the slaves and at last the master of each broker, then gateways. A master
hands over before it stops: by itself where controllers elect, else it is moved here. Nothing is restarted while there
is a problem; the problem is told.

    python -m deploy.rolling plan.toml

Exit codes: 0 all were restarted, 1 it stopped in the middle and says where, 2 wrong usage. `deploy/plan.py` describes
plans. ENTREPOT_TOKEN, or ENTREPOT_USER and ENTREPOT_PASSWORD, are its credentials.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from deploy.health import Health
from deploy.plan import Part, Plan, PlanError, read_plan
from entrepot.domain.printable import printable
from entrepot.gateway.cli.errors import CommandError

PATIENCE_SECONDS: Final = 600.0
"""Longest wait for health: a replica may have much to read, and to copy."""
LOOK_SECONDS: Final = 0.25


class RollingError(Exception):
    """The restart cannot go on, for the given reason."""


class Roll:
    """The restart; `restart` ends a process and starts it again, returning after the end of the old one. `say` tells
    people."""

    def __init__(
        self,
        plan: Plan,
        restart: Callable[[Part], None],
        say: Callable[[str], None],
        patience: float = PATIENCE_SECONDS,
    ) -> None:
        self._plan, self._restart, self._say, self._patience = plan, restart, say, patience
        self._health = Health(plan)
        self.restarted: list[Part] = []

    def run(self) -> None:
        """Restart everything. Raises RollingError."""
        self._wait_well("before anything is restarted")
        for part in (*self._plan.of("nameserver"), *self._plan.of("controller")):
            self._next(part)
        for name, replicas in self._plan.brokers.items():
            self._roll_broker(name, list(replicas))
        for part in self._plan.of("gateway"):
            self._next(part)

    def _roll_broker(self, name: str, left: list[Part]) -> None:
        """Restart slaves first; the mastership may move meanwhile by itself."""
        others = {part.replica for part in left}
        while left:
            master = self._health.master(name)
            part = next((each for each in left if each.replica != master), left[0])
            left.remove(part)
            if master and part.replica == master and not self._plan.is_controlled:
                self._hand_over(part, sorted(others - {master}))
            self._next(part)

    def _hand_over(self, part: Part, others: Sequence[int]) -> None:
        """Move the mastership to another replica; if one is refused, as an observer is, to the next."""
        refusals = []
        for replica in others:
            try:
                self._health.elect(part.broker, replica)
            except CommandError as error:
                refusals.append(f"replica {replica}: {error}")
                continue
            self._say(f"{part.broker}: replica {replica} is master")
            self._wait_well(f"after replica {replica} of {part.broker} became master")
            return
        if others:
            raise RollingError(f"no replica takes {part.broker} over: {'; '.join(refusals)}")

    def _next(self, part: Part) -> None:
        self._say(f"restarting {part.name}")
        begun = time.monotonic()
        self._restart(part)
        self.restarted.append(part)
        self._wait_well(f"after {part.name} was restarted")
        self._say(f"{part.name}: all is well after {time.monotonic() - begun:.1f} s")

    def _wait_well(self, when: str) -> None:
        end = time.monotonic() + self._patience
        while problems := self._health.problems():
            if time.monotonic() > end:
                raise RollingError(f"not well {when}: {'; '.join(problems)}")
            time.sleep(LOOK_SECONDS)


def run_command(part: Part) -> None:
    """Run the command of the plan. Raises RollingError."""
    done = subprocess.run(part.restart, shell=True, check=False, stdin=subprocess.DEVNULL)  # the operator's own
    if done.returncode:
        raise RollingError(f"the command for {part.name} ended with {done.returncode}: {part.restart}")


def main(given: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m deploy.rolling", description="Restart a deployment, part by part.")
    parser.add_argument("plan", type=Path, help="TOML file with every part: docs/rolling-restart.md")
    parser.add_argument("--patience", type=float, default=PATIENCE_SECONDS, metavar="SECONDS", help="longest wait")
    parser.add_argument("--check", action="store_true", help="read the plan, ask how all is, and restart nothing")
    wanted = parser.parse_args(given)
    try:
        plan = read_plan(wanted.plan)
    except (PlanError, OSError) as error:
        _complain(f"{wanted.plan}: {error}")
        return 2
    if wanted.check:
        problems = Health(plan).problems()
        for problem in problems:
            _complain(problem)
        return 1 if problems else 0
    roll = Roll(plan, run_command, _say, wanted.patience)
    try:
        roll.run()
    except RollingError as error:
        _complain(str(error))
        left = [part.name for part in plan.part if part not in roll.restarted]
        _complain(f"{len(roll.restarted)} were restarted; left: {', '.join(left) or 'none'}")
        return 1
    return 0


def _say(text: str) -> None:
    sys.stdout.write(f"{printable(text)}\n")
    sys.stdout.flush()


def _complain(text: str) -> None:
    sys.stderr.write(f"{printable(text)}\n")


if __name__ == "__main__":
    sys.exit(main())
