"""A group of replicas with a tier: the master uploads, the next one goes on, and each message is in the table once."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random

import polars
import pytest

from broker.tiered.settings import TierSettings
from domain.message import Message
from domain.replication.rule import Rule, RuleKind
from domain.topic import Topic
from tests.controller.failing_over import another
from tests.support.replicated_group import ReplicatedGroup
from tests.support.seed import seeded
from tests.support.store_steps import append_all, eventually
from tests.support.waiting import until
from tests.tiers.marks import scaled

RULE = Rule(RuleKind.QUORUM, 3, 2)
LOSSES = scaled(2, 10)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker.broker.BACKGROUND_STEP_SECONDS", 0.05)


async def publish(group: ReplicatedGroup, chance: Random, first: int) -> int:
    """Some messages; returns the number of the next."""
    count = chance.randint(50, 300)
    for at in range(first, first + count):
        message = Message("t", b"%d" % at, queue_id=0, message_id=b"m%d" % at, born_time_ms=1)
        assert await append_all(group.store, message) == [None]
    return first + count


def table(group: ReplicatedGroup, cold: Path) -> Counter[bytes]:
    """How often each body is in the table; there is one for all replicas."""
    [log] = cold.glob("t/*/_delta_log")
    return Counter(polars.read_delta(str(log.parent))["body"].to_list())


@pytest.mark.scaled
@pytest.mark.timeout(300)
async def test_the_next_master_goes_on(tmp_path: Path) -> None:
    chance, cold = seeded(), tmp_path / "cold"
    tier = TierSettings(cold.as_uri(), max_age_seconds=0.05, segment_bytes=16 << 10)
    async with ReplicatedGroup(tmp_path, RULE, controllers=3, tier=tier) as group:
        await group.store.topology.put_topic(Topic("t", queues=1, retention_seconds=60, tier_seconds=10**9))
        number = await publish(group, chance, 0)
        for _ in range(LOSSES):
            old = group.master
            await group.crash(old)
            await another(group, old)
            await group.start(old)
            number = await publish(group, chance, number)
        expected = Counter(b"%d" % at for at in range(number))
        await until(lambda: list(cold.glob("t/*/_delta_log")), "there is a table")
        await until(lambda: table(group, cold).total() >= number, lambda: f"{table(group, cold).total()} of {number}")
        assert table(group, cold) == expected, "each once"
        group.clock.advance(120_000)

        async def is_cold() -> bool:
            leading = group.replicas[group.master]._leading
            assert leading is not None
            return leading.engine.dispatcher.queue("t", 0).min_offset == number

        await eventually(is_cold)
        old = group.master
        await group.crash(old)
        await another(group, old)

        async def is_read() -> bool:
            [bounds] = await group.store.messages.bounds("t")
            return bounds.min_offset == 0

        await eventually(is_read)
        found: list[bytes] = []
        while len(found) < number:
            found += [message.body for message in await group.store.messages.read("t", 0, len(found), 200)]
        assert found == [b"%d" % at for at in range(number)]
