"""Slaves that lag behind their master: a gateway that reads from near ones misses nothing, and is told nothing old."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from entrepot.domain.message import StoredMessage
from entrepot.domain.position import Position, PositionKind
from entrepot.domain.replication.confirmation_rule import Rule, RuleKind
from entrepot.domain.topic import Topic
from tests.support.brokers.replicated_group import ReplicatedGroup
from tests.support.stores.steps import append, bodies
from tests.support.waiting import until

QUORUM = Rule(RuleKind.QUORUM, 3, 2)
NEAR = 3
FIVE = list("01234")


@pytest.fixture(autouse=True)
def known_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("entrepot.store_client.remote.slave_readers.CHANGED_SECONDS", 0.0)
    monkeypatch.setattr("entrepot.broker.replication.slave_reads.LOOK_SECONDS", 0.02)


class Held:
    """A slave that has what is confirmed, and derives nothing of it until it is let go."""

    def __init__(self, group: ReplicatedGroup) -> None:
        slave = group.replicas[NEAR].store.slave
        assert slave is not None
        self._confirm: Callable[[int], None] = slave.confirm
        self._slave, self.offsets = slave, [0]
        slave.confirm = self.offsets.append  # type: ignore[method-assign, assignment]

    def let_go(self) -> None:
        self._slave.confirm = self._confirm  # type: ignore[method-assign, assignment]
        self._confirm(max(self.offsets))


async def near(group: ReplicatedGroup) -> None:
    """Five messages, and a slave that they are read from."""
    store = group.store
    if group.master == NEAR:
        await group.elect(1)
    await until(lambda: store.cluster.ready, "the gateway has found the master")
    await store.topology.put_topic(Topic("t", queues=1))
    await append(store, "t", *FIVE)
    await group.even()
    [client] = store.cluster.clients.values()
    await until(lambda: store.cluster.slaves.nearest(client), "a slave is near")


async def test_one_that_is_cut_off_is_read_from_no_more(tmp_path: Path) -> None:
    async with ReplicatedGroup(tmp_path, QUORUM, zone=f"zone-{NEAR}") as group:
        await near(group)
        found: list[StoredMessage] = []
        group.store.messages.tail("t", 0, 0, found.extend)
        await until(lambda: len(found) == 5, "all")
        [client] = group.store.cluster.clients.values()
        process = group.replicas[NEAR]
        process._following.unfollow()
        process.machine.lost()
        await append(group.store, "t", "more")
        await until(lambda: group.store.cluster.slaves.nearest(client) is None, "it says that it lags")
        assert bodies(await group.store.messages.read("t", 0, 5, 9)) == ["more"]
        await until(lambda: bodies(found) == [*FIVE, "more"], "the tail goes on at the master")


async def test_a_topic_that_is_made_anew_is_followed_from_its_beginning(tmp_path: Path) -> None:
    async with ReplicatedGroup(tmp_path, QUORUM, zone=f"zone-{NEAR}") as group:
        await near(group)
        store = group.store
        found: list[StoredMessage] = []
        store.messages.tail("t", 0, 0, found.extend)
        await until(lambda: len(found) == 5, "all")
        held = Held(group)
        await store.topology.delete_topic("t")
        await store.topology.put_topic(Topic("t", queues=1))
        await append(store, "t", "new 0", "new 1")
        await until(lambda: len(held.offsets) > 1, "the slave hears of it")
        held.let_go()
        await append(store, "t", "new 2")
        await until(lambda: bodies(found)[5:] == ["new 0", "new 1", "new 2"], "all of the new one")


async def test_a_topic_of_a_moment_ago_is_the_masters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with ReplicatedGroup(tmp_path, QUORUM, zone=f"zone-{NEAR}") as group:
        await near(group)
        monkeypatch.setattr("entrepot.store_client.remote.slave_readers.CHANGED_SECONDS", 60.0)
        Held(group)
        await group.store.topology.delete_topic("t")
        await group.store.topology.put_topic(Topic("t", queues=1))
        await append(group.store, "t", "new 0", "new 1")
        assert bodies(await group.store.messages.read("t", 0, 0, 9)) == ["new 0", "new 1"]


@pytest.mark.parametrize("start", [Position(PositionKind.LATEST), None], ids=["latest", "live"])
async def test_a_tail_from_the_end_is_told_nothing_old(tmp_path: Path, start: Position | None) -> None:
    async with ReplicatedGroup(tmp_path, QUORUM, zone=f"zone-{NEAR}") as group:
        await near(group)
        store = group.store
        held = Held(group)
        await append(store, "t", "before 0", "before 1")
        found: list[StoredMessage] = []
        begun: list[bool] = []
        tail = store.messages.tail("t", 0, start, found.extend)
        tail.when_begun(lambda: begun.append(True))
        await until(lambda: begun, "it has begun")
        held.let_go()
        await append(store, "t", "after")
        await until(lambda: found, "it goes on")
        assert bodies(found) == ["after"]
