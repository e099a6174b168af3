"""pytest for continuous integration: a test that fails runs once more, alone.

    python -m tests.tiers.second_try --note FILE -n 3 --dist loadgroup --tier default

If it fails again, so does this.  If not, it is a chance failure: a fault to find, named here and in the note.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Final

import pytest

from tests.tiers.run import plain, run_pytest

MAX_TRIED_AGAIN: Final = 12
"""Where more of ten thousand tests fail, chance does not explain it.  A busy machine makes a handful exceed their
seconds at once; a fault fails its second try, too."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.tiers.second_try", description=__doc__)
    parser.add_argument("--note", type=Path, help="file to which the names of chance failures are added")
    parser.add_argument("-n", dest="workers", type=int, default=3, help="processes of the first run")
    parser.add_argument("--dist", choices=["loadgroup"], help="how they share the tests")
    given, flags = parser.parse_known_args()
    return run_twice(flags, workers=given.workers, note=given.note)


def run_twice(flags: list[str], *, workers: int, limits: tuple[str, ...] = (), note: Path | None = None) -> int:
    """The exit code of both runs.  `limits`: flags of the first run alone."""
    with tempfile.TemporaryDirectory(prefix="tests-") as directory:
        cache = Path(directory)
        flags = [*flags, "-o", f"cache_dir={cache}"]
        code = run_pytest(*flags, *limits, workers=workers)
        if code != pytest.ExitCode.TESTS_FAILED:
            return code
        failed = _failed(cache)
        if len(failed) > MAX_TRIED_AGAIN:
            print(f"\n{len(failed)} tests failed; only up to {MAX_TRIED_AGAIN} are tried again.")
            return code
        # Alone it finds no server and no Java virtual machine warm: its budget says nothing there.
        return run_pytest(*flags, "--any-length", *failed, workers=0) or _tell(failed, note)


def _failed(cache: Path) -> list[str]:
    noted = json.loads((cache / "v" / "cache" / "lastfailed").read_text())
    return sorted(map(plain, noted))


def _tell(failed: list[str], note: Path | None) -> int:
    print("\nChance failures: each failed beside others and passed alone, and is a fault to find.")
    for name in failed:
        print(f"  {name}", flush=True)
    if note is not None:
        with note.open("a") as names:
            names.writelines(f"{name}\n" for name in failed)
    return pytest.ExitCode.OK


if __name__ == "__main__":
    raise SystemExit(main())
