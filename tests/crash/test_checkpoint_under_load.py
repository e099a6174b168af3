"""A checkpoint needs a moment at which everything is durable; producers that never rest must not keep it away."""

from __future__ import annotations

import asyncio
from pathlib import Path

from entrepot.broker.broker import Broker
from entrepot.broker.settings.store import BrokerSettings
from entrepot.domain.errors import EntrepotError
from entrepot.domain.message import Message
from entrepot.domain.topic import Topic
from entrepot.gateway.clock import SystemClock
from tests.support.waiting import PATIENCE_SECONDS


async def test_checkpoints_are_taken_while_a_producer_never_rests(tmp_path: Path):
    broker = await Broker.open(BrokerSettings(tmp_path / "data", checkpoint_interval_bytes=1024), SystemClock())
    await broker.topology.put_topic(Topic("t", queues=1))
    is_running = True

    def append(failure: EntrepotError | None) -> None:
        if is_running and failure is None:  # another batch in the very callback that confirms the last one
            broker.messages.append([Message("t", bytes(1000), queue_id=0)]).when_settled(append)

    append(None)
    async with asyncio.timeout(PATIENCE_SECONDS):
        seen: set[int] = set()
        while len(seen) < 3:
            seen.add(broker.engine.checkpointer.position)
            await asyncio.sleep(0.01)
    is_running = False
    await broker.close()
