"""Families of metrics that have the same labels, filled a row at a time.

The library's families cost 50 microseconds a line, and its text is made in one piece.  So families that grow with
topics and groups are `FamilyLines`: lines of Prometheus' text format (0.0.4), a page of rows at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric

Rows: TypeAlias = Iterable[tuple[Sequence[str], Sequence[float | None]]]
"""Values of the labels, and the number for each family; None leaves one out."""


def counters(labels: Sequence[str], described: Mapping[str, str], rows: Rows) -> Iterator[Metric]:
    """Counters by name and description."""
    return _filled([CounterMetricFamily(name, text, labels=labels) for name, text in described.items()], rows)


def gauges(labels: Sequence[str], described: Mapping[str, str], rows: Rows) -> Iterator[Metric]:
    """Gauges by name and description."""
    return _filled([GaugeMetricFamily(name, text, labels=labels) for name, text in described.items()], rows)


def _filled(families: Sequence[CounterMetricFamily | GaugeMetricFamily], rows: Rows) -> Iterator[Metric]:
    for labels, numbers in rows:
        for family, number in zip(families, numbers, strict=True):
            if number is not None:
                family.add_metric(labels, number)
    yield from families


class FamilyLines:
    """Lines of families with the same labels.  `kind`: `counter`, whose lines end with `_total`, or `gauge`."""

    def __init__(self, kind: str, labels: Sequence[str], described: Mapping[str, str]) -> None:
        suffix = "_total" if kind == "counter" else ""
        self._labels = sorted((label, place) for place, label in enumerate(labels))
        self._names = [name + suffix for name in described]
        self._pages = [
            [f"# HELP {name} {text}\n# TYPE {name} {kind}\n".encode()]
            for name, text in zip(self._names, described.values(), strict=True)
        ]

    def write(self, rows: Iterable[tuple[Sequence[str], Sequence[int]]]) -> None:
        """Write a page of rows: values of the labels, and a number for each family."""
        pages: list[list[str]] = [[] for _ in self._names]
        named = list(zip(self._names, pages, strict=True))
        for values, numbers in rows:
            parts = [f'{label}="{_escaped(values[place])}"' for label, place in self._labels]
            of = "{" + ",".join(parts) + "} "
            for (name, lines), number in zip(named, numbers, strict=True):
                lines.append(f"{name}{of}{number}\n")
        for written, lines in zip(self._pages, pages, strict=True):
            written.append("".join(lines).encode())

    def text(self) -> Iterator[bytes]:
        """The text of all families, one after the other, as each must be in one piece."""
        for pages in self._pages:
            yield from pages


def _escaped(text: str) -> str:
    """A text inside the quotes of a label's value."""
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
