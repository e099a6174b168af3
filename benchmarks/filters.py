"""Filters of CloudEvents by themselves: `python -m benchmarks filters`.

Subscriptions of one topic have a filter each; one of them or none matches an event. A curve for each dialect shows the
cost of an event with 1, 100 and 10,000 subscriptions, beside the cost of asking every filter. It runs in one process
and waits for nothing.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any, Final

from rich.console import Console

from benchmarks.processes import BenchmarkError
from benchmarks.report import Goal, Report
from entrepot.domain.event_filters.event_filter import EventFilters
from entrepot.domain.event_filters.event_filter_index import FilterIndex
from entrepot.domain.event_filters.event_filter_json import parse_event_filters
from entrepot.domain.expression.cesql.expression import compile_cesql

COUNTS: Final = (1, 100, 10_000)
FLATNESS: Final = Goal(0.5)
"""Ratio of rates for events without a match: 10,000 subscriptions may cost twice as much as one."""
SECONDS: Final = 1.0
QUICK_SECONDS: Final = 0.2
EVENTS: Final = 512
SEED: Final = 20_261_121

Document = list[dict[str, Any]]

FILTERS: Final[dict[str, Callable[[int], Document]]] = {
    "exact type": lambda number: [{"exact": {"type": f"com.example.t{number}"}}],
    "exact type and subject": lambda number: [
        {"exact": {"type": f"com.example.t{number}", "subject": f"s{number}/x{number}"}}
    ],
    "prefix of subject": lambda number: [{"prefix": {"subject": f"s{number}/"}}],
    "suffix of subject": lambda number: [{"suffix": {"subject": f"x{number}"}}],
    "sql with type = and more": lambda number: [{"sql": f"type = 'com.example.t{number}' AND INT(size) < 1000"}],
    "any of two, and not": lambda number: [
        {"any": [{"exact": {"type": f"com.example.t{number}"}}, {"prefix": {"subject": f"s{number}/"}}]},
        {"not": {"exact": {"source": "/elsewhere"}}},
    ],
}
EXPRESSIONS: Final = (
    "type = 'com.example.t7'",
    "type LIKE 'com.example.%' AND INT(size) < 1000",
    "source IN ('/a', '/b', '/c') OR subject LIKE '%x7' AND NOT EXISTS missing",
)


def run(console: Console, *, quick: bool) -> Report:
    """Run all; the seed is printed with the figures."""
    report = Report("filters", "CloudEvents filters: index and expressions alone, in one process", peer="every filter")
    report.notes.append(
        f"seed {SEED}; each subscription has a filter of its own; an event is wanted by none, or by one"
    )
    report.notes.append("every filter: asking all of them, one after the other, instead of the index")
    seconds = QUICK_SECONDS if quick else SECONDS
    for name, filter_of in FILTERS.items():
        console.print(name, style="dim")
        _curve(report, name, filter_of, seconds)
    console.print("expressions", style="dim")
    for text in EXPRESSIONS:
        matches = compile_cesql(text).matches
        report.add(text, "events/CPU-s", _rate(matches, _events(1, wanted=True), seconds))
    return report


def _curve(report: Report, name: str, filter_of: Callable[[int], Document], seconds: float) -> None:
    nobody: list[float] = []
    somebody: list[float] = []
    for count in COUNTS:
        filters = [parse_event_filters(filter_of(number)) for number in range(count)]
        index: FilterIndex[int] = FilterIndex()
        begun = time.process_time()
        for number, each in enumerate(filters):
            index.add(number, each)
        added = time.process_time() - begun
        for rates, wanted in ((nobody, "none wants it"), (somebody, "one wants it")):
            events = _events(count, wanted=rates is somebody)
            _check(index, filters, events, int(rates is somebody))
            rates.append(_rate(index.match, events, seconds))
            every = _rate(_asking(filters), events, seconds)
            report.add(f"{name}: {count:,} subscriptions, {wanted}", "events/CPU-s", rates[-1], every)
    report.add(f"{name}: {COUNTS[-1]:,} added", "subscriptions/CPU-s", COUNTS[-1] / added)
    report.add(f"{name}: {COUNTS[-1]:,} beside 1, none wants it", "x", nobody[-1] / nobody[0], goal=FLATNESS)
    report.add(f"{name}: {COUNTS[-1]:,} beside 1, one wants it", "x", somebody[-1] / somebody[0])


def _check(index: FilterIndex[int], filters: list[EventFilters], events: list[dict[str, str]], count: int) -> None:
    asking = _asking(filters)
    for event in events[:8]:
        found = index.match(event)
        if found != asking(event) or len(found) != count:
            raise BenchmarkError(f"{event} should be wanted by {count}, the index says {found}")


def _asking(filters: list[EventFilters]) -> Callable[[dict[str, str]], list[int]]:
    return lambda event: [number for number, each in enumerate(filters) if each.matches(event)]


def _events(count: int, *, wanted: bool) -> list[dict[str, str]]:
    """Events that match one subscription out of `count`, or none."""
    rng = random.Random(SEED)
    numbers = [rng.randrange(count) if wanted else count + number for number in range(EVENTS)]
    return [
        {
            "specversion": "1.0",
            "id": f"{number}",
            "source": "/benchmark",
            "type": f"com.example.t{number}",
            "subject": f"s{number}/x{number}",
            "time": "2026-11-21T10:00:00Z",
            "size": "10",
        }
        for number in numbers
    ]


def _rate(work: Callable[[dict[str, str]], object], events: list[dict[str, str]], seconds: float) -> float:
    """Events per CPU-second, over whole rounds of them, after one warm-up round."""
    _ = [work(event) for event in events[:16]]
    done, begun = 0, time.process_time()
    while (taken := time.process_time() - begun) < seconds:
        for event in events[done % len(events) :][:16]:
            work(event)
        done += 16
    return done / taken
