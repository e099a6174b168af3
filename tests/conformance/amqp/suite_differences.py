"""Tests of the suites that pass on RabbitMQ and not on our server, each with its reason."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Difference:
    """Tests of one suite, and why they fail here."""

    suite: str
    tests: tuple[str, ...]
    why: str


DIFFERENCES: Final[tuple[Difference, ...]] = ()

REASONS: Final = {(one.suite, test): one.why for one in DIFFERENCES for test in one.tests}
