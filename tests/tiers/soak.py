"""The soak tier, round after round until the time is over: python -m tests.tiers.soak --minutes 60

Each round has a seed of its own, which is printed; `--seed` repeats one round.  First come the planted faults, which
the default tier must find.  The end is a table of what all rounds counted.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from dataclasses import fields
from pathlib import Path
from typing import Final

from tests.support.soak_table import VARIABLE, Figures, read
from tests.tiers.run import ROOT, run_pytest

SHARE_OF_MUTANTS: Final = 0.5
"""The planted faults take at most this part of the time; those that it does not reach are named."""
_COUNTS: Final = [each.name for each in fields(Figures) if each.name != "test"]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.tiers.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--seed", type=int, help="one round with the seed of an earlier one")
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--without-mutants", action="store_true", help="leave the planted faults out")
    given, flags = parser.parse_known_args()
    end = time.monotonic() + 60 * given.minutes
    code = 0
    if not given.without_mutants and given.seed is None:
        code = _mutants(60 * given.minutes * SHARE_OF_MUTANTS)
    with tempfile.TemporaryDirectory(prefix="soak-") as directory:
        figures = Path(directory) / "figures"
        failed = _rounds(end, given.seed, given.workers, flags, figures)
        print(table(read(figures)))
    for seed in failed:
        print(f"a round failed; it is repeated by: make soak SEED={seed}")
    return 1 if failed or code else 0


def _mutants(seconds: float) -> int:
    command = [sys.executable, "-m", "tests.mutants", "--for-seconds", str(seconds)]
    return subprocess.run(command, cwd=ROOT, check=False).returncode


def _rounds(end: float, seed: int | None, workers: int, flags: list[str], figures: Path) -> list[int]:
    """The seeds of the rounds that failed."""
    failed, number = [], 0
    while number == 0 or (seed is None and time.monotonic() < end):
        number += 1
        own = seed if seed is not None else random.SystemRandom().randrange(1, 1 << 31)
        left = [] if seed is not None else ["--for-seconds", str(max(1.0, end - time.monotonic()))]
        print(f"round {number}: ENTREPOT_TEST_SEED={own}", flush=True)
        chosen = ["--tier", "soak", "-q", "--order", str(own), f"--hypothesis-seed={own}", *left, *flags]
        environment = {"ENTREPOT_TEST_SEED": str(own), VARIABLE: str(figures)}
        if run_pytest(*chosen, workers=workers, environment=environment):
            failed.append(own)
    return failed


def table(told: list[Figures]) -> str:
    """A line for each test with the sums of its figures, and one for all."""
    sums: dict[str, list[int]] = defaultdict(lambda: [0] * len(_COUNTS))
    for each in told:
        for name in (each.test, "all"):
            sums[name] = [sum(pair) for pair in zip(sums[name], (getattr(each, of) for of in _COUNTS), strict=True)]
    order = [*sorted(name for name in sums if name != "all"), *(["all"] if sums else [])]
    width = max([4, *map(len, order)])
    lines = ["", f"{'test':{width}}" + "".join(f"{name:>12}" for name in _COUNTS)]
    lines += [f"{name:{width}}" + "".join(f"{count:12,}" for count in sums[name]) for name in order]
    return "\n".join(lines)


if __name__ == "__main__":
    raise SystemExit(main())
