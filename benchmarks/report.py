"""The results of a benchmark: on the terminal, and as Markdown and JSON under `benchmarks/results/`.

Every row names a figure, perhaps its goal, and its peer. The machine is described by facts that matter for the figures
and by nothing that identifies its owner.
"""

from __future__ import annotations

import datetime
import json
import os
import platform
import statistics
import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.table import Table

RESULTS: Final = Path(__file__).with_name("results")


@dataclass(frozen=True, slots=True)
class Goal:
    """A goal of a figure: at least, or at most."""

    value: float
    at_most: bool = False

    def is_met(self, figure: float) -> bool:
        return figure <= self.value if self.at_most else figure >= self.value

    def __str__(self) -> str:
        return f"{'<=' if self.at_most else '>='} {self.value:,g}"


@dataclass(slots=True)
class Row:
    """One line of a table. `judged` is the subject of the goal (ours, or a ratio)."""

    what: str
    unit: str
    ours: float | None = None
    theirs: float | None = None
    ratio: float | None = None
    judged: str = "ours"
    goal: Goal | None = None

    def verdict(self) -> str:
        figure = self.ratio if self.judged == "ratio" else self.ours
        if self.goal is None or figure is None:
            return ""
        return "met" if self.goal.is_met(figure) else "missed"

    def cells(self) -> list[str]:
        goal = "" if self.goal is None else f"{self.judged} {self.goal}"
        ratio = "" if self.ratio is None else f"{self.ratio:.2f}"
        return [self.what, self.unit, _number(self.ours), _number(self.theirs), ratio, goal, self.verdict()]


@dataclass(slots=True)
class Report:
    """A benchmark's rows and notes.  `own`, `peer`: heads of the columns with our figures and those beside them."""

    name: str
    title: str
    peer: str = ""
    rows: list[Row] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    own: str = "ours"

    def add(self, what: str, unit: str, ours: float | None, theirs: float | None = None, **more: Any) -> None:
        """Add a figure; with a peer's beside it the ratio is ours by theirs."""
        ratio = ours / theirs if ours is not None and theirs else None
        self.rows.append(Row(what, unit, ours, theirs, ratio, **more))

    def columns(self) -> list[str]:
        return ["what", "unit", self.own, self.peer or "peer", "ratio", "goal", ""]

    def show(self, console: Console) -> None:
        table = Table(title=self.title, title_justify="left")
        for number, column in enumerate(self.columns()):
            table.add_column(column, justify="right" if 2 <= number <= 4 else "left")
        for row in self.rows:
            style = {"missed": "yellow", "met": "green"}.get(row.verdict())
            table.add_row(*row.cells(), style=style)
        console.print(table)
        for note in self.notes:
            console.print(f"  {note}", style="dim")

    def write(self, machine: dict[str, Any]) -> None:
        """Write Markdown for people, JSON for programs."""
        RESULTS.mkdir(exist_ok=True)
        facts = ", ".join(f"{name} {value}" for name, value in machine.items())
        lines = [f"# {self.title}", "", facts, ""]
        lines += ["| " + " | ".join(self.columns()) + " |", "|---|---|---:|---:|---:|---|---|"]
        lines += ["| " + " | ".join(row.cells()) + " |" for row in self.rows]
        lines += [""] * bool(self.notes) + [f"- {note}" for note in self.notes]
        (RESULTS / f"{self.name}.md").write_text("\n".join(lines) + "\n")
        content = {"machine": machine, "peer": self.peer, "rows": [asdict(row) for row in self.rows]}
        (RESULTS / f"{self.name}.json").write_text(json.dumps(content, indent=1) + "\n")


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def machine_facts() -> dict[str, Any]:
    """The facts of this machine that the figures depend on."""
    cores = len(os.sched_getaffinity(0))
    p50, p99 = fdatasync_milliseconds()
    return {
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d"),
        "cores": cores,
        "python": platform.python_version(),
        "fdatasync of 4 KiB p50/p99 ms": f"{p50:.2f}/{p99:.2f}",
    }


def fdatasync_milliseconds(rounds: int = 200) -> tuple[float, float]:
    """Median and 99th percentile of one append and its fdatasync, where the benchmarks keep their data."""
    block, taken = bytes(4096), []
    with tempfile.NamedTemporaryFile() as file:
        os.posix_fallocate(file.fileno(), 0, rounds * len(block))
        for number in range(rounds):
            begun = time.perf_counter()
            os.pwrite(file.fileno(), block, number * len(block))
            os.fdatasync(file.fileno())
            taken.append((time.perf_counter() - begun) * 1000)
    return statistics.median(taken), sorted(taken)[int(rounds * 0.99)]
