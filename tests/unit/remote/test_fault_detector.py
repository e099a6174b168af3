"""FaultDetector: how long a broker is avoided, and that it says when that changes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from entrepot.store_client.remote.fault_detector import AVOID_SECONDS, FAILURE_SECONDS, LATENCY_SECONDS, FaultDetector
from tests.support.cases import cases


@cases(
    ("seconds", "avoided"),
    [(0, 0), (0.05, 0), (0.549, 0), (0.55, 2), (1.8, 5), (3.0, 6), (14.9, 6), (15.0, 30), (1e9, 30)],
)
def test_the_longer_it_took_the_longer_it_is_avoided(seconds: float, avoided: float):
    faults = FaultDetector()
    assert faults.took("b", seconds, 100.0) == bool(avoided)
    assert faults.is_avoided("b", 100.0) == bool(avoided)
    assert faults.next_change(100.0) == (100.0 + avoided if avoided else None)
    assert faults.is_avoided("b", 100.0 + avoided - 0.001) == bool(avoided)
    assert not faults.is_avoided("b", 100.0 + avoided)


def test_one_quick_answer_does_not_end_it_before_its_time():
    faults = FaultDetector()
    assert faults.failed("b", 0.0)
    assert not faults.failed("b", 1.0)
    assert not faults.took("b", 0.001, 2.0)
    assert faults.is_avoided("b", 1.0 + FAILURE_SECONDS - 0.1)
    assert not faults.is_avoided("other", 1.0)


def test_every_latency_has_its_time():
    assert len(AVOID_SECONDS) == len(LATENCY_SECONDS) + 1
    assert list(AVOID_SECONDS) == sorted(AVOID_SECONDS) and list(LATENCY_SECONDS) == sorted(LATENCY_SECONDS)


EVENTS = st.tuples(st.sampled_from("abc"), st.none() | st.floats(0, 40), st.floats(0, 8))


@given(st.lists(EVENTS, max_size=30))
def test_the_advice_is_the_worst_that_is_not_over(events: list[tuple[str, float | None, float]]):
    faults, now = FaultDetector(), 1000.0
    until: dict[str, float] = {}
    for broker, took, pause in events:
        now += pause
        before = faults.is_avoided(broker, now)
        if took is None:
            changed, avoid = faults.failed(broker, now), FAILURE_SECONDS
        else:
            changed = faults.took(broker, took, now)
            avoid = AVOID_SECONDS[sum(took >= limit for limit in LATENCY_SECONDS)]
        if avoid:
            until[broker] = max(until.get(broker, 0.0), now + avoid)
            assert changed == (not before)
        for each in "abc":
            assert faults.is_avoided(each, now) == (until.get(each, 0.0) > now)
        assert faults.next_change(now) == min((end for end in until.values() if end > now), default=None)
