"""A part of the interop and soak tiers that takes a fixed time: python -m tests.tiers.slice --order COMMIT

The commit decides the order of the files, and what does not begin in time is left out: each test comes by within some
ten commits.  A test that fails has a second try (`second_try.py`).
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final

from tests.tiers.second_try import run_twice

MIN_SECONDS: Final = 60
"""A shorter slice would only start servers."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.tiers.slice", description=__doc__)
    parser.add_argument("--order", required=True, help="text that decides the order of the files, such as a commit")
    parser.add_argument("--seconds", type=float, default=480, help="time after which no test begins")
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--note", type=Path, help="file to which the names of chance failures are added")
    given = parser.parse_args()
    if given.seconds < MIN_SECONDS:
        print(f"no slice: {given.seconds:.0f} s are left of the time, it needs {MIN_SECONDS}")
        return 0
    limits = ("--order", given.order, "--for-seconds", str(given.seconds))
    return run_twice(["--tier", "rest", "-q"], workers=given.workers, limits=limits, note=given.note)


if __name__ == "__main__":
    raise SystemExit(main())
