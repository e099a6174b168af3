"""A group of replicas with a tier: the master uploads, the next one goes on, and each message is in the table once."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random

import polars
import pytest

from entrepot.broker.settings.tier import TierSettings
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.message import Message
from entrepot.domain.position import Position, PositionKind
from entrepot.domain.replication.confirmation_rule import Rule, RuleKind
from entrepot.domain.topic import Topic
from tests.controller.failing_over import another
from tests.support.brokers.replicated_group import ReplicatedGroup
from tests.support.seed import seeded
from tests.support.stores.steps import append_all, eventually
from tests.support.tiered.cold_topics import AT_ONCE
from tests.support.waiting import until

RULE = Rule(RuleKind.QUORUM, 3, 2)
LOSSES = 5
PAD = "x" * 8000
"""So that files of the log are full, and go."""


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("entrepot.broker.background_steps.STEP_SECONDS", 0.05)


async def publish(group: ReplicatedGroup, chance: Random, first: int) -> int:
    """Some messages; returns the number of the next."""
    count = chance.randint(100, 200)
    for start in range(first, first + count, 10):
        batch = [
            Message("t", b"%d" % at, queue_id=0, message_id=b"m%d" % at, born_time_ms=1, properties=(("pad", PAD),))
            for at in range(start, min(start + 10, first + count))
        ]
        assert await append_all(group.store, *batch) == [None] * len(batch)
    return first + count


def table(group: ReplicatedGroup, cold: Path) -> Counter[bytes]:
    """How often each body is in the table; there is one for all replicas."""
    [log] = cold.glob("t/*/_delta_log")
    return Counter(polars.read_delta(str(log.parent))["body"].to_list())


@pytest.mark.soak
@pytest.mark.timeout(300)
async def test_the_next_master_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("entrepot.store_client.remote.riding.RIDE_SECONDS", 2.0)
    chance, cold = seeded(), tmp_path / "cold"
    tier = TierSettings(cold.as_uri(), **AT_ONCE, segment_bytes=256 << 10)
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
            leading = group.replicas[group.master].store.leading
            assert leading is not None
            return leading.engine.dispatcher.queue("t", 0).min_offset == number

        await eventually(is_cold)
        slaves = [replica for number, replica in group.replicas.items() if number != group.master]

        def is_gone() -> bool:
            return all(slave.store.of_slave.engine.commit_log.min_offset > 0 for slave in slaves)

        await until(is_gone, "the slaves' disks have let go, too")
        old = group.master
        for slave in sorted(group.replicas.keys() - {old}):
            await group.stop(slave)  # without two there is no next master; the last one stands in
            break
        await group.crash(old)
        [client] = group.store.cluster.clients.values()
        await until(lambda: group.store.cluster.slaves.instead_of(client), "a slave stands in")
        for ask in (
            group.store.messages.read("t", 0, 0, 1),
            group.store.messages.offset_at("t", 0, Position(PositionKind.EARLIEST)),
        ):
            with pytest.raises(EntrepotError) as refused:
                await ask
            assert refused.value.code is Code.UNAVAILABLE, "nobody takes what is cold for gone"
        for replica in group.addresses.keys() - group.replicas.keys():
            await group.start(replica)
        await until(lambda: group.master, "somebody is master")

        async def is_read() -> bool:
            [bounds] = await group.store.messages.bounds("t")
            return bounds.min_offset == 0 and not bounds.is_pending

        await eventually(is_read)
        found: list[bytes] = []
        while len(found) < number:
            found += [message.body for message in await group.store.messages.read("t", 0, len(found), 200)]
        assert found == [b"%d" % at for at in range(number)]
