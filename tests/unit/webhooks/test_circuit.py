"""A sink that fails again and again is left alone."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from entrepot.gateway.events.webhooks.circuit import Circuit


def test_it_opens_after_so_many_failures_and_is_tried_with_one() -> None:
    circuit = Circuit(3, 1.0, 5.0)
    assert [circuit.enter(0.0) for _ in range(5)] == [True] * 5
    assert [circuit.failed(0.0) for _ in range(3)] == [False, False, True]
    assert circuit.wait(0.0) == 1.0 and not circuit.enter(0.5) and not circuit.is_well
    assert circuit.enter(1.0) and not circuit.enter(1.0)
    assert circuit.failed(1.0) and circuit.wait(1.0) == 1.0
    assert circuit.enter(2.0) and circuit.failed(2.0) and circuit.wait(2.0) == 2.0
    assert circuit.enter(4.0)
    circuit.succeeded()
    assert [circuit.enter(4.0) for _ in range(3)] == [True] * 3 and circuit.is_well


def test_an_answer_that_tells_nothing_lets_another_try() -> None:
    circuit = Circuit(1, 1.0, 1.0)
    circuit.enter(0.0)
    circuit.failed(0.0)
    assert circuit.enter(1.0) and not circuit.enter(1.0)
    circuit.left()
    assert circuit.enter(1.0)


def test_what_the_sink_asks_for_is_kept_to() -> None:
    circuit = Circuit(3, 1.0, 5.0)
    circuit.pause_until(60.0)
    assert circuit.wait(10.0) == 50.0 and not circuit.enter(59.9) and circuit.enter(60.0)


@given(st.lists(st.tuples(st.sampled_from(["enter", "fail", "succeed", "leave"]), st.floats(0, 3)), max_size=60))
def test_a_pause_is_never_longer_than_the_longest(steps: list[tuple[str, float]]) -> None:
    circuit, now = Circuit(2, 0.5, 4.0), 0.0
    for step, seconds in steps:
        now += seconds
        if step == "enter":
            assert not (circuit.enter(now) and circuit.wait(now) > 0)
        elif step == "fail":
            circuit.failed(now)
        elif step == "succeed":
            circuit.succeeded()
            assert circuit.wait(now) == 0
        else:
            circuit.left()
        assert circuit.wait(now) <= 4.0 + 1e-9, "but for what a sum of floats adds"


def failing_tries(circuit: Circuit, now: float, count: int) -> list[float]:
    """The pauses of a sink that fails each try at the end of the one before."""
    pauses = []
    for _ in range(count):
        assert circuit.enter(now) and circuit.failed(now)
        pauses.append(circuit.wait(now))
        now += pauses[-1]
    return pauses


def test_pauses_double_up_to_the_longest_and_begin_anew_after_a_success() -> None:
    circuit = Circuit(1, 1.0, 3.0)
    assert failing_tries(circuit, 0.0, 6) == [1.0, 1.0, 2.0, 3.0, 3.0, 3.0]
    circuit.succeeded()
    assert (circuit.wait(0.0), circuit.failures, circuit.is_trying) == (0.0, 0, False)
    assert failing_tries(circuit, 100.0, 3) == [1.0, 1.0, 2.0]


def test_a_longest_pause_below_the_first_one_is_the_first_one() -> None:
    assert failing_tries(Circuit(1, 5.0, 2.0), 0.0, 3) == [5.0, 5.0, 5.0]


def test_what_was_under_way_when_it_opened_does_not_prolong_the_pause() -> None:
    circuit = Circuit(2, 1.0, 60.0)
    assert [circuit.failed(0.0) for _ in range(2)] == [False, True]
    assert not circuit.failed(0.5) and circuit.wait(0.5) == 0.5 and circuit.failures == 3
    assert failing_tries(circuit, 1.0, 2) == [1.0, 2.0], "nor does it double it"


def test_a_late_failure_after_the_pause_opens_it_again_for_longer() -> None:
    circuit = Circuit(2, 1.0, 60.0)
    assert [circuit.failed(0.0) for _ in range(2)] == [False, True]
    assert circuit.failed(1.5) and circuit.wait(1.5) == 1.0
    assert failing_tries(circuit, 2.5, 1) == [2.0]


def test_a_shorter_wish_of_the_sink_does_not_shorten_its_pause() -> None:
    circuit = Circuit(1, 10.0, 10.0)
    circuit.failed(0.0)
    circuit.pause_until(5.0)
    assert circuit.wait(0.0) == 10.0
    circuit.pause_until(15.0)
    assert circuit.wait(0.0) == 15.0


def test_failures_count_in_a_row_alone() -> None:
    circuit = Circuit(2, 1.0, 1.0)
    for _ in range(5):
        assert not circuit.failed(0.0)
        circuit.succeeded()
    assert circuit.is_well and not circuit.failed(0.0) and circuit.failed(0.0) and not circuit.is_well
