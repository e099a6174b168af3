"""What becomes of pops when the group, the room or the messages go away while they are under way, and who waits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from entrepot.broker.broker import Broker
from entrepot.broker.settings.store import BrokerSettings
from entrepot.broker.store.consume_queue import ConsumeQueue
from entrepot.domain.definitions.consumer_group import ConsumerGroup
from entrepot.domain.delivery import DeliveryPlaces
from entrepot.domain.errors import Code, EntrepotError, StorageFullError
from entrepot.domain.ports import PopRequest
from entrepot.domain.topic import Topic
from tests.support.clock import ManualClock
from tests.support.stores.steps import LONG_POLL_MS, append, bodies, codes, handles, message, pop
from tests.support.waiting import PATIENCE_SECONDS, until
from tests.unit.broker.test_unanswered_pops import HeldSync


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def store(tmp_path: Path, clock: ManualClock) -> AsyncIterator[Broker]:
    store = await Broker.open(BrokerSettings(tmp_path, max_in_flight_per_queue=6, hold_back_limit=4), clock)
    await store.topology.put_topic(Topic("t", queues=1))
    await store.topology.put_group(ConsumerGroup("g", invisible_seconds=10))
    yield store
    await store.close()


async def test_what_the_group_before_claimed_is_not_handed_out(store: Broker) -> None:
    await append(store, "t", "a")
    sync = HeldSync(store)
    popping = asyncio.create_task(pop(store, "t"))
    await until(lambda: sync.is_waiting, "the pop waits for the log")
    changing = [asyncio.create_task(change) for change in (store.topology.delete_group("g"), _made_again(store))]
    next_one = asyncio.create_task(pop(store, "t"))
    await asyncio.sleep(0)
    sync.let_go()
    found = [*(await next_one), *(await popping)]
    await asyncio.gather(*changing)
    assert bodies(found) == ["a"], "the group of now has it once"
    assert codes(await store.consumption.acknowledge("t", "g", handles(found))) == [None]


async def _made_again(store: Broker) -> None:
    await store.topology.put_group(ConsumerGroup("g"))


async def test_places_that_name_no_incarnation_settle_nothing(store: Broker) -> None:
    """A gateway's word is not a receipt handle, whose MAC proves what it names."""
    await append(store, "t", "a")
    [found] = await pop(store, "t")
    epoch = store.core.consumption.epoch
    stamp = store.core.consumption.progress.windows["g", "t"][0].stamp(0)
    places = DeliveryPlaces(0, epoch, -1, stamp, [0])
    assert codes(await store.consumption.acknowledge("t", "g", [places])) == [Code.INVALID_RECEIPT_HANDLE]
    assert codes(await store.consumption.acknowledge("t", "g", handles([found]))) == [None]


async def hold_back(store: Broker) -> ConsumeQueue:
    """The group's retry topic, where the first of six messages waits a minute."""
    await append(store, "t", *map(str, range(6)))
    found = await pop(store, "t")
    await store.consumption.change_invisible_duration("t", "g", handles(found[:1]), 60_000, release=True)
    await store.consumption.acknowledge("t", "g", handles(found[1:]))
    assert await pop(store, "t") == []
    retries = store.engine.dispatcher.queue("%RETRY%g+t", 0)
    assert retries.max_offset == 1
    return retries


async def test_retries_that_retention_took_are_settled(store: Broker, clock: ManualClock) -> None:
    (await hold_back(store)).drop_before(1)
    clock.advance(60_000)
    assert await pop(store, "t") == []
    [progress] = [each for each in (await store.topology.group_status("g")).progress if each.topic == "%RETRY%g+t"]
    assert (progress.committed_offset, progress.lag, progress.in_flight) == (1, 0, 0)


async def test_a_cancelled_pop_without_room_for_its_release_is_cancelled(
    store: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def is_full(*_: object, **__: object) -> None:
        raise StorageFullError("no room")

    await append(store, "t", "a", "b")
    sync = HeldSync(store)
    popping = asyncio.create_task(store.consumption.pop(PopRequest("t", "g", 1)))
    await until(lambda: sync.is_waiting, "the pop waits for the log")
    monkeypatch.setattr(type(store.core.consumption), "change_invisible", is_full)
    popping.cancel()
    with pytest.raises(asyncio.CancelledError):
        await popping
    sync.let_go()
    assert bodies(await pop(store, "t")) == ["b"]


@pytest.mark.parametrize("settle", ["acknowledge", "reject"])
async def test_a_pop_that_waits_at_the_limit_goes_on_when_something_is_settled(store: Broker, settle: str) -> None:
    await append(store, "t", *map(str, range(8)))
    found = await pop(store, "t")
    assert len(found) == 6, "the limit of the queue"
    waiting = asyncio.create_task(pop(store, "t", wait_ms=LONG_POLL_MS))
    await until(lambda: store.core.polling.count, "it waits")
    await getattr(store.consumption, settle)("t", "g", handles(found[:2]))
    assert bodies(await waiting) == ["6", "7"]


async def test_queues_of_retries_are_followed_after_a_restart(store: Broker, clock: ManualClock) -> None:
    await hold_back(store)
    await store.close()
    again = await Broker.open(store.core.settings, clock)
    followed = {topic for (topic, _), queue in again.engine.dispatcher.queues.items() if queue.is_followed}
    await again.close()
    assert followed == {"%RETRY%g+t"}


async def test_one_that_fails_when_it_is_told_keeps_nobody_waiting(store: Broker) -> None:
    def fail(failure: EntrepotError | None) -> None:
        raise ValueError("told in vain")

    first = store.messages.append([message("t", "a")])
    first.when_settled(fail)
    second = store.messages.append([message("t", "b")])
    await asyncio.wait_for(second.wait(), PATIENCE_SECONDS)
    assert bodies(await pop(store, "t")) == ["a", "b"]
