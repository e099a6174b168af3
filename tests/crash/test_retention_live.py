"""Retention and disk watermarks of a running broker, on the real disk."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from entrepot.broker.broker import Broker
from entrepot.broker.settings.store import BrokerSettings
from entrepot.broker.store.disk import OsDisk
from entrepot.broker.store.log_reading import CommitLogLayout
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.expression.filter import FilterExpression, FilterKind
from entrepot.domain.ports import PopRequest
from entrepot.domain.topic import Topic
from tests.support.clock import ManualClock
from tests.support.stores.steps import append, append_all, bodies, codes, eventually, handles, message, pop

SMALL = CommitLogLayout(segment_size_bytes=64 << 10, preallocate_bytes=16 << 10, reserve_bytes=8 << 10)
GIB = 1 << 30


async def opened(path: Path, clock: ManualClock) -> Broker:
    settings = BrokerSettings(path, layout=SMALL, retention_seconds=3600, retention_interval_seconds=0.01)
    return await Broker.open(settings, clock)


def segments(path: Path) -> list[str]:
    return sorted(file.name for file in (path / "commitlog").iterdir())


async def fill(store: Broker, count: int) -> None:
    for at in range(0, count, 6):
        await append(store, "t", *(f"{number}".ljust(4000) for number in range(at, min(at + 6, count))))


async def test_what_is_too_old_goes_while_the_broker_runs(tmp_path: Path):
    clock = ManualClock()
    store = await opened(tmp_path, clock)
    await store.topology.put_topic(Topic("t", queues=1))
    await store.topology.put_topic(Topic("quiet", queues=3))
    await fill(store, 60)
    before = segments(tmp_path)
    assert len(before) >= 4
    clock.advance(7_200_000)
    await append(store, "t", "new")

    async def is_gone() -> bool:
        return (await store.messages.bounds("t"))[0].min_offset == 60 and segments(tmp_path)[0] > before[2]

    await eventually(is_gone)
    assert bodies(await pop(store, "t")) == ["new"]
    await store.close()
    again = await opened(tmp_path, clock)
    assert [b.min_offset for b in await again.messages.bounds("t")] == [60]
    assert bodies(await again.messages.read("t", 0, 60, 10)) == ["new"]
    assert again.topology.topic("quiet") == Topic("quiet", queues=3)
    await again.close()


async def test_a_pop_whose_topic_goes_while_it_looks_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """It ends, and makes no queue of the topic anew."""
    monkeypatch.setattr("entrepot.broker.consume.scan.MAX_SCANNED", 1)
    store = await opened(tmp_path, ManualClock())
    await store.topology.put_topic(Topic("t", queues=1))
    await append(store, "t", *map(str, range(2000)))
    request = PopRequest("t", "g", 1, filter=FilterExpression(FilterKind.TAG, "none"))
    popping = asyncio.create_task(store.consumption.pop(request))
    await asyncio.sleep(0)
    await store.topology.delete_topic("t")
    with pytest.raises(EntrepotError) as refused:
        await popping
    assert refused.value.code is Code.TOPIC_NOT_FOUND
    assert codes(store.messages.append([message("t", "x")]).refusals or []) == [Code.TOPIC_NOT_FOUND]
    await store.close()


@pytest.mark.failure(
    "The free space falls below `store.disk_emergency_free_bytes`",
    group="Disks",
    does="Publishing is refused first. Then the oldest segments are deleted before their time.",
    lost="the oldest messages that only their age kept",
    told="alarm: a broker's disk is full; `entrepot_deleted_segments`",
)
async def test_a_disk_that_fills_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """New messages are refused, consuming goes on; in the end the oldest messages go before their time."""
    free = 100 * GIB
    monkeypatch.setattr(OsDisk, "space", lambda self, path: (1000 * GIB, free))
    store = await opened(tmp_path, ManualClock())
    await store.topology.put_topic(Topic("t", queues=1))
    await fill(store, 40)
    before = segments(tmp_path)
    free = GIB // 2 + 1

    async def answer() -> Code | None:
        return (await append_all(store, message("t", "x")))[0]

    async def is_refused() -> bool:
        return await answer() == Code.STORAGE_FULL

    async def is_taken() -> bool:
        return await answer() is None

    await eventually(is_refused)
    found = await pop(store, "t", count=5)
    assert await store.consumption.acknowledge("t", "g", handles(found)) == [None] * 5
    assert segments(tmp_path) == before
    free = GIB // 4

    async def has_lost_the_oldest() -> bool:
        return segments(tmp_path)[0] > before[0]

    await eventually(has_lost_the_oldest)
    assert (await store.messages.bounds("t"))[0].min_offset > 0
    free = 100 * GIB
    await eventually(is_taken)
    assert store.condition.failure is None
    await store.close()
