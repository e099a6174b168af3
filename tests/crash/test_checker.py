"""The checker is only worth what it finds: each fault planted here must be reported, and a healthy store not."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from entrepot.broker.consume.consumption_op import ConsumptionOp
from entrepot.broker.consume.progress import Progress
from entrepot.broker.consume.window import ConsumeWindow
from entrepot.broker.store.engine import StorageEngine
from tests.simulation.disk import SimulatedDisk
from tests.support.stores.checker import Report
from tests.support.stores.simulated_store import SimulatedStore, World


def run(*, crash_between: bool = False) -> Report:
    """Producers and consumers, a restart after a crash, and everything read back."""
    disk, world = SimulatedDisk(), World()
    store = SimulatedStore(disk, world, deferred=True)
    store.put_topic("t", 1)
    store.answer()
    for _ in range(6):
        store.append("t", count=4, size=3000)
        store.begin_sync()
        store._answer()  # whatever the engine says is durable now
        if not crash_between:
            store.finish_sync()
        store.pop("t", count=3)
        store.pop("t", count=1)
        if not crash_between:
            store.answer()
            store.acknowledge(store.take_held(2))
            store.answer()
        else:
            break
    store = SimulatedStore(disk.crash(Random(7)), world)
    store.drain()
    return store.check(drained_by=["g"])


@pytest.mark.parametrize("crash_between", [False, True])
def test_a_healthy_store_is_clean(crash_between: bool):
    assert run(crash_between=crash_between).is_clean


def test_a_confirm_before_the_sync_is_found(monkeypatch: pytest.MonkeyPatch):
    begin_sync = StorageEngine.begin_sync

    def early(engine: StorageEngine) -> bool:
        began = begin_sync(engine)
        engine.commit_log.durable_offset = engine.commit_log.written_offset
        return began

    monkeypatch.setattr(StorageEngine, "begin_sync", early)
    report = run(crash_between=True)
    assert report.lost
    assert not report.unexpected


def test_a_skipped_acknowledgement_is_found(monkeypatch: pytest.MonkeyPatch):
    change = Progress.change

    def forgetful(progress: Progress, op: int, *others: Any) -> None:
        if op != ConsumptionOp.SETTLE or others[-2] % 3:  # its commit-log offset
            change(progress, op, *others)

    monkeypatch.setattr(Progress, "change", forgetful)
    monkeypatch.setattr(SimulatedStore, "drain", lambda store: drain_once(store))
    report = run()
    assert report.duplicated
    assert any("after it was acknowledged" in line for line in report.duplicated)


def drain_once(store: SimulatedStore) -> None:
    """As `drain`, without expecting that it ends."""
    for _ in range(3):
        store.world.clock.advance(100_000)
        store.pop("t", "g", 1000)
        store.answer()
        store.acknowledge(store.take_held(1000))
        store.answer()


def test_progress_that_passes_an_unacknowledged_message_is_found(monkeypatch: pytest.MonkeyPatch):
    settle = ConsumeWindow.settle

    def generous(window: ConsumeWindow, offsets: Any) -> None:
        settle(window, [*offsets, *(offset + 2 for offset in offsets)])

    monkeypatch.setattr(ConsumeWindow, "settle", generous)
    monkeypatch.setattr(SimulatedStore, "drain", lambda store: drain_once(store))
    assert run().lost


def test_a_double_delivery_is_found(monkeypatch: pytest.MonkeyPatch):
    claim = ConsumeWindow.claim

    def twice(window: ConsumeWindow, now_ms: int, count: int, *bounds: int) -> list[int]:
        offsets = list(claim(window, now_ms, count, *bounds))
        if offsets and count == 1:  # the second consumer gets one of the first's as well
            offsets.insert(0, offsets[0] - 1)
        return offsets

    monkeypatch.setattr(ConsumeWindow, "claim", twice)
    assert any("another consumer" in line for line in run().duplicated)


def test_a_message_stored_twice_is_found(monkeypatch: pytest.MonkeyPatch):
    append_messages = StorageEngine.append_messages

    def twice(engine: StorageEngine, messages: Any, *others: Any) -> Any:
        append_messages(engine, messages[:1], *others)
        return append_messages(engine, messages, *others)

    monkeypatch.setattr(StorageEngine, "append_messages", twice)
    assert any("stored 2 times" in line for line in run().duplicated)


def test_a_phantom_is_found(monkeypatch: pytest.MonkeyPatch):
    append_messages = StorageEngine.append_messages

    def changed(engine: StorageEngine, messages: Any, *others: Any) -> Any:
        sent = [type(m)(m.topic, m.body[:-1] + b"!", queue_id=m.queue_id, message_id=m.message_id) for m in messages]
        return append_messages(engine, sent, *others)

    monkeypatch.setattr(StorageEngine, "append_messages", changed)
    assert run().unexpected


def test_a_changed_order_is_found(monkeypatch: pytest.MonkeyPatch):
    append_messages = StorageEngine.append_messages
    monkeypatch.setattr(
        StorageEngine,
        "append_messages",
        lambda engine, messages, *others: append_messages(engine, messages[::-1], *others),
    )
    assert run().disordered


def test_deliveries_out_of_order_are_found(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(SimulatedStore, "pop", _reversed_pop(SimulatedStore.pop))
    assert run().disordered


def _reversed_pop(pop: Any) -> Any:
    def reversed_pop(store: SimulatedStore, *args: Any, **options: Any) -> Any:
        found = pop(store, *args, **options)
        found._all().reverse()  # the list that is handed out when durable
        return found

    return reversed_pop


def test_an_attempt_that_falls_is_found(monkeypatch: pytest.MonkeyPatch):
    delivered = ConsumeWindow.delivered_runs
    monkeypatch.setattr(
        ConsumeWindow,
        "delivered_runs",
        lambda window, *asked: [run._replace(attempt=1) for run in delivered(window, *asked)],
    )
    monkeypatch.setattr(ConsumeWindow, "is_current", lambda window, offset, attempt: True)
    assert any("the attempt before" in line for line in run().duplicated)
