"""A broker that was let go takes nothing any more."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from entrepot.broker.server import control
from entrepot.domain.errors import Code
from entrepot.domain.topic import Topic
from entrepot.gateway.clock import SystemClock
from entrepot.protocols.wire import operations as wire
from tests.support.brokers.process_broker import start_broker, store_over
from tests.support.stores.steps import append_all, message, refusal_of
from tests.support.waiting import PATIENCE_SECONDS


async def test_an_append_after_leaving_was_accepted_is_not_confirmed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(control, "QUIET_SECONDS", 0.0)
    async with AsyncExitStack() as stack:
        clock = SystemClock()
        broker = await start_broker(tmp_path, "broker-0", clock, stack, keeps=True)
        store = await store_over([broker], clock, stack)
        await store.topology.put_topic(Topic("t", queues=1))
        [client] = store.cluster.ready
        assert await refusal_of(client.call(wire.LEAVE, [])) == Code.PRECONDITION_FAILED
        assert await append_all(store, message("t", "a")) == [None], "it was refused, so all goes on"
        await store.topology.delete_topic("t")
        await store.topology.put_topic(Topic("t", queues=1))
        await client.call(wire.SET_DRAINING, True)
        await client.call(wire.KEEP_KEY_VALUES, False, 0)
        await client.call(wire.LEAVE, [])
        assert await asyncio.wait_for(asyncio.shield(broker.process.stopped), PATIENCE_SECONDS) is None
        assert await append_all(store, message("t", "b")) == [Code.UNAVAILABLE]
        topic = broker.broker.topology.topic("t")
        assert topic is not None
        assert [each.max_offset for each in broker.broker.core.bounds_of(topic)] == [0]
