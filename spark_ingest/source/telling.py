"""Words of a Python worker to people: Spark shows what it writes to its standard error."""

from __future__ import annotations

import sys

from domain.printable import printable

_told: set[str] = set()


def tell(text: str) -> None:
    """A line in the log."""
    sys.stderr.write(f"entrepot: {printable(text)}\n")


def tell_once(text: str, about: str = "") -> None:
    """The same, unless this process has said so before: this text, or another about the same thing."""
    if (about or text) not in _told:
        _told.add(about or text)
        tell(text)
