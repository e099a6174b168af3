"""The engine's refusals."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from entrepot.domain.errors import Code, EntrepotError
from tests.simulation.disk import SimulatedDisk
from tests.support.cases import cases
from tests.support.stores.simulated_store import SMALL, SimulatedStore, World


@cases(
    "change",
    [
        {"tag": "x" * 256},
        {"message_id": b"x" * 256},
        {"message_group": "x" * 65_536},
        {"keys": ("x" * 40_000, "y" * 40_000)},
        {"properties": (("x" * (1 << 20), ""),)},
        {"born_time_ms": -1},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_message_that_does_not_fit_a_record_is_refused_by_itself(change: dict[str, Any]):
    store = SimulatedStore(SimulatedDisk(), World())
    store.put_topic("t", 1)
    first, odd, last = store.world.new_messages("t", 0, 3, 20)
    refusals = store.append_all([first, replace(odd, **change), last])
    assert refusals is not None
    assert [refusal and refusal.code for refusal in refusals] == [None, Code.MESSAGE_PROPERTIES_TOO_LARGE, None]
    said = refusals[1].message if refusals[1] else ""
    assert "format" not in said and ("the limit is" in said or "born_time_ms" in change)
    store.answer()
    assert [m.message_id for m in store.stored()["t", 0]] == [first.message_id, last.message_id]


@cases(
    "change",
    [
        {"tag": "\ud800"},
        {"sub_topic": "t/\ud800"},
        {"keys": ("\ud800",)},
        {"message_group": "\ud800"},
        {"properties": (("\ud800", ""),)},
        {"system": {"content_type": "\ud800"}},
    ],
    ids=lambda change: next(iter(change)),
)
def test_half_a_character_is_refused_by_itself(change: dict[str, Any]):
    store = SimulatedStore(SimulatedDisk(), World())
    store.put_topic("t", 1)
    first, odd, last = store.world.new_messages("t", 0, 3, 20)
    refusals = store.append_all([first, replace(odd, **change), last])
    assert refusals is not None
    assert [refusal and refusal.code for refusal in refusals] == [None, Code.BAD_REQUEST, None]
    store.answer()
    assert [m.message_id for m in store.stored()["t", 0]] == [first.message_id, last.message_id]


def test_a_message_larger_than_a_segment_is_refused():
    store = SimulatedStore(SimulatedDisk(), World())
    store.put_topic("t", 1)
    [huge] = store.world.new_messages("t", 0, 1, SMALL.segment_size_bytes)
    [refusal] = store.append_all([huge]) or [None]
    assert isinstance(refusal, EntrepotError)
    assert refusal.code == Code.MESSAGE_BODY_TOO_LARGE
    store.append("t", count=3)
    store.answer()
    assert len(store.stored()["t", 0]) == 3


def test_what_comes_while_a_sync_is_under_way_is_not_seen_before_its_own():
    """The record that begins where the durable log ends is not durable."""
    store = SimulatedStore(SimulatedDisk(), World(), deferred=True)
    store.put_topic("t", 1)
    store.answer()
    store.append("t")
    store.begin_sync()
    store.append("t")
    store.finish_sync()
    assert len(store.stored()["t", 0]) == 1
    store.answer()
    assert len(store.stored()["t", 0]) == 2
