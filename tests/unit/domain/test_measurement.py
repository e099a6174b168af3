"""Histograms."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.domain.measurement import BOUNDS, Histogram
from tests.support.cases import cases


def test_an_empty_one():
    histogram = Histogram()
    assert histogram.cumulative()[-1] == (math.inf, 0)
    assert histogram.total_seconds == 0


@cases("bound", BOUNDS)
def test_a_bound_belongs_to_its_bucket(bound: float):
    histogram = Histogram()
    histogram.observe(bound)
    histogram.observe(math.nextafter(bound, math.inf))
    assert dict(histogram.cumulative())[bound] == 1
    assert histogram.cumulative()[-1] == (math.inf, 2)


def test_a_batch_counts_as_many_as_it_has():
    histogram = Histogram()
    histogram.observe(0.5, 10)
    histogram.observe(100.0, 0)
    assert histogram.cumulative()[-1] == (math.inf, 10)
    assert histogram.total_seconds == 5.0


@given(st.lists(st.tuples(st.floats(0, 100), st.integers(1, 5))))
def test_each_bound_has_what_took_no_longer(observed: list[tuple[float, int]]):
    histogram = Histogram()
    for seconds, count in observed:
        histogram.observe(seconds, count)
    assert histogram.cumulative() == [
        (bound, sum(count for seconds, count in observed if seconds <= bound)) for bound in (*BOUNDS, math.inf)
    ]
    assert histogram.total_seconds == pytest.approx(sum(seconds * count for seconds, count in observed))
