"""The table as docs/deployment.md has it, between two comments."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import Final

from tests.failures.rows import Row, collect

ROOT: Final = Path(__file__).resolve().parents[2]
PAGE: Final = "deployment.md"
BEGIN: Final = "<!-- Made by `make docs` from the marks of tests; not edited by hand. -->"
END: Final = "<!-- The end of what `make docs` made. -->"
_HEAD: Final = ("| what fails | what happens | what is lost | where it is told | proven by |", "|---|---|---|---|---|")


def page(text: str) -> str:
    """The page with today's table between its two comments.  Raises ValueError where they are not there once each."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end or BEGIN in rest or END in before + after:
        raise ValueError(f"{PAGE} has not its two comments, once each, around the table of failures")
    return f"{before}{BEGIN}\n\n{table(collect(ROOT))}\n{END}{after}"


def table(rows: list[Row]) -> str:
    """A heading and a table for each group of the rows."""
    lines: list[str] = []
    for group, members in groupby(rows, key=lambda row: row.group):
        lines += [f"### {group}", "", *_HEAD, *map(_line, members), ""]
    return "\n".join(lines)


def write(folder: Path) -> None:
    """Write the table into the page in `folder`."""
    path = folder / PAGE
    path.write_text(page(path.read_text(encoding="utf-8")), encoding="utf-8")


def _line(row: Row) -> str:
    tests = "<br>".join(f"`{test}`" for test in row.tests)
    cells = (row.fails, row.does, row.lost, row.told)
    return f"| {' | '.join(map(_text, cells))} | {tests} |"


def _text(text: str) -> str:
    """One line for a cell of a table."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")
