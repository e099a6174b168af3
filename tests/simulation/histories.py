"""Histories, each whole from its seed: one, as many as a test wants, or until one of them shows a planted fault.

One that breaks an invariant is told with its last events, and with the command that replays it.
"""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Generic, TypeVar

from structlog.testing import capture_logs

from tests.simulation.clock import Clock
from tests.simulation.world import World
from tests.support.seed import SEED
from tests.support.soak_table import tell
from tests.tiers.marks import scaled
from tests.tiers.run import ROOT

W = TypeVar("W", bound=World)


class HistoryError(AssertionError):
    """A history has broken an invariant; says which, and names the command that repeats it."""


def lived(seed: int, make: Callable[[Clock], W], lengths: Sequence[float], again: str) -> W:
    """Faults, then none, and progress.  Raises HistoryError.  `again`: the command that replays it."""
    clock = Clock(seed)
    try:
        with capture_logs():
            world = make(clock)
            clock.run_until(clock.now + clock.chance("length").choice(lengths))
            world.heal()
    except Exception as error:
        told = [f"{error!r} at {clock.now:.2f}", *clock.tail(), f"again: {again}"]
        raise HistoryError("\n".join(told)) from error
    return world


# -- a command ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Replay(Generic[W]):
    """The command that replays a history of one world.

    `choice`: name of its argument before the seed, which is one of `choices`.  `run` takes the seed, that choice, a
    planted fault or None, its name, and each of `flags` by its name.  `planted`: faults by name.  `told`: lines about a
    history.
    """

    module: str
    about: str
    choice: str
    choices: Sequence[Any]
    run: Callable[..., W]
    planted: Callable[[], Mapping[str, Any]]
    told: Callable[[W], Iterable[str]]
    flags: Mapping[str, str] = field(default_factory=dict)

    def main(self) -> int:
        """The exit code: 1 where the history breaks an invariant."""
        parser = argparse.ArgumentParser(prog=f"python -m {self.module}", description=self.about)
        parser.add_argument(self.choice, type=type(self.choices[0]), choices=self.choices)
        parser.add_argument("seed", type=int)
        parser.add_argument("--planted", default="", help="name of a planted fault")
        for flag, text in self.flags.items():
            parser.add_argument(f"--{flag.replace('_', '-')}", action="store_true", help=text)
        given = vars(parser.parse_args())
        name = given["planted"]
        planted = self.planted()[name] if name else None
        flags = {each: given[each] for each in self.flags}
        try:
            world = self.run(given["seed"], given[self.choice], planted, name, **flags)
        except HistoryError as error:
            print(error)
            return 1
        print(*self.told(world), sep="\n")
        return 0


def command(module: str, choice: object, seed: int, name: str = "", flags: Iterable[str] = ()) -> str:
    """The one that replays a history.  `name`: of a planted fault."""
    planted = ["--planted", name] if name else []
    given = [f"--{flag.replace('_', '-')}" for flag in flags]
    return shlex.join(["python", "-m", module, str(choice), str(seed), *planted, *given])


# -- tests -------------------------------------------------------------------------------------------------------------


def many(
    what: str,
    run: Callable[[int], W],
    count: int,
    factor: int,
    *,
    messages: Callable[[W], int],
    faults: Callable[[W], int],
) -> Iterator[W]:
    """Histories of the run's seed; in the end, whatever that is, the table of soak is told how many they were.

    `factor` keeps the seeds of several tests apart.  `messages`, `faults`: counts of one history.
    """
    print(f"ENTREPOT_TEST_SEED={SEED}")
    done = found_messages = found_faults = 0
    try:
        for number in range(count):
            world = run(SEED * factor + number)
            done += 1
            found_messages += messages(world)
            found_faults += faults(world)
            yield world
    finally:
        tell(what, rounds=done, messages=found_messages, lost=int(done < count), faults=found_faults)


def find(purpose: str, run: Callable[[int], object], most: int, known: int | None = None) -> int:
    """The seed of a history that shows a planted fault.  Raises AssertionError where none of so many does.

    In the default tier the seeds are the same in every run.  `known`: one that is looked at first.
    """
    chance = Random(f"{purpose}{scaled('', SEED)}")
    for number in range(most):
        seed = known if number == 0 and known is not None else chance.getrandbits(32)
        try:
            run(seed)
        except HistoryError as found:
            print(f"{found}\nfound in history {number + 1}, seed {seed}")
            return seed
    raise AssertionError(f"{purpose}: not found in {most} histories")


def tails(module: str, *arguments: object) -> set[str]:
    """The last events of one history, in processes of other hash seeds.  `arguments`: of `run_history`."""
    code = f"from {module} import run_history; print(*run_history(*{arguments!r}).clock.tail(), sep='\\n')"
    return {
        subprocess.run(
            [sys.executable, "-c", code],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
