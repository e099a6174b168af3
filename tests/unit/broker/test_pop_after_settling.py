"""Pops behind settlements and corrupted records: they end, and find the room that was freed before them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from entrepot.broker.broker import Broker
from entrepot.broker.consume.consumption_op import ConsumptionOp
from entrepot.broker.consume.tick_record import TickWriter
from entrepot.broker.settings.store import BrokerSettings
from entrepot.domain.definitions.consumer_group import ConsumerGroup
from entrepot.domain.message import Message
from entrepot.domain.ports import PopRequest
from entrepot.domain.topic import Topic
from tests.support.clock import ManualClock
from tests.support.stores.steps import append_all


@pytest.mark.parametrize("may_wait", [False, True])
async def test_a_pop_at_the_group_limit_sees_an_earlier_acknowledgement(tmp_path: Path, may_wait: bool) -> None:
    store = await Broker.open(BrokerSettings(tmp_path), ManualClock())
    await store.topology.put_topic(Topic("t", queues=1))
    await store.topology.put_group(ConsumerGroup("g", max_in_flight=1))
    await append_all(store, *(Message("t", b"%d" % n, queue_id=0) for n in range(2)))
    found = await store.consumption.pop(PopRequest("t", "g", 1))
    acknowledging = asyncio.create_task(store.consumption.acknowledge("t", "g", found, may_wait=may_wait))
    await asyncio.sleep(0)  # it is given to the store before the pop
    assert len(await store.consumption.pop(PopRequest("t", "g", 1, 2000))) == 1
    await acknowledging
    await store.close()


async def test_an_attempt_over_a_corrupted_record_ends(tmp_path: Path) -> None:
    store = await Broker.open(BrokerSettings(tmp_path), ManualClock())
    await store.topology.put_topic(Topic("t", queues=1))
    await store.topology.put_group(ConsumerGroup("g", fifo=True))
    await append_all(store, Message("t", b"harmme", queue_id=0, message_group="a"))
    assert len(await store.consumption.pop(PopRequest("t", "g", 1, attempt_id="x"))) == 1
    [segment] = (tmp_path / "commitlog").iterdir()
    place = segment.read_bytes()[: 1 << 16].index(b"harmme")
    with segment.open("r+b") as file:
        file.seek(place)
        file.write(b"CORRUPTED")
    async with asyncio.timeout(10):
        assert not await store.consumption.pop(PopRequest("t", "g", 1, attempt_id="x"))
    await store.close()


def test_the_most_an_operation_adds_holds_for_long_characters() -> None:
    topic, writer = "t\0" + "\N{GRINNING FACE}" * 63, TickWriter()
    empty = writer.size
    writer.add(ConsumptionOp.ATTEMPT, "g", topic, 0, [(0, 1)], 0)
    assert writer.size - empty <= writer.most("g", topic, 1)
