"""Families of metrics that have the same labels, filled a row at a time."""

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
