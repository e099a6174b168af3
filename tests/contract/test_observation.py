"""What a store tells of itself."""

from __future__ import annotations

from dataclasses import replace

import pytest

from entrepot.domain.message import SystemProperty
from entrepot.domain.ports import Store
from entrepot.domain.topic import Topic
from tests.support.clock import ManualClock
from tests.support.stores.steps import append, append_all, message, pop, settled


@pytest.fixture(autouse=True)
async def topics(store: Store) -> None:
    await store.topology.put_topic(Topic("t", queues=1))


async def test_what_waits_is_counted(store: Store, clock: ManualClock):
    at = {SystemProperty.DELIVER_AT_MS: clock.now_ms() + 60_000}
    await append_all(store, replace(message("t", "later"), system=at))
    for name in ("a", "b"):
        half = replace(message("t", name), system={SystemProperty.TRANSACTION_ID: name})
        await settled(store.transactions.append_half([half]))
    gauges = await store.condition.gauges()
    assert (gauges["timing_messages"], gauges["half_messages"]) == (1, 2)


async def test_a_store_without_a_tier_tells_of_none(store: Store):
    await store.topology.put_topic(Topic("cold", tier_seconds=60))
    assert await store.condition.tiering() == []
    assert not any(name.startswith("tier_") for name in await store.condition.gauges())


async def test_times_are_counted_where_they_are_measured(store: Store):
    before = {name: times.cumulative()[-1][1] for name, times in (await store.condition.measurements()).items()}
    await append(store, "t", "a", "b", "c")
    await append_all(store, message("t", "d"), message("no", "refused"))
    await pop(store, "t")
    await pop(store, "t")  # nothing left: no answer to count
    counted = {
        name: times.cumulative()[-1][1] - before[name] for name, times in (await store.condition.measurements()).items()
    }
    assert set(counted) in (set(), {"append", "sync", "pop"})
    if counted:
        assert (counted["append"], counted["pop"]) == (4, 1)
        assert counted["sync"] >= 3
