"""Where mosquitto 2.0 does something else than a case says, and why the case is right.

`observed` is part of what the player reports when it plays the case: a difference that is not there any more, or has
become another one, fails its test.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Difference:
    """One case that mosquitto does not pass."""

    case: str
    observed: str
    why: str


DIFFERENCES: Final[list[Difference]] = []

MOSQUITTO: Final = {difference.case: difference for difference in DIFFERENCES}
