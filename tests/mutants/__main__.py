"""`python -m tests.mutants [NAMES...]`: plant each fault in a copy of the checkout, and see which test finds it.

A mutant is found if a test fails that passes without it.  The tests that its patch names come first; where these find
nothing, the whole default tier.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from typing import Final

import pytest

from tests.mutants.copy import HUNG, Copy, Run, copied
from tests.mutants.mutant import Mutant, MutantError, apply_patch, chosen_mutants

MISSED: Final = 2
"""Of all together: the others must be found."""
WHOLE: Final = ("-n", "2", "--dist", "loadgroup", "tests")
NEAREST, ANYWHERE = "nearest", "whole tier"


@dataclass(frozen=True, slots=True)
class Wanted:
    """`whole`: ask the whole tier where the nearest tests find nothing.  `imports`: a fault that keeps a module from
    being imported counts as found.  `until`: when no further mutant begins, in seconds of the monotonic clock."""

    whole: bool
    imports: bool
    until: float


@dataclass(frozen=True, slots=True)
class Outcome:
    """`found_by`: the test, empty where there is none; then `problem` says why."""

    mutant: Mutant
    found_by: str
    where: str
    problem: str
    seconds: float
    is_reached: bool = True


def main(arguments: list[str] | None = None) -> int:
    """Returns the exit code."""
    given = _parser().parse_args(arguments)
    wanted = Wanted(given.whole, given.imports_count, time.monotonic() + given.for_seconds)
    try:
        mutants = chosen_mutants(given.names)
    except MutantError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    with ThreadPoolExecutor(given.jobs) as pool:
        under_way = [pool.submit(tried, mutant, wanted) for mutant in mutants]
        for each in as_completed(under_way):
            print(_line(each.result()), flush=True)
    reached = [each.result() for each in under_way if each.result().is_reached]
    found = sum(bool(each.found_by) for each in reached)
    late = len(mutants) - len(reached)
    print(f"found {found} of {len(reached)}" + (f"; {late} not reached in time" if late else ""))
    return 0 if len(reached) - found <= given.missed else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description="Do the tests find planted faults?")
    parser.add_argument("names", nargs="*", help="beginnings of names, such as 07; all where none is given")
    parser.add_argument("--jobs", type=int, default=2, help="mutants at a time (%(default)s)")
    parser.add_argument("--missed", type=int, default=MISSED, help="exit code 1 if more are missed (%(default)s)")
    parser.add_argument("--for-seconds", type=float, default=math.inf, help="begin no mutant later than that")
    parser.add_argument(
        "--whole",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="ask the whole default tier where the nearest tests find nothing",
    )
    parser.add_argument("--imports-count", action="store_true", help="a fault that breaks an import is found")
    return parser


def tried(mutant: Mutant, wanted: Wanted) -> Outcome:
    """Plant it, and run what should find it."""
    began = time.monotonic()
    if began > wanted.until:
        return Outcome(mutant, "", "", "not reached in time", 0.0, is_reached=False)
    try:
        with copied() as copy:
            apply_patch(mutant.path, copy.tree)
            found_by, where, problem = _found(copy, mutant, wanted)
    except MutantError as error:
        found_by, where, problem = "", "", str(error)
    return Outcome(mutant, found_by, where, problem, time.monotonic() - began)


def _found(copy: Copy, mutant: Mutant, wanted: Wanted) -> tuple[str, str, str]:
    """The test that finds it, where, and what is the matter if none does."""
    found_by, problem = _judged(copy, mutant, copy.pytest(*mutant.tests), wanted)
    if found_by or not wanted.whole:
        return found_by, NEAREST, problem
    found_by, further = _judged(copy, mutant, copy.pytest(*WHOLE), wanted)
    return found_by, ANYWHERE, "" if found_by else f"{problem}; {ANYWHERE}: {further}"


def _judged(copy: Copy, mutant: Mutant, run: Run, wanted: Wanted) -> tuple[str, str]:
    """The verdict on a run with the fault: the test that found it, or what is the matter."""
    if run.code in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        return "", "every test passes" if run.code == pytest.ExitCode.OK else "no test there"
    if run.code == pytest.ExitCode.INTERRUPTED and not run.failed:
        return ("a module that cannot be imported", "") if wanted.imports else ("", "a module cannot be imported")
    if run.code == HUNG:
        return "", "the tests hang"
    if run.code != pytest.ExitCode.TESTS_FAILED or not run.failed:
        return "", f"pytest ended with {run.code}: {_last_line(run)}"
    return (run.failed, "") if _passes_without(copy, mutant, run.failed) else ("", f"fails without it: {run.failed}")


def _passes_without(copy: Copy, mutant: Mutant, test: str) -> bool:
    """True where a test passes in a tree without the fault: else it has found something else."""
    apply_patch(mutant.path, copy.tree, "--reverse")
    try:
        return copy.pytest(test).code == pytest.ExitCode.OK
    finally:
        apply_patch(mutant.path, copy.tree)


def _last_line(run: Run) -> str:
    lines = run.tail.strip().splitlines()
    return lines[-1] if lines else "it said nothing"


def _line(outcome: Outcome) -> str:
    told = f"{outcome.where}: {outcome.found_by}" if outcome.found_by else f"NOT FOUND: {outcome.problem}"
    number, _, name = outcome.mutant.name.partition("-")
    return f"{number:3} {name:45}  {outcome.seconds:5.0f} s  {told}"


if __name__ == "__main__":
    sys.exit(main())
