"""A broker group of real replicas: stores on the disk, connections over loopback, mastership moved by hand."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

from entrepot.broker.broker import Broker
from entrepot.broker.metadata.identity import BrokerIdentity
from entrepot.broker.replication.slave_store import SlaveStore
from entrepot.broker.settings.store import BrokerSettings
from entrepot.domain.errors import EntrepotError
from entrepot.domain.key_value import KeyValueChange
from entrepot.domain.replication.confirmation_rule import Rule, RuleKind
from entrepot.domain.topic import Topic
from tests.support.brokers.quick_brokers import work_often
from tests.support.brokers.replicated_group import LAYOUT, ReplicatedGroup
from tests.support.clock import ManualClock
from tests.support.stores.steps import append, bodies, codes, eventually, handles, message, pop
from tests.support.waiting import until

TWO = Rule(RuleKind.IN_SYNC, 2)
QUORUM = Rule(RuleKind.QUORUM, 3, 2)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a broker does by itself is done often."""
    work_often(monkeypatch)


async def test_what_is_confirmed_is_on_every_disk_in_sync(tmp_path: Path) -> None:
    async with ReplicatedGroup(tmp_path, TWO) as group:
        await group.store.topology.put_topic(Topic("t", queues=1))
        await append(group.store, "t", *map(str, range(100)))
        for replica in group.replicas.values():
            assert replica.status().confirmed > 0
        ends = [replica.status().synced for replica in group.replicas.values()]
        logs = [group.log_of(replica)[: min(ends)] for replica in group.replicas]
        assert logs[0] == logs[1]
        assert logs[0].count(b"ENTR") >= 100


@pytest.mark.parametrize("rule", [TWO, QUORUM], ids=["2-2", "2-3"])
async def test_mastership_moves_by_hand(tmp_path: Path, rule: Rule) -> None:
    async with ReplicatedGroup(tmp_path, rule) as group:
        store = group.store
        await store.topology.put_topic(Topic("t", queues=1))
        await append(store, "t", *map(str, range(10)))
        found = await pop(store, "t", count=4)
        assert codes(await store.consumption.acknowledge("t", "g", handles(found[:2]))) == [None, None]
        for wanted in (2, 1, 2):
            made = await group.elect(wanted)
            assert (made.master, group.master) == (wanted, wanted)
            await until(lambda: store.cluster.ready, "the gateway has found it")
            await append(store, "t", f"in {made.epoch}")
        assert codes(await store.consumption.acknowledge("t", "g", handles(found[2:]))) == [None, None], "as before"
        rest = await eventually(lambda: pop(store, "t"))
        assert bodies(rest) == [*map(str, range(4, 10)), "in 2", "in 3", "in 4"]


async def test_one_that_was_away_catches_up(tmp_path: Path) -> None:
    async with ReplicatedGroup(tmp_path, QUORUM) as group:
        await group.store.topology.put_topic(Topic("t", queues=1))
        away = next(replica for replica in group.replicas if replica != group.master)
        for is_wiped in (False, True):
            await append(group.store, "t", "before")
            await group.even()
            await group.stop(away)
            await append(group.store, "t", *map(str, range(200)))
            if is_wiped:
                group.wipe(away)
            await group.start(away)
            await group.even()
        assert group.log_of(away).rstrip(b"\0") == group.log_of(group.master).rstrip(b"\0")
        member, master = group.replicas[away].machine.state.member, group.replicas[group.master].machine
        await until(lambda: member in master.state.appointment.members, "it is in sync again, as what it is now")


async def test_a_master_that_died_comes_back_as_a_slave(tmp_path: Path) -> None:
    async with ReplicatedGroup(tmp_path, QUORUM) as group:
        store = group.store
        await store.topology.put_topic(Topic("t", queues=1))
        await append(store, "t", *map(str, range(5)))
        died = group.master
        await group.crash(died)
        made = await group.elect()
        assert made.master != died
        await until(lambda: store.cluster.ready, "the gateway has found it")
        await append(store, "t", "after")
        await group.start(died)
        await group.even()
        assert group.replicas[died].status().role == "slave"
        assert bodies(await eventually(lambda: pop(store, "t"))) == [*map(str, range(5)), "after"]


async def test_a_store_without_replicas_becomes_one_of_a_group(tmp_path: Path) -> None:
    """Its messages, its groups and its key-values, also those whose records retention has removed."""
    clock = ManualClock()
    group = ReplicatedGroup(tmp_path, TWO, clock)
    old = await Broker.open(
        BrokerSettings(group.data_dir(1), name="group", layout=LAYOUT, retention_interval_seconds=0.01), clock
    )
    await old.topology.put_topic(Topic("t", queues=1, retention_seconds=60))
    await old.topology.put_topic(Topic("kept", queues=1))
    await old.key_values.write([KeyValueChange("key", b"value")])
    for _ in range(8):
        await append(old, "t", *(bytes(100_000) for _ in range(2)))
    await pop(old, "t", count=1)
    clock.advance(120_000)
    await append(old, "kept", "a")
    await until(lambda: old.engine.commit_log.min_offset, "retention has removed the beginning")
    await old.close()
    async with group:
        await append(group.store, "kept", "b")
        assert group.master == 1
        await group.even()
        await group.elect(2)
        await until(lambda: group.store.cluster.ready, "the gateway has found it")
        assert bodies(await eventually(lambda: pop(group.store, "kept"))) == ["a", "b"]
        await until(lambda: any(c.info and c.info.keeps_key_values for c in group.store.cluster.ready), "a keeper")
        assert [each and each.value for each in await group.store.key_values.get(["key"])] == [b"value"]
        assert {topic.name for topic in group.store.topology.topics()} >= {"t", "kept"}


async def test_what_was_not_derived_yet_is_known_after_a_restart(tmp_path: Path) -> None:
    """A replica that saved no rows knows by its log whose bytes it has: it cuts nothing that its master has too."""
    async with ReplicatedGroup(tmp_path, QUORUM) as group:
        await group.store.topology.put_topic(Topic("t", queues=1))
        await append(group.store, "t", *map(str, range(50)))
        await group.even()
        slave = next(replica for replica in group.replicas if replica != group.master)
        await group.crash(slave)
        await group.start(slave)
        machine = group.replicas[slave].machine
        assert machine.starts[-1].name == (1, 1)
        await group.even()
        assert not (group.data_dir(slave) / "diverged").exists()


async def test_a_broker_that_kept_the_key_values_goes_on_doing_so(tmp_path: Path) -> None:
    """Its `broker.json` says so, the group's log does from its first start as a replica on."""
    group = ReplicatedGroup(tmp_path, TWO)
    old = await Broker.open(BrokerSettings(group.data_dir(1), name="group", layout=LAYOUT), group.clock)
    await old.key_values.write([KeyValueChange("key", b"value")])
    await old.close()
    BrokerIdentity("group", 0, keeps_key_values=True).save(group.data_dir(1))
    async with group:
        await until(lambda: any(c.info and c.info.keeps_key_values for c in group.store.cluster.ready), "a keeper")
        await group.elect(2)
        await until(lambda: any(c.info and c.info.keeps_key_values for c in group.store.cluster.ready), "a keeper")
        assert [each and each.value for each in await group.store.key_values.get(["key"])] == [b"value"]


@pytest.mark.failure(
    "The master's disk is lost",
    group="Replicas of a broker",
    does="It starts empty and does not lead. Another replica is elected, and it copies everything.",
    lost="nothing confirmed",
)
@pytest.mark.parametrize("rule", [Rule(RuleKind.ASYNC, 2), TWO], ids=["async", "in-sync"])
async def test_a_wiped_master_does_not_lead_with_an_empty_disk(tmp_path: Path, rule: Rule) -> None:
    async with ReplicatedGroup(tmp_path, rule) as group:
        await group.store.topology.put_topic(Topic("t", queues=1))
        await append(group.store, "t", "a", "b")
        await group.even()
        await group.stop(1)
        group.wipe(1)
        await group.start(1)
        await until(lambda: group.replicas[1].status().appointment.epoch, "it has heard who was master")
        assert group.master == 0
        await group.elect(2, without=(1,) if rule is TWO else ())
        await group.even()
        assert group.replicas[1].status().group == group.replicas[2].status().group
        await until(lambda: group.store.cluster.ready, "the gateway has found it")
        assert bodies(await eventually(lambda: pop(group.store, "t"))) == ["a", "b"]


async def test_a_slave_that_reconnects_says_what_it_has(tmp_path: Path) -> None:
    """On an idle group nothing else would tell, and a move would wait in vain."""
    async with ReplicatedGroup(tmp_path, TWO) as group:
        await append_topic(group)
        slave = group.replicas[2]
        slave._following.unfollow()
        slave._follow_again()
        await until(lambda: slave.machine.is_joined, "it is back")
        assert (await group.elect(2)).master == 2


async def append_topic(group: ReplicatedGroup) -> None:
    await group.store.topology.put_topic(Topic("t", queues=1))
    await append(group.store, "t", "a", "b")
    await group.even()


async def test_a_copy_that_is_cut_short_begins_again(tmp_path: Path) -> None:
    """It began in the middle of a log: what it had of queues then was not all."""
    clock = ManualClock()
    group = ReplicatedGroup(tmp_path, QUORUM, clock)
    await shortened(group, clock)
    async with group:
        for is_stopped in (True, False):
            slave = next(replica for replica in group.replicas if replica != group.master)
            await (group.stop(slave) if is_stopped else group.crash(slave))
            group.wipe(slave)
            await group.start(slave)
            await until(lambda: group.replicas[slave].machine.end, "it has begun to copy")  # noqa: B023
            await group.stop(slave)
            await group.start(slave)
            await group.even()
            bounds = group.replicas[slave].store.of_slave.engine.dispatcher.queues["kept", 0]
            assert (bounds.min_offset, bounds.max_offset) == (0, 2)
            await group.elect(slave)
        await until(lambda: group.store.cluster.ready, "the gateway has found it")
        assert bodies(await eventually(lambda: pop(group.store, "kept"))) == ["a", "b"]


async def test_a_slave_that_removed_a_segment_is_a_whole_master(tmp_path: Path) -> None:
    """What retention lets go of is said by no record: the slave lets go of it with the segment."""
    clock = ManualClock()
    async with ReplicatedGroup(tmp_path, TWO, clock) as group:
        await group.store.topology.put_topics([Topic("t", queues=1, retention_seconds=60), Topic("kept", queues=1)])
        for _ in range(8):
            await append(group.store, "t", *(bytes(100_000) for _ in range(2)))
        clock.advance(120_000)
        await append(group.store, "kept", "a", "b")
        slave = group.replicas[2]
        await until(lambda: slave.store.of_slave.engine.commit_log.min_offset, "the slave has removed it, too")
        await group.elect(2)
        await until(lambda: group.store.cluster.ready, "the gateway has found it")
        [bounds] = await group.store.messages.bounds("t")
        assert bounds.min_offset > 0, "nothing is offered that is gone"
        left = await group.store.messages.read("t", 0, bounds.min_offset, 100)
        assert len(left) == bounds.max_offset - bounds.min_offset
        assert bodies(await eventually(lambda: pop(group.store, "kept"))) == ["a", "b"]


async def test_a_copy_of_a_group_that_changed_masters_begins_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The records that say whose bytes it has may be gone from the log: it has nothing of its own."""
    clock = ManualClock()
    group = ReplicatedGroup(tmp_path, QUORUM, clock)
    async with group:
        await group.elect(2)
        await group.stop(1)
        await group.start(1)
        await group.even()
        await group.elect(1)
        await until(lambda: group.store.cluster.ready, "the gateway has found it")
        await group.store.topology.put_topics([Topic("t", queues=1, retention_seconds=60), Topic("kept", queues=1)])
        for _ in range(8):
            await append(group.store, "t", *(bytes(100_000) for _ in range(2)))
        clock.advance(120_000)
        await append(group.store, "kept", "a", "b")
        master = group.replicas[1].store.leading
        assert master is not None
        await until(lambda: master.engine.commit_log.min_offset, "retention has removed the beginning")
        await group.stop(3)
        group.wipe(3)
        with monkeypatch.context() as patched:
            patched.setattr(SlaveStore, "confirm", lambda store, offset: None)  # it copies, and derives nothing
            await group.start(3)
            await until(lambda: group.replicas[3].machine.end >= master.engine.end, "it has copied all")
            await group.stop(3)
        await group.start(3)
        await group.even()
        queue = group.replicas[3].store.of_slave.engine.dispatcher.queues["kept", 0]
        assert (queue.min_offset, queue.max_offset) == (0, 2)


async def shortened(group: ReplicatedGroup, clock: ManualClock) -> None:
    """The store of a broker whose log does not begin at 0 any more."""
    settings = BrokerSettings(group.data_dir(1), name="group", layout=LAYOUT, retention_interval_seconds=0.01)
    old = await Broker.open(settings, clock)
    await old.topology.put_topic(Topic("t", queues=1, retention_seconds=60))
    await old.topology.put_topic(Topic("kept", queues=1))
    for _ in range(8):
        await append(old, "t", *(bytes(100_000) for _ in range(2)))
    clock.advance(120_000)
    await append(old, "kept", "a", "b")
    await until(lambda: old.engine.commit_log.min_offset, "retention has removed the beginning")
    await old.close()


@pytest.mark.failure(
    "Two of three replicas are lost, under `in-sync` with `min_in_sync` 2",
    group="Replicas of a broker",
    does=(
        "The last one leads, by controllers or an operator. It refuses publishing; consuming and acknowledging go on."
    ),
    lost="nothing",
    told="refusals: publishing needs 2",
)
async def test_too_few_in_sync_take_no_messages(tmp_path: Path) -> None:
    """Consuming goes on."""
    async with ReplicatedGroup(tmp_path, Rule(RuleKind.IN_SYNC, 3, min_in_sync=2)) as group:
        await append_topic(group)
        for slave in [replica for replica in group.replicas if replica != group.master]:
            await group.stop(slave)
        await group.elect(without=(2, 3))
        await until(lambda: group.store.cluster.ready, "the gateway has found it")
        found = await eventually(lambda: pop(group.store, "t"))
        assert codes(await group.store.consumption.acknowledge("t", "g", handles(found))) == [None, None]
        confirmation = group.store.messages.append([message("t", "c")])
        [refusal] = await confirmation.wait() or [None]
        assert refusal is not None
        assert "publishing needs 2" in refusal.message


@pytest.mark.failure(
    "The mastership is moved by hand",
    group="Operators' mistakes and maintenance",
    does="Publishes wait, and none is refused. Each message is there once, in order.",
    lost="nothing",
)
async def test_publishes_wait_while_the_master_moves(tmp_path: Path) -> None:
    """A planned move refuses nothing, and what was taken is there once, in order."""
    async with ReplicatedGroup(tmp_path, QUORUM) as group:
        await group.store.topology.put_topic(Topic("t", queues=1))
        sent = confirmed = 0
        is_done = asyncio.Event()

        async def publish() -> None:
            nonlocal sent, confirmed
            while not is_done.is_set():
                await append(group.store, "t", f"{sent}".ljust(20))
                sent, confirmed = sent + 1, confirmed + 1

        publishing = asyncio.create_task(publish())
        for wanted in (2, 3, 1):
            before = confirmed
            await group.elect(wanted)
            await until(lambda: confirmed > before + 5 or publishing.done(), "it goes on")  # noqa: B023
        is_done.set()
        await publishing
        read = await group.store.messages.read("t", 0, 0, 2 * sent)
        assert [int(each.body) for each in read] == list(range(confirmed))


async def test_nothing_is_told_that_the_replicas_do_not_have(tmp_path: Path) -> None:
    """A topic that is on the master's disk alone may never have been."""
    async with ReplicatedGroup(tmp_path, TWO) as group:
        await append_topic(group)
        group.replicas[2]._following.unfollow()
        await until(lambda: group.replicas[1].machine.slaves[2].stream < 0, "the slave is away")
        putting = asyncio.create_task(group.store.topology.put_topic(Topic("u", queues=1)))
        master = group.replicas[1].store.leading
        assert master is not None
        await until(lambda: "u" in master.broker.registry.topics, "the master has it")
        await until(lambda: master.engine.commit_log.durable_offset == master.engine.end, "on its disk")
        confirmation = group.store.messages.append([message("t", "c")])
        await asyncio.sleep(0.1)
        assert not putting.done() and not confirmation.settled
        assert group.store.topology.topic("u") is None
        group.replicas[2]._follow_again()
        await putting
        assert await confirmation.wait() is None
        assert group.store.topology.topic("u") is not None


@pytest.mark.failure_also("A replica starts with an old copy of its directory")
async def test_a_directory_that_comes_back_from_a_copy_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It forgot what it had acknowledged: it does not follow, nobody elects it, and it says so; empty it may start."""
    monkeypatch.setattr("entrepot.store_client.remote.electing.CATCH_UP_SECONDS", 0.05)  # it never does
    async with ReplicatedGroup(tmp_path, QUORUM) as group:
        await group.store.topology.put_topic(Topic("t", queues=1))
        await group.even()
        slave = 3 - min(group.master, 2)
        await group.stop(slave)
        shutil.copytree(group.data_dir(slave), tmp_path / "copy")
        await group.start(slave)
        await append(group.store, "t", *map(str, range(20)))
        await group.even()
        await group.stop(slave)
        group.wipe(slave)
        shutil.copytree(tmp_path / "copy", group.data_dir(slave))
        for _ in range(2):  # the second start has a run number above the one that was heard
            await group.start(slave)
            await until(lambda: "start it with an empty one" in group.replicas[slave].status().problem, "it says why")
            with pytest.raises(EntrepotError, match="start it with an empty one"):
                await group.elect(slave)
            await until(lambda: group.master, "the others go on")
            await group.stop(slave)
        group.wipe(slave)
        await group.start(slave)
        await group.even()
        assert group.replicas[slave].status().role == "slave"
