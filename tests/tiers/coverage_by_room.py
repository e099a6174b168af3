"""Branch coverage by room: python -m tests.tiers.coverage_by_room [--workers 3] [pytest's arguments]

Runs the default tier, or what the arguments choose, under coverage.py, and prints a table of rooms: the top two folder
levels of the product.  Processes that tests start are measured, too, and servers that tests kill
(`tests/support/processes/measured.py`).  The process that syncs the log is not: it starts without site-packages.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import shutil
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import psutil  # type: ignore[import-untyped]

from tests.tiers.run import ROOT, run_pytest

CONFIGURATION: Final = ROOT / "pyproject.toml"
RESULTS: Final = ROOT / ".coverage"
PAGES: Final = RESULTS / "html"
VARIABLE: Final = "COVERAGE_PROCESS_START"
"""Each Python process that has it measures itself (`a1_coverage.pth`)."""
LATE_SECONDS: Final = 30
"""For processes that end behind their test, and then write what they have run."""


@dataclass(slots=True)
class Room:
    """Counts of one room's files."""

    statements: int = 0
    run_statements: int = 0
    branches: int = 0
    taken_branches: int = 0

    def add(self, counts: Mapping[str, int]) -> None:
        """Add a file's counts, by the names of coverage's JSON."""
        self.statements += counts["num_statements"]
        self.run_statements += counts["covered_lines"]
        self.branches += counts["num_branches"]
        self.taken_branches += counts["covered_branches"]


def main(arguments: list[str] | None = None) -> int:
    """Measure, print the table; return pytest's exit code."""
    parser = argparse.ArgumentParser(prog="make coverage", description=__doc__)
    parser.add_argument(
        "--workers", type=int, default=3, help="processes that share the tests; 0: this one's child alone"
    )
    given, flags = parser.parse_known_args(arguments)
    shutil.rmtree(RESULTS, ignore_errors=True)
    RESULTS.mkdir()
    # measured code is slower than the budgets of the tier allow
    code = run_pytest("--any-length", *flags, workers=given.workers, environment={VARIABLE: str(CONFIGURATION)})
    psutil.wait_procs(list(_measured()), LATE_SECONDS)
    if (counts := combined()) is None:
        print("No test was run.")
        return code or 1
    print(table(by_room(counts)))
    print(f"line by line: {PAGES.relative_to(ROOT)}/index.html")
    return code


def _measured() -> Iterator[psutil.Process]:
    """The processes of this run that have not ended."""
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.environ().get(VARIABLE) == str(CONFIGURATION):
                yield process


def combined() -> dict[str, Any] | None:
    """Counts by file, of the data of all processes, which become one; the pages are written beside it."""
    import coverage
    from coverage.exceptions import NoDataError

    os.chdir(ROOT)  # files are named from here
    found = coverage.Coverage(config_file=str(CONFIGURATION))
    try:
        found.combine()
        found.save()
        found.html_report(directory=str(PAGES))
        found.json_report(outfile=str(RESULTS / "counts.json"))
    except NoDataError:
        return None
    files: dict[str, Any] = json.loads((RESULTS / "counts.json").read_text())["files"]
    return {name: file["summary"] for name, file in files.items()}


def by_room(counts: Mapping[str, Mapping[str, int]]) -> dict[str, Room]:
    """The rooms by name."""
    rooms: dict[str, Room] = defaultdict(Room)
    for name, file in counts.items():
        rooms[room_of(name)].add(file)
    return dict(sorted(rooms.items()))


def room_of(file: str) -> str:
    """The top two folder levels of a file's path."""
    return "/".join(Path(file).parent.parts[:2])


def table(rooms: Mapping[str, Room]) -> str:
    """A line for each room, and one for all of them."""
    total = Room()
    lines = io.StringIO()
    width = max(len("room"), *map(len, rooms))
    print(f"{'room':{width}}  statements     run  branches   taken", file=lines)
    for name, room in rooms.items():
        print(_line(name, room, width), file=lines)
        for field in Room.__slots__:
            setattr(total, field, getattr(total, field) + getattr(room, field))
    print(_line("all", total, width), file=lines)
    return lines.getvalue().rstrip("\n")


def _line(name: str, room: Room, width: int) -> str:
    run, taken = _share(room.run_statements, room.statements), _share(room.taken_branches, room.branches)
    return f"{name:{width}}  {room.statements:10,}  {run:>6}  {room.branches:8,}  {taken:>6}"


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else "-"


if __name__ == "__main__":
    raise SystemExit(main())
