"""Messages of a Python worker to people: Spark shows its standard error."""

from __future__ import annotations

import sys

from entrepot.domain.printable import printable

_told: set[str] = set()


def tell(text: str) -> None:
    """Write a line into the log."""
    sys.stderr.write(f"entrepot: {printable(text)}\n")


def tell_once(text: str, about: str = "") -> None:
    """Write a line once per process, by its text or by the thing that it is about."""
    if (about or text) not in _told:
        _told.add(about or text)
        tell(text)
