"""Outgoing messages of a bridge to a RocketMQ cluster: each is settled by its own outcome."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, cast

import pytest

from entrepot.domain.confirmation import Confirmation
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.message import Message
from entrepot.domain.ports import Store
from entrepot.domain.topic import Topic
from entrepot.gateway.bridge.rocketmq import outbound
from entrepot.gateway.bridge.rocketmq.outbound import Outbound
from entrepot.gateway.bridge.rocketmq.status import RocketMqCounters
from entrepot.gateway.messaging.incidents import Incidents
from entrepot.gateway.settings.rocketmq_bridge import RocketMqRemote
from tests.support.clock import ManualClock
from tests.support.stores.model_store import MemoryStore
from tests.support.waiting import PATIENCE_SECONDS, until

RULE: dict[str, Any] = {"direction": "out", "topics": ["t"], "start": "earliest"}
REMOTE = RocketMqRemote.model_validate({"name": "old", "name_servers": ["h:9876"], "rules": [RULE]})
DEAD_LETTERS = "%DLQ%rocketmq-bridge-old-1"


class OddAppends:
    """A cluster's appends: a body `fault` is an error of ours, `large` and `closed` are refused."""

    def __init__(self) -> None:
        self.taken: list[bytes] = []
        self.is_open = False

    def append(self, messages: Sequence[Message]) -> Confirmation:
        if any(message.body == b"fault" for message in messages):
            raise ValueError("no encoder takes it")
        refusals = [self._refusal(message.body) for message in messages]
        self.taken += [each.body for each, refusal in zip(messages, refusals, strict=True) if refusal is None]
        confirmation = Confirmation(refusals if any(refusals) else None)
        confirmation.settle(None)
        return confirmation

    def _refusal(self, body: bytes) -> EntrepotError | None:
        if body == b"large":
            return EntrepotError(Code.MESSAGE_BODY_TOO_LARGE, "too large")
        if body == b"closed" and not self.is_open:
            return EntrepotError(Code.FORBIDDEN, "no right to publish")
        return None


@dataclass
class World:
    clock: ManualClock
    store: MemoryStore
    appends: OddAppends
    counters: RocketMqCounters

    def publish(self, *bodies: bytes) -> None:
        self.store.messages.append([Message("t", body, sub_topic="t", queue_id=0) for body in bodies])

    async def dead_letters(self) -> list[bytes]:
        if self.store.topology.topic(DEAD_LETTERS) is None:
            return []
        return sorted(message.body for message in await self.store.messages.read(DEAD_LETTERS, 0, 0, 10))


@pytest.fixture
async def world() -> AsyncIterator[World]:
    clock = ManualClock()
    store, cluster = MemoryStore(clock), MemoryStore(clock)
    for each in (store, cluster):
        await each.topology.put_topic(Topic("t", 1))
    found = World(clock, store, OddAppends(), RocketMqCounters())
    remote = cast(Store, SimpleNamespace(topology=cluster.topology, messages=found.appends))
    mark, incidents = ("mark", "1"), Incidents(clock)
    out = Outbound(REMOTE, remote, cast(Store, store), clock, found.counters, mark, 0, incidents)
    task = asyncio.create_task(out.run())
    yield found
    task.cancel()
    await asyncio.wait([task])
    await store.close()
    await cluster.close()


async def test_one_that_cannot_be_handled_is_set_aside_and_the_others_go_on(world: World) -> None:
    world.publish(b"1", b"fault", b"2", b"large", b"3")
    await until(lambda: world.counters.sent == 3, lambda: str(world.counters))
    assert world.appends.taken == [b"1", b"2", b"3"]
    async with asyncio.timeout(PATIENCE_SECONDS):
        while await world.dead_letters() != [b"fault", b"large"]:
            await asyncio.sleep(0)
    assert (world.counters.refused_out, world.counters.unknown) == (2, 0)


async def test_a_missing_right_makes_no_dead_letters(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbound, "AGAIN_MS", 10)
    world.publish(b"1", b"closed")
    await until(lambda: world.counters.sent == 1, "the other one")
    world.appends.is_open = True

    def is_sent() -> bool:
        world.clock.advance(1_000)
        return world.counters.sent == 2

    await until(is_sent, lambda: str(world.counters))
    assert (world.counters.refused_out, await world.dead_letters()) == (0, [])
