"""Decision steps: a message and its delivery are one sync, and nobody is told of anything before it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from entrepot.broker.broker import Broker
from entrepot.broker.settings.store import BrokerSettings
from entrepot.domain.definitions.consumer_group import ConsumerGroup
from entrepot.domain.delivery import Deliveries
from entrepot.domain.errors import Code, EntrepotError, StorageFullError, StoreFailedError
from entrepot.domain.message import Message
from entrepot.domain.ports import PopRequest
from entrepot.domain.topic import Topic
from tests.support.clock import ManualClock
from tests.support.stores.steps import append_all, bodies, codes, pop
from tests.support.waiting import until

LONG_MS = 60_000


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Broker]:
    store = await Broker.open(BrokerSettings(tmp_path), ManualClock())
    await store.topology.put_topic(Topic("t", queues=1))
    await store.topology.put_group(ConsumerGroup("g"))
    assert await pop(store, "t") == []
    yield store
    await store.close()


class CountedSyncs:
    """Count of syncs that began."""

    def __init__(self, store: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        begin = store.engine.begin_sync

        def counted() -> bool:
            has_begun = begin()
            self.count += has_begun
            return has_begun

        monkeypatch.setattr(store.engine, "begin_sync", counted)


async def parked(store: Broker, *, count: int = 10) -> asyncio.Task[Deliveries]:
    before = store.core.polling.count
    popping = asyncio.create_task(store.consumption.pop(PopRequest("t", "g", count, LONG_MS)))
    await until(lambda: store.core.polling.count > before, "the pop waits")
    return popping


async def test_a_message_and_its_delivery_are_one_sync(store: Broker, monkeypatch: pytest.MonkeyPatch):
    popping = await parked(store)
    syncs = CountedSyncs(store, monkeypatch)
    assert await append_all(store, Message("t", b"a", queue_id=0)) == [None]
    found = await popping
    assert bodies(found) == ["a"]
    assert syncs.count == 1
    popping = await parked(store)
    begun = syncs.count
    acknowledging = asyncio.create_task(store.consumption.acknowledge("t", "g", found, may_wait=True))
    await append_all(store, Message("t", b"b", queue_id=0))
    assert bodies(await popping) == ["b"]
    assert await acknowledging == [None]
    assert syncs.count == begun + 1, "an acknowledgement that may wait rides on the next sync"


async def test_an_acknowledgement_that_may_wait_waits_for_milliseconds_alone(store: Broker):
    await append_all(store, Message("t", b"a", queue_id=0))
    found = await pop(store, "t")
    end = store.engine.end
    assert await store.consumption.acknowledge("t", "g", found, may_wait=True) == [None]
    assert store.engine.commit_log.durable_offset == store.engine.end > end


async def test_nothing_is_told_before_the_sync_is_done(store: Broker, monkeypatch: pytest.MonkeyPatch):
    popping = await parked(store)
    answers: list[object] = []
    with monkeypatch.context() as patch:
        store.core.loop.remove_reader(store.engine.log_channel.fileno())
        patch.setattr(store.core.commit, "_on_synced", lambda: answers.append("synced"))
        confirmation = store.messages.append([Message("t", b"a", queue_id=0)])
        await until(lambda: store.engine.syncing_to is not None, "the sync begins")
        window = store.core.consumption.progress.windows["g", "t"][0]
        assert window.frontier == 1, "it is claimed"
        [status] = (await store.topology.group_status("g")).progress
        assert (status.in_flight, status.lag) == (0, 0), "and nobody has it"
        for _ in range(20):
            await asyncio.sleep(0)
        assert not popping.done() and not confirmation.settled
        assert await store.messages.read("t", 0, 0, 10) == []
    store.core.loop.add_reader(store.engine.log_channel.fileno(), store.core.commit._on_synced)
    assert bodies(await popping) == ["a"]
    assert confirmation.settled


async def test_waiters_of_one_step_share_what_came(store: Broker, monkeypatch: pytest.MonkeyPatch):
    poppings = [await parked(store, count=2) for _ in range(3)]
    syncs = CountedSyncs(store, monkeypatch)
    await append_all(store, *(Message("t", b"%d" % number, queue_id=0) for number in range(6)))
    found = [bodies(await popping) for popping in poppings]
    assert found == [["0", "1"], ["2", "3"], ["4", "5"]], "first come, first served"
    assert syncs.count == 1


async def test_one_that_was_cancelled_leaves_its_turn_to_the_next(store: Broker):
    first, second = await parked(store), await parked(store)
    confirmation = store.messages.append([Message("t", b"a", queue_id=0)])
    first.cancel()
    assert bodies(await second) == ["a"]
    await confirmation.wait()
    await asyncio.wait((first,))
    assert first.cancelled()


async def test_a_decision_that_fails_is_told_to_who_asked_alone(store: Broker, monkeypatch: pytest.MonkeyPatch):
    await append_all(store, Message("t", b"a", queue_id=0))
    found = await pop(store, "t")

    def fail() -> None:
        raise RuntimeError("a fault")

    failing = asyncio.create_task(store.core.decided(fail))
    acknowledging = asyncio.create_task(store.consumption.acknowledge("t", "g", found))
    assert await acknowledging == [None]
    with pytest.raises(RuntimeError, match="a fault"):
        await failing


async def test_without_space_nothing_is_claimed(store: Broker, monkeypatch: pytest.MonkeyPatch):
    await append_all(store, *(Message("t", b"%d" % number, queue_id=0) for number in range(3)))

    def no_space(*_: object) -> int:
        raise StorageFullError

    with monkeypatch.context() as patch:
        patch.setattr(store.engine.commit_log, "has_space", lambda *_: False)
        patch.setattr(store.engine.commit_log, "make_space", no_space)
        with pytest.raises(EntrepotError) as refused:
            await pop(store, "t")
        assert refused.value.code is Code.STORAGE_FULL
    found = await pop(store, "t")
    assert bodies(found) == ["0", "1", "2"] and {each.attempt for each in found} == {1}


async def test_a_store_that_failed_tells_all_that_wait_for_a_decision(store: Broker):
    waiting = await parked(store)
    store.engine.fail(OSError("the disk is gone"))
    acknowledging = asyncio.create_task(store.consumption.acknowledge("t", "g", ["x"]))
    for task in (waiting, acknowledging):
        with pytest.raises(StoreFailedError):
            await asyncio.wait_for(task, 10)


async def test_a_corrupted_record_cuts_the_run_and_is_held_back_alone(store: Broker, tmp_path: Path):
    await append_all(store, *(Message("t", b"body-%d" % number, queue_id=0) for number in range(5)))
    [log] = (tmp_path / "commitlog").iterdir()
    data = log.read_bytes()
    with log.open("r+b") as file:
        file.seek(data.index(b"body-2"))
        file.write(b"BODY-2")
    found = await pop(store, "t")
    assert bodies(found) == ["body-0", "body-1", "body-3", "body-4"]
    assert [len(items) for _, items in found.parts] == [2, 2]
    assert codes(await store.consumption.acknowledge("t", "g", found)) == [None] * 4
    [progress] = (await store.topology.group_status("g")).progress
    assert (progress.committed_offset, progress.lag) == (2, 1), "progress never passes it"
