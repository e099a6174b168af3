"""Findings: the faults of a data directory, each in one line."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final

MOST_OF_A_KIND: Final = 50
"""Findings of one kind that are listed; the rest is only counted."""


class Severity(IntEnum):
    """Severity, the gravest first. A NOTE is not a problem."""

    DAMAGE = 0  # kept data is corrupted or missing, or the store does not open
    DERIVED = 1  # derived data is corrupted or differs from the log; it can be rebuilt where the log has it
    STRAY = 2  # it belongs to nothing
    NOTE = 3


@dataclass(frozen=True, slots=True)
class Finding:
    """One fault. `kind` is a word for programs, `text` a sentence for people."""

    severity: Severity
    kind: str
    text: str

    def as_json(self) -> dict[str, Any]:
        return {"severity": self.severity.name.lower(), "kind": self.kind, "text": self.text}


class Findings:
    """A collection of findings, bounded for each kind."""

    def __init__(self) -> None:
        self._found: list[Finding] = []
        self._counts: Counter[tuple[Severity, str]] = Counter()

    def add(self, severity: Severity, kind: str, text: str) -> None:
        self._counts[severity, kind] += 1
        if self._counts[severity, kind] <= MOST_OF_A_KIND:
            self._found.append(Finding(severity, kind, text))

    def damage(self, kind: str, text: str) -> None:
        self.add(Severity.DAMAGE, kind, text)

    def derived(self, kind: str, text: str) -> None:
        self.add(Severity.DERIVED, kind, text)

    def stray(self, kind: str, text: str) -> None:
        self.add(Severity.STRAY, kind, text)

    def note(self, kind: str, text: str) -> None:
        self.add(Severity.NOTE, kind, text)

    @property
    def is_healthy(self) -> bool:
        return all(severity == Severity.NOTE for severity, _ in self._counts)

    def listed(self) -> list[Finding]:
        """Return the findings, most severe first, otherwise as they were found."""
        more = [
            Finding(severity, kind, f"{count - MOST_OF_A_KIND} more findings of the kind {kind!r}")
            for (severity, kind), count in self._counts.items()
            if count > MOST_OF_A_KIND
        ]
        return sorted([*self._found, *more], key=lambda finding: finding.severity)
