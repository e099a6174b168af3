"""A part of the interop and soak tiers that takes a fixed time: python -m tests.tiers.slice --order COMMIT

The commit decides the order of the files, and what does not begin in time is left out: each test comes by within some
ten commits.  A test that fails runs once more, alone.  If it fails again, so does this; if not, the last lines name it.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Final

import pytest

from tests.tiers.run import plain, run_pytest

MIN_SECONDS: Final = 60
"""A shorter slice would only start servers."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.tiers.slice", description=__doc__)
    parser.add_argument("--order", required=True, help="text that decides the order of the files, such as a commit")
    parser.add_argument("--seconds", type=float, default=480, help="time after which no test begins")
    parser.add_argument("--workers", type=int, default=3)
    given = parser.parse_args()
    if given.seconds < MIN_SECONDS:
        print(f"no slice: {given.seconds:.0f} s are left of the time, it needs {MIN_SECONDS}")
        return 0
    with tempfile.TemporaryDirectory(prefix="slice-") as directory:
        cache = Path(directory)
        flags = ["--tier", "rest", "-q", "-o", f"cache_dir={cache}"]
        limits = ["--order", given.order, "--for-seconds", str(given.seconds)]
        code = run_pytest(*flags, *limits, workers=given.workers)
        return code if code != pytest.ExitCode.TESTS_FAILED else _once_more(flags, _failed(cache))


def _failed(cache: Path) -> list[str]:
    noted = json.loads((cache / "v" / "cache" / "lastfailed").read_text())
    return sorted(map(plain, noted))


def _once_more(flags: list[str], failed: list[str]) -> int:
    code = run_pytest(*flags, *failed, workers=0)
    if code:
        return code
    print("\nChance failures: each failed in the slice and passed alone, and is a fault to find.")
    for name in failed:
        print(f"  {name}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
