"""Callbacks and handed over items: one that fails does not keep the others."""

from __future__ import annotations

import pytest

from entrepot.domain.callbacks import call_each, hand_over
from entrepot.domain.confirmation import Confirmation
from tests.support.cases import cases


def test_all_are_called_and_the_faults_come_back() -> None:
    called: list[tuple[str, int]] = []

    def failing(number: int) -> None:
        called.append(("failing", number))
        raise ValueError("mine")

    faults = call_each([lambda n: called.append(("first", n)), failing, lambda n: called.append(("last", n))], 7)
    assert called == [("first", 7), ("failing", 7), ("last", 7)]
    assert [str(fault) for fault in faults] == ["mine"]
    assert call_each([]) == []


@cases("odd", [(), (0,), (4,), (9,), (2, 3), (0, 9), tuple(range(10))])
def test_all_but_the_odd_ones_are_taken_in_order(odd: tuple[int, ...]) -> None:
    taken: list[int] = []
    asked: list[int] = []

    def take(items: list[int]) -> None:
        asked.append(len(items))
        for item in items:
            if item in odd:
                raise KeyError(item)
        taken.extend(items)

    failed = hand_over(list(range(10)), take)
    assert taken == [item for item in range(10) if item not in odd]
    assert [(item, type(fault)) for item, fault in failed] == [(item, KeyError) for item in odd]
    assert asked == ([10] if not odd else [10] + [1] * 10), "one by one only where it failed"


def test_a_confirmation_tells_everybody_before_it_raises() -> None:
    confirmation = Confirmation()
    told: list[object] = []

    def failing(_: object) -> None:
        raise RuntimeError("mine")

    confirmation.when_settled(failing)
    confirmation.when_settled(told.append)
    with pytest.raises(ExceptionGroup) as faults:
        confirmation.settle()
    assert [str(fault) for fault in faults.value.exceptions] == ["mine"]
    assert told == [None]
