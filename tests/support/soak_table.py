"""Figures of a soak run: each test tells its figures, and `make soak` ends with a table of them."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

VARIABLE: Final = "ENTREPOT_TEST_FIGURES"
"""Names the file that the figures are added to, a JSON object a line; without it they are printed only."""


@dataclass(frozen=True, slots=True)
class Figures:
    """Counts of what one test did and found.  `faults`: kills, cuts and failures that it survived."""

    test: str
    rounds: int = 1
    messages: int = 0
    lost: int = 0
    phantom: int = 0
    duplicated: int = 0
    faults: int = 0


def tell(test: str, **counts: int) -> None:
    """Add the figures of a test; call it before the assertions, so that a failure is in the table, too."""
    line = json.dumps(asdict(Figures(test, **counts)))
    print(line)
    if path := os.environ.get(VARIABLE):
        with Path(path).open("a") as table:
            table.write(line + "\n")  # one short write: lines of several workers do not mix


def read(path: Path) -> list[Figures]:
    """All figures of a file, in the order in which they were told."""
    return [Figures(**json.loads(line)) for line in path.read_text().splitlines()] if path.exists() else []
