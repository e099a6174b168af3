"""The default tier beside processes that keep all cores busy: python -m tests.tiers.busy

What fails here fails by chance: on a machine that is slow, or busy with other work.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from tests.tiers.run import run_pytest

_BUSY: Final = "while True: pass"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.tiers.busy", description=__doc__)
    parser.add_argument("--times", type=int, default=3, help="runs of the tier, one after the other")
    parser.add_argument("--hogs", type=int, default=2, help="processes that keep a core busy each")
    parser.add_argument("--workers", type=int, default=3)
    given, flags = parser.parse_known_args()
    failures = 0
    with _hogs(given.hogs):
        for number in range(1, given.times + 1):
            began = time.monotonic()
            code = run_pytest("-q", *flags, workers=given.workers)
            failures += code != 0
            print(f"run {number} of {given.times}: {'passed' if code == 0 else 'FAILED'} "
                  f"in {time.monotonic() - began:.0f} s beside {given.hogs} busy processes")  # fmt: skip
    return 1 if failures else 0


@contextmanager
def _hogs(count: int) -> Iterator[None]:
    running = [subprocess.Popen([sys.executable, "-c", _BUSY]) for _ in range(count)]
    try:
        yield
    finally:
        for hog in running:
            hog.kill()
            hog.wait()


if __name__ == "__main__":
    raise SystemExit(main())
