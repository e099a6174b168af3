"""Traces as messages of the system topic."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from entrepot.broker.broker import Broker
from entrepot.broker.consume import trace
from entrepot.broker.settings.store import BrokerSettings
from entrepot.broker.store.log_reading import CommitLogLayout
from entrepot.broker.store.watermarks import DiskState
from entrepot.domain.names import TRACE_TOPIC, is_topic_name
from entrepot.domain.ports import Store
from entrepot.domain.query import HopKind
from entrepot.domain.topic import Permission, Topic
from entrepot.gateway.messaging.incidents import Incidents
from entrepot.gateway.mqtt.fan_out.hub import DeliveryHub
from tests.support.clock import ManualClock
from tests.support.stores.steps import append, bodies, eventually, handles, pop


def settings(tmp_path: Path) -> BrokerSettings:
    return BrokerSettings(tmp_path / "data", layout=CommitLogLayout(1 << 20, 64 << 10, 16 << 10))


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    opened = await Broker.open(settings(tmp_path), ManualClock())
    await opened.topology.put_topic(Topic("t", queues=1, trace=1.0))
    yield opened
    await opened.close()


async def written(store: Store, count: int) -> list[dict]:
    async def enough() -> list[dict]:
        found = await store.messages.read(TRACE_TOPIC, 0, 0, 1000) if store.topology.topic(TRACE_TOPIC) else []
        return [json.loads(message.body) for message in found] if len(found) >= count else []

    return await eventually(enough)


async def test_they_are_written_by_themselves_and_anybody_may_read_them(broker: Broker):
    await append(broker, "t", "m")
    [told] = await written(broker, 1)
    assert told["message_id"] == b"m".hex().upper()
    [hop] = told["hops"]
    assert (hop["kind"], hop["topic"], hop["queue_id"], hop["queue_offset"]) == ("stored", "t", 0, 0)
    topic = broker.topology.topic(TRACE_TOPIC)
    assert topic is not None and (topic.queues, topic.permission) == (1, Permission.READ)
    [delivery] = await pop(broker, TRACE_TOPIC, "auditors")
    assert delivery.message.keys == (b"m".hex().upper(),)
    await broker.consumption.acknowledge(TRACE_TOPIC, "auditors", [delivery.receipt_handle])
    assert not broker.core.tracer.has_pending, "traces are not traced"


async def test_nothing_is_written_where_nothing_is_traced(broker: Broker):
    await broker.topology.put_topic(Topic("t", queues=1))
    await append(broker, "t", "m")
    await broker.consumption.acknowledge("t", "g", handles(await pop(broker, "t")))
    assert not broker.core.tracer.has_pending
    assert broker.topology.topic(TRACE_TOPIC) is None


async def test_they_are_there_after_a_restart(broker: Broker, tmp_path: Path):
    await append(broker, "t", "m")
    assert len(await broker.finder.message_trace(b"m")) == 1
    given = handles(await pop(broker, "t"))
    await broker.consumption.acknowledge("t", "g", given)
    await broker.close()  # writes what is still in memory
    again = await Broker.open(settings(tmp_path), ManualClock())
    try:
        assert [hop.kind for hop in await again.finder.message_trace(b"m")] == [
            HopKind.STORED,
            HopKind.DELIVERED,
            HopKind.ACKNOWLEDGED,
        ]
        assert again.registry.traced == {"t": 1.0}
        await append(again, "t", "n")
        assert len(await again.finder.message_trace(b"n")) == 1
        await again.topology.delete_topic("t")
        assert again.registry.traced == {}
    finally:
        await again.close()


async def test_beyond_the_limit_they_are_dropped_and_counted(broker: Broker, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(trace, "MAX_PENDING_HOPS", 3)
    await append(broker, "t", *(f"m{i}" for i in range(5)))
    assert (await broker.condition.gauges())["dropped_hops"] == 2
    await written(broker, 3)
    await append(broker, "t", "later")
    assert (await broker.condition.gauges())["dropped_hops"] == 2
    assert len(await broker.finder.message_trace(b"later")) == 1


async def test_many_are_written_in_parts(broker: Broker, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(trace, "WRITTEN_AT_ONCE", 2)
    await append(broker, "t", *(f"m{i}" for i in range(7)))
    assert broker.core.tracer.write(broker.core.now_ms())
    assert not broker.core.tracer.write(broker.core.now_ms(), only=b"nobody")
    assert len(await written(broker, 7)) == 7
    assert not broker.core.tracer.has_pending


async def test_on_a_full_disk_they_wait(broker: Broker):
    await append(broker, "t", "m")
    broker.core.disk_state = DiskState.EMERGENCY
    broker._write_traces()
    assert broker.core.tracer.has_pending
    broker.core.disk_state = DiskState.FINE
    broker._write_traces()
    assert not broker.core.tracer.has_pending


async def test_a_system_topic_is_not_traced_whatever_it_says(broker: Broker):
    await append(broker, "t", "m")
    await broker.finder.message_trace(b"m")
    await broker.topology.put_topic(Topic(TRACE_TOPIC, queues=1, permission=Permission.READ, trace=1.0))
    assert broker.registry.traced == {"t": 1.0}


async def test_mqtt_never_meets_them(broker: Broker):
    await append(broker, "t", "m")
    await broker.finder.message_trace(b"m")
    assert not is_topic_name(TRACE_TOPIC)
    hub = DeliveryHub(broker, ManualClock(), Incidents(ManualClock()))
    hub._wanted["+"] = 1
    hub._wanted[TRACE_TOPIC] = 1
    assert hub._is_wanted("t")
    assert not hub._is_wanted(TRACE_TOPIC)
    assert bodies(await pop(broker, "t")) == ["m"]


async def test_failures_of_untraced_messages_have_a_budget(broker: Broker, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(trace, "MAX_FAILURES_AT_ONCE", 3)
    monkeypatch.setattr(trace, "FAILURES_PER_SECOND", 2)
    await broker.topology.put_topic(Topic("silent", queues=1))
    await append(broker, "silent", *(f"m{i}" for i in range(6)))
    broker.core.tracer._budget = 3.0

    async def fail(count: int) -> None:
        given = handles(await eventually(lambda: pop(broker, "silent", "g", count)))
        await broker.consumption.change_invisible_duration("silent", "g", given, 0, release=True, suspend=False)

    await fail(5)
    assert (await broker.condition.gauges())["dropped_hops"] == 2
    kept = [len(await broker.finder.message_trace(f"m{i}".encode())) for i in range(6)]
    assert sum(kept) == 3
    clock = broker.core.now_ms.__self__  # type: ignore[attr-defined]
    clock.advance(1_000)
    await fail(5)
    dropped = (await broker.condition.gauges())["dropped_hops"]
    kept = [len(await broker.finder.message_trace(f"m{i}".encode())) for i in range(6)]
    assert sum(kept) == 5, "two more, by then"
    assert dropped > 2
