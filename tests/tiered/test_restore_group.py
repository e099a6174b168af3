"""A group of replicas restores what another group has lost, and fails over: its slaves know where the queues begin."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import polars
import pytest

from entrepot.broker.settings.tier import TierSettings
from entrepot.broker.tiered.fence import EPOCH_BITS
from entrepot.broker.tiered.folder import FolderStore
from entrepot.broker.tiered.verification import verify
from entrepot.domain.message import Message
from entrepot.domain.replication.confirmation_rule import Rule, RuleKind
from entrepot.domain.tiering import RestoreRequest
from entrepot.domain.topic import Topic
from tests.controller.failing_over import another
from tests.support.brokers.replicated_group import ReplicatedGroup
from tests.support.stores.steps import append_all
from tests.support.tiered.cold_topics import AT_ONCE
from tests.support.waiting import until

RULE = Rule(RuleKind.QUORUM, 3, 2)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("entrepot.broker.background_steps.STEP_SECONDS", 0.05)


async def publish(group: ReplicatedGroup, first: int, count: int = 100) -> int:
    """Some messages; returns the number of the next."""
    batch = [
        Message("t", b"%d" % at, queue_id=0, message_id=b"m%d" % at, born_time_ms=1)
        for at in range(first, first + count)
    ]
    assert await append_all(group.store, *batch) == [None] * count
    return first + count


async def read(group: ReplicatedGroup, count: int) -> list[bytes]:
    found: list[bytes] = []
    while len(found) < count:
        found += [message.body for message in await group.store.messages.read("t", 0, len(found), 200)]
    return found


def in_table(cold: Path) -> Counter[bytes]:
    logs = list(cold.glob("t/*/_delta_log"))
    return Counter(polars.read_delta(str(logs[0].parent))["body"].to_list()) if logs else Counter()


async def all_in_table(cold: Path, count: int) -> None:
    await until(lambda: in_table(cold).total() == count, lambda: f"{in_table(cold).total()} of {count}")


@pytest.mark.soak
@pytest.mark.timeout(300)
async def test_a_restored_topic_survives_a_failover(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("entrepot.store_client.remote.riding.RIDE_SECONDS", 2.0)
    cold = tmp_path / "cold"
    tier = TierSettings(cold.as_uri(), **AT_ONCE, segment_bytes=256 << 10)
    async with ReplicatedGroup(tmp_path / "first", RULE, controllers=3, tier=tier) as group:
        await group.store.topology.put_topic(Topic("t", queues=1, tier_seconds=10**9))
        number = await publish(group, 0)
        await all_in_table(cold, number)
    shutil.rmtree(tmp_path / "first")
    async with ReplicatedGroup(tmp_path / "second", RULE, controllers=3, tier=tier) as group:
        leading = group.replicas[group.master].store.leading
        assert leading is not None
        master = leading.broker.tier
        await until(lambda: master is not None and not master.problem, "the object store is reached")
        await group.store.tables.restore(RestoreRequest("t", tier_seconds=10**9, is_forced=True))
        [bounds] = await group.store.messages.bounds("t")
        assert (bounds.min_offset, bounds.max_offset) == (0, number)
        number = await publish(group, number)
        for _ in range(2):
            old = group.master
            await group.crash(old)
            await another(group, old)
            await group.start(old)
            number = await publish(group, number)
            await all_in_table(cold, number)
        expected = [b"%d" % at for at in range(number)]
        assert in_table(cold) == Counter(expected), "each once"
        await until(lambda: group.master, "somebody is master")
        assert await read(group, number) == expected
        slaves = [replica for replica in group.replicas if replica != group.master]
        for slave in slaves:
            store = group.replicas[slave].store.of_slave
            await until(lambda store=store: store.engine.dispatcher.queue("t", 0).max_offset == number, "it follows")
            assert store.engine.dispatcher.queue("t", 0).min_offset == 100, "it knows where its queue began"
        [table] = [log.parent for log in cold.glob("t/*/_delta_log")]
        verdict = verify(FolderStore(cold), str(table.relative_to(cold)), group.clock, is_full=True)
        assert verdict.problems == []
        epochs = [int(word.split(",")[0]) >> EPOCH_BITS for word in epochs_in(table)]
        assert epochs == sorted(epochs) and len(set(epochs)) > 2, "each master raised it"


def epochs_in(table: Path) -> list[str]:
    """Epochs of the second group's commits, oldest first."""
    logs = [path.read_text() for path in sorted((table / "_delta_log").glob("*.json"))]
    [taken] = [log for log in logs if "TAKE OVER" in log]
    store = taken.rpartition('"run/')[2].partition('"')[0]
    return [log.partition(f'"epoch/{store}","version":')[2] for log in logs if f'"epoch/{store}"' in log]
