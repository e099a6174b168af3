"""Growth: what one operation costs the more there is of something, at three sizes, and what others feel meanwhile.

Each dimension is measured at 1, 10 and 100 times its unit.  The ratio of the largest to the smallest names its shape;
what does not grow is at most twice as dear, or grows as the logarithm.  Store and index are measured in this process by
their CPU; a start, a scrape and connections at a server of its own, with the longest wait of an MQTT publish beside
them.  `docs/scale.md` has the table (`update_page`).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from rich.console import Console

from benchmarks import growth_kept, growth_server, growth_store
from benchmarks.processes import ROOT
from benchmarks.report import Goal, Report

PAGE: Final = ROOT / "docs" / "scale.md"
BEGIN, END = "<!-- growth: begin -->", "<!-- growth: end -->"
FLAT: Final = 2.0
"""Ratio up to which an operation does not grow; noise of short times is below it."""
LOGARITHMIC: Final = 4.0


class Point(NamedTuple):
    """A figure at one size.  `is_each`: it is the cost of one operation, so it must not grow; else a total."""

    dimension: str
    what: str
    unit: str
    size: int
    value: float
    is_each: bool = True


def run(console: Console, *, quick: bool) -> Report:
    """Run for some six minutes.  Quick: a tenth of the units."""
    report = Report("growth", "Cost of one operation at 100 times the things, beside 1 time", "at 1 time")
    points: list[Point] = []
    for measured in (*growth_store.PARTS, *growth_server.PARTS, *growth_kept.PARTS):
        console.print(measured.__name__.replace("_", " "), style="dim")
        points += [Point(*each) for each in measured(quick)]
    for (dimension, what, unit, is_each), values in _by_operation(points):
        (least, small), *_, (most, large) = sorted(values.items())
        goal = Goal(LOGARITHMIC, at_most=True) if is_each else None
        report.add(f"{dimension}: {what}, {least:,} to {most:,}", unit, large, small, judged="ratio", goal=goal)
    report.notes += [
        "a ratio up to 2 is flat, up to 4 logarithmic; totals have no goal",
        "in-process figures are CPU times of this process, the others those of a server with its children",
    ]
    if not quick:
        update_page(PAGE, table_of(points))
    return report


def _by_operation(points: list[Point]) -> Iterator[tuple[tuple[str, str, str, bool], dict[int, float]]]:
    found: dict[tuple[str, str, str, bool], dict[int, float]] = {}
    for point in points:
        found.setdefault((point.dimension, point.what, point.unit, point.is_each), {})[point.size] = point.value
    yield from found.items()


def shape_of(small: float, large: float, times: float) -> str:
    """Name the growth between two sizes, the larger of which is so many times the smaller; nothing for what is too
    short to be measured."""
    if not small:
        return ""
    ratio = large / small
    if ratio <= FLAT:
        return "flat"
    if ratio <= LOGARITHMIC:
        return "logarithmic"
    return "linear" if ratio <= 2 * times else "more than linear"


def table_of(points: list[Point]) -> str:
    """Return the table of the page: a row for each operation, a column for each size."""
    lines = ["| of | costs | | at 1 | at 10 | at 100 times | shape |", "|---|---|---|---:|---:|---:|---|"]
    for (dimension, what, unit, _), values in _by_operation(points):
        sizes = sorted(values)
        cells = [f"{values[size]:,.3g}" if values[size] < 1000 else f"{values[size]:,.0f}" for size in sizes]
        shape = shape_of(values[sizes[0]], values[sizes[-1]], sizes[-1] / max(sizes[0], 1))
        named = f"{dimension} ({', '.join(f'{size:,}' for size in sizes)})"
        lines.append(f"| {named} | {what} | {unit} | {' | '.join(cells)} | {shape} |")
    return "\n".join(lines)


def update_page(page: Path, table: str) -> None:
    """Write the table between its marks."""
    text = page.read_text()
    head, _, rest = text.partition(BEGIN)
    _, mark, tail = rest.partition(END)
    assert mark, f"{page.name} has the marks of the table"
    page.write_text(f"{head}{BEGIN}\n{table}\n{END}{tail}")
