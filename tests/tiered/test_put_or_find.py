"""An object that must be new is put, or what is there already is found; else its fate is unknown."""

from __future__ import annotations

import pytest

from entrepot.broker.tiered.objects import MissingObjectError, TierError, put_or_find
from tests.support.clock import ManualClock
from tests.support.tiered.failing_objects import FailingObjects, Fault


def objects(*faults: Fault) -> FailingObjects:
    plan = iter(faults)
    return FailingObjects(ManualClock(), lambda *_: next(plan, Fault.NONE))


def test_a_new_object_is_put_and_another_s_is_found() -> None:
    store = objects()
    assert put_or_find(store, "a", b"1") is None
    assert put_or_find(store, "a", b"2") == b"1"
    assert store.get("a") == b"1"


def test_one_s_own_is_found_after_a_lost_answer() -> None:
    assert put_or_find(objects(Fault.AFTER), "a", b"1") == b"1"


@pytest.mark.parametrize("faults", [(Fault.BEFORE,), (Fault.AFTER, Fault.BEFORE)])
def test_where_nobody_can_tell_the_outcome_is_unknown(faults: tuple[Fault, ...]) -> None:
    with pytest.raises(TierError) as caught:
        put_or_find(objects(*faults), "a", b"1")
    assert not isinstance(caught.value, MissingObjectError)
