"""Reads from slaves: while the master is away, and by `reads = "nearest"`, always as far as is confirmed."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from entrepot.broker.replication.following_replica import Role
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.expression.filter import FilterExpression, FilterKind
from entrepot.domain.message import StoredMessage
from entrepot.domain.position import Position, PositionKind
from entrepot.domain.query import MessageQuery
from entrepot.domain.replication.confirmation_rule import Rule, RuleKind
from entrepot.domain.topic import Topic
from entrepot.store_client.blocking import StoreLocation, open_reader
from tests.support.brokers.replicated_group import ReplicatedGroup
from tests.support.stores.steps import append, append_all, bodies, message
from tests.support.waiting import until

TWO = Rule(RuleKind.IN_SYNC, 2)
QUORUM = Rule(RuleKind.QUORUM, 3, 2)
ALL = Rule(RuleKind.QUORUM, 3, 3)
FIVE = [str(number) for number in range(5)]


@pytest.fixture(autouse=True)
def known_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("entrepot.store_client.remote.slave_readers.CHANGED_SECONDS", 0.0)
    monkeypatch.setattr("entrepot.store_client.remote.riding.RIDE_SECONDS", 0.5)


async def without_master(group: ReplicatedGroup) -> None:
    """The master dies, and the gateway reads from a slave."""
    [client] = group.store.cluster.clients.values()
    await group.even()
    await group.crash(group.master)
    await until(lambda: group.store.cluster.slaves.instead_of(client), "a slave stands in")


@pytest.mark.failure(
    "A broker has no master for a while",
    group="Replicas of a broker",
    does=(
        "Slaves answer reads by offset, as far as confirmed. Publishing and acknowledging wait 6 s at most, then "
        "are refused as unavailable."
    ),
    lost="nothing",
    told="`entrepot_broker_available` is 0",
)
async def test_everything_is_read_while_the_master_is_away(tmp_path: Path) -> None:
    async with ReplicatedGroup(tmp_path, QUORUM) as group:
        messages, finder = group.store.messages, group.store.finder
        await group.store.topology.put_topic(Topic("t", queues=1))
        await append(group.store, "t", *FIVE)
        [first, *_] = await messages.read("t", 0, 0, 1)
        before = await messages.records("t", 0, 0, 5, 1 << 20)
        await without_master(group)
        assert bodies(await messages.read("t", 0, 1, 3)) == ["1", "2", "3"]
        pulled = await messages.pull("t", 0, 2, 10)
        assert (bodies(pulled.messages), pulled.next_offset, pulled.max_offset) == (["2", "3", "4"], 5, 5)
        filtered = await messages.pull("t", 0, 0, 10, FilterExpression(FilterKind.TAG, "none"))
        assert (filtered.messages, filtered.next_offset) == ([], 5)
        run = await messages.records("t", 0, 0, 5, 1 << 20)
        assert (run.data, run.next_offset) == (before.data, 5)
        assert await messages.bytes_between("t", 0, 0, 5) > 0
        assert [(b.min_offset, b.max_offset) for b in await messages.bounds("t")] == [(0, 5)]
        assert await messages.offset_at("t", 0, Position(PositionKind.EARLIEST)) == 0
        assert await messages.offset_at("t", 0, Position(PositionKind.OFFSET, 3)) == 3
        with pytest.raises(EntrepotError) as refused:
            await messages.offset_at("t", 0, Position(PositionKind.LATEST))
        assert refused.value.code is Code.UNAVAILABLE, "the master may have had more"
        assert bodies((await finder.query(MessageQuery("t", limit=2))).messages) == ["4", "3"]
        assert bodies([await finder.message_at(first.commit_log_offset)]) == ["0"]
        assert await append_all(group.store, message("t", "nobody takes it")) == [Code.UNAVAILABLE]


async def test_an_offset_that_a_slave_has_not_reached_is_waited_for(tmp_path: Path) -> None:
    async with ReplicatedGroup(tmp_path, QUORUM) as group:
        messages = group.store.messages
        await group.store.topology.put_topic(Topic("t", queues=1))
        await append(group.store, "t", *FIVE)
        await without_master(group)
        assert await messages.read("t", 0, 9, 1) == []
        pulled = await messages.pull("t", 0, 9, 1)
        assert (pulled.messages, pulled.next_offset, pulled.max_offset) == ([], 9, 9)
        with pytest.raises(EntrepotError) as refused:
            await messages.records("t", 0, 9, 20, 100)
        assert refused.value.code is Code.UNAVAILABLE, "a job tries again"
        with pytest.raises(EntrepotError) as refused:
            await messages.read("t", 0, -1, 1)
        assert refused.value.code is Code.ILLEGAL_OFFSET
        with pytest.raises(EntrepotError) as refused:
            await messages.read("t", 1, 0, 1)
        assert refused.value.code is Code.UNAVAILABLE, "the slave may lack what the topic has got"


async def test_a_tail_catches_up_at_a_slave_and_goes_on_at_the_next_master(tmp_path: Path) -> None:
    async with ReplicatedGroup(tmp_path, QUORUM) as group:
        messages = group.store.messages
        await group.store.topology.put_topic(Topic("t", queues=1))
        await append(group.store, "t", *FIVE)
        live: list[StoredMessage] = []
        replayed: list[StoredMessage] = []
        messages.tail("t", 0, 0, live.extend)
        await until(lambda: len(live) == 5, "what there is")
        await without_master(group)
        messages.tail("t", 0, 2, replayed.extend)
        await until(lambda: bodies(replayed) == ["2", "3", "4"], "a slave replays")
        await group.elect()
        await until(lambda: group.store.cluster.ready, "the gateway has found the next master")
        await append(group.store, "t", "after")
        await until(lambda: len(live) == 6 and len(replayed) == 4, "both go on")
        assert bodies(live) == [*FIVE, "after"]
        assert bodies(replayed) == ["2", "3", "4", "after"]


async def test_a_slave_of_the_own_zone_is_nearer(tmp_path: Path) -> None:
    async with ReplicatedGroup(tmp_path, QUORUM, zone="zone-3") as group:
        store, slaves = group.store, group.store.cluster.slaves
        if group.master == 3:
            await group.elect(1)
        await until(lambda: store.cluster.ready, "the gateway has found the master")
        await store.topology.put_topic(Topic("t", queues=1))
        await append(store, "t", *FIVE)
        [client] = store.cluster.clients.values()
        await until(lambda: slaves.nearest(client), "it is found")
        await group.even()
        asked = slaves.nearest(client)
        assert asked is not None and asked.link.address == group.addresses[3]
        assert slaves.instead_of(client) is None, "the master is there"
        assert bodies(await store.messages.read("t", 0, 0, 9)) == FIVE
        replayed: list[StoredMessage] = []
        tail = store.messages.tail("t", 0, 1, replayed.extend)
        await until(lambda: len(replayed) == 4, "it replays")
        assert tail._source is asked
        await append(store, "t", "more")
        await until(lambda: len(replayed) == 5, "it goes on")
        await group.stop(3)
        await append(store, "t", "without it")
        await until(lambda: len(replayed) == 6, "the master goes on")
        assert bodies(replayed) == ["1", "2", "3", "4", "more", "without it"]
        await store.topology.put_topic(Topic("new", queues=1))
        await group.start(3)
        assert bodies(await store.messages.read("t", 0, 5, 9)) == ["more", "without it"]
        assert await store.messages.read("new", 0, 0, 1) == [], "a slave that lacks it is passed over"


async def test_what_is_not_confirmed_is_not_shown_and_may_be_cut(tmp_path: Path) -> None:
    """The slave of the zone has it on its disk; the next master does not, so it never was."""
    async with ReplicatedGroup(tmp_path, ALL, zone="zone-3") as group:
        messages = group.store.messages
        if group.master != 1:
            await group.elect(1)
        await until(lambda: group.store.cluster.ready, "the gateway has found the master")
        await group.store.topology.put_topic(Topic("t", queues=1))
        await append(group.store, "t", *FIVE)
        await group.even()
        [client] = group.store.cluster.clients.values()
        await until(lambda: group.store.cluster.slaves.nearest(client), "its slave is found")
        tailed: list[StoredMessage] = []
        messages.tail("t", 0, 0, tailed.extend)
        await until(lambda: len(tailed) == 5, "what there is")
        group.replicas[2]._following.unfollow()
        before = group.replicas[3].machine.synced
        master = group.replicas[1].store.leading
        assert master is not None
        master.broker.messages.append([message("t", "not confirmed")])  # its gateway dies: nobody asks again
        await until(lambda: group.replicas[3].machine.synced > before, "the slave has it")
        assert b"not confirmed" in group.log_of(3)

        async def is_shown() -> list[str]:
            pulled = await messages.pull("t", 0, 0, 10)
            [bounds] = await messages.bounds("t")
            assert (pulled.next_offset, bounds.max_offset) == (5, 5)
            return [*bodies(await messages.read("t", 0, 0, 10)), *bodies(pulled.messages), *bodies(tailed)]

        assert await is_shown() == 3 * FIVE
        await group.crash(1)
        assert await is_shown() == 3 * FIVE
        electing = asyncio.create_task(group.elect(2))
        await until(lambda: group.replicas[2].machine.role is Role.MASTER, "the one without it is master")
        await group.start(1)
        assert (await electing).master == 2
        await until(lambda: group.store.cluster.ready, "the gateway has found it")
        await append(group.store, "t", "after")
        await group.even()
        assert b"not confirmed" not in group.log_of(3), "it is cut there"
        assert bodies(await messages.read("t", 0, 0, 10)) == [*FIVE, "after"]
        await until(lambda: len(tailed) == 6, "the tail goes on")
        assert bodies(tailed) == [*FIVE, "after"]


@pytest.mark.soak
async def test_a_job_that_starts_while_the_master_is_away_reads(tmp_path: Path) -> None:
    async with ReplicatedGroup(tmp_path, QUORUM) as group:
        await group.store.topology.put_topic(Topic("t", queues=1))
        await append(group.store, "t", *FIVE)
        await without_master(group)
        location = StoreLocation(name_servers=(group.name_server_address,))
        reader = await asyncio.to_thread(open_reader, location)
        try:
            [bounds] = await asyncio.to_thread(reader.bounds, "t")
            assert (bounds.max_offset, bounds.may_lag) == (5, True)
            run = await asyncio.to_thread(reader.records, "t", 0, 1, 5, 1 << 20)
            assert (len(run.entries), run.next_offset) == (4, 5)
        finally:
            await asyncio.to_thread(reader.close)


async def test_a_copy_that_is_not_whole_answers_nothing(tmp_path: Path) -> None:
    """It does not know the places of all queues yet."""
    async with ReplicatedGroup(tmp_path, TWO) as group:
        other = 3 - group.master
        slave = group.replicas[other].store.slave
        assert slave is not None and slave._reads is not None
        slave.engine.dispatcher.begins_anywhere = True
        slave._reads.withdraw()
        slave._reads = None
        slave._offer_if_whole()
        assert slave._reads is None
        slave.engine.dispatcher.begins_anywhere = False
        slave._offer_if_whole()
        assert slave._reads is not None
