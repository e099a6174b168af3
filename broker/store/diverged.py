"""Diverged parts: what a replica cut from its log and kept in `diverged/`, a file each, named by its place."""

from __future__ import annotations

from typing import Final, NamedTuple

DIRECTORY: Final = "diverged"


class DivergedPart(NamedTuple):
    """A part: begin and end in the log. `confirmed`: end of what was confirmed of it; `start` where nothing was."""

    start: int
    end: int
    confirmed: int

    @property
    def file_name(self) -> str:
        """The name of its file; earlier versions wrote no confirmed end."""
        name = f"{self.start:020d}-{self.end:020d}"
        return f"{name}-{self.confirmed:020d}" if self.confirmed > self.start else name


def part_of(name: str) -> DivergedPart | None:
    """Return the part that a file has by its name, or None."""
    numbers = name.split("-")
    if len(numbers) not in (2, 3) or not all(each.isascii() and each.isdecimal() for each in numbers):
        return None
    start, end, *confirmed = map(int, numbers)
    return DivergedPart(start, end, *confirmed or (start,))
