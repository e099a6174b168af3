"""History: gaps are gaps, whatever comes late or not at all; and its memory is bounded."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from entrepot.domain.measurement import Histogram
from entrepot.gateway.operations.overview.history import MAX_SERIES, SPANS, History, Ring
from entrepot.gateway.operations.overview.sampling import quantile_ms

START = 1_800_000_000


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(1, 9)), max_size=30), st.integers(1, 12), st.integers(0, 50))
def test_a_ring_is_the_last_value_of_each_step(puts: list[tuple[int, int]], length: int, at: int) -> None:
    ring, model, newest = Ring(2, length), {}, 0
    for seconds, value in puts:
        number = (START + seconds) // 2
        if number >= newest:
            model[number], newest = value, number
        ring.put(START + seconds, value)
    end = (START + at) // 2
    wanted = [
        model.get(number) if newest - length < number <= newest else None for number in range(end - length + 1, end + 1)
    ]
    assert ring.read(end, length) == wanted


def test_one_late_sample_stands_for_few_steps() -> None:
    ring = Ring(1, 10)
    ring.put(START, 1)
    ring.put(START + 3, 2, steps=2)
    assert ring.read(START + 3, 4) == [1, None, 2, 2]


def test_all_series_have_one_length_and_a_bound() -> None:
    history = History()
    for number in range(MAX_SERIES + 5):
        history.put(f"s{number}", 300, START, number)
    found = history.read(300, START)
    assert len(found) == MAX_SERIES
    assert {len(values) for values in found.values()} == {300}
    history.put("late", 300, START + max(SPANS) + 10, 1)
    assert list(history.read(300, START + max(SPANS) + 10)) == ["late"], "what is over gives way"


def test_quantiles_of_buckets() -> None:
    histogram = Histogram()
    assert quantile_ms(histogram, 0.5) is None
    histogram.observe(0.002, 99)
    histogram.observe(3.0)
    middle, last = quantile_ms(histogram, 0.5), quantile_ms(histogram, 0.999)
    assert middle is not None and 1 < middle <= 2.5
    assert last is not None and 2500 < last <= 5000
