"""Health of replicas: what each says of itself, its lag as the master tells it, and readiness."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

from entrepot.broker.replication.slave_lag import behind_seconds
from entrepot.domain.ports.cluster import ReplicaView
from entrepot.domain.replication.confirmation_rule import Rule, RuleKind
from entrepot.domain.topic import Topic
from entrepot.gateway.http.metrics.replica_metrics import replica_metrics
from entrepot.store_client.remote.ping import Pong, ping
from tests.support.brokers.replicated_group import ReplicatedGroup
from tests.support.cases import cases
from tests.support.clock import ManualClock
from tests.support.stores.steps import append
from tests.support.waiting import PATIENCE_SECONDS, until

QUORUM = Rule(RuleKind.QUORUM, 3, 2)


async def asked(group: ReplicatedGroup, replica: int) -> Pong:
    return await ping(group.addresses[replica], seconds=PATIENCE_SECONDS)


async def view(group: ReplicatedGroup, replica: int) -> ReplicaView:
    found = (await asked(group, replica)).replica
    assert found is not None
    return found


async def samples(group: ReplicatedGroup) -> dict[tuple[str, ...], float]:
    """Metrics of the group by name and labels."""
    assert group.store.operations is not None
    families = replica_metrics(await group.store.operations.replication())
    return {(each.name, *each.labels.values()): each.value for family in families for each in family.samples}


async def test_a_slave_is_ready_again_when_it_lacks_nothing(tmp_path: Path) -> None:
    """The lag is the age of the first record that it lacks, by the master's clock, in bytes and in seconds."""
    clock = ManualClock()
    async with ReplicatedGroup(tmp_path, QUORUM, clock) as group:
        await group.store.topology.put_topic(Topic("t", queues=1))
        await group.even()
        master = group.master
        slave = next(replica for replica in group.replicas if replica != master)
        assert [(await view(group, replica)).unready(1.0) for replica in group.replicas] == ["", "", ""]
        assert (await asked(group, slave)).master == master
        assert (await view(group, master)).role == "master"

        group.replicas[slave]._following.unfollow()
        await until(lambda: group.replicas[master].machine.slaves[slave].stream < 0, "the master has noticed")
        had = group.replicas[slave].status().synced
        clock.advance(60_000)  # nothing is written meanwhile: it lacks nothing
        leading = group.replicas[master].store.leading
        assert leading is not None
        assert leading.slaves()[slave].behind_seconds == 0.0
        await append(group.store, "t", "a")
        clock.advance(5_000)
        await append(group.store, "t", "b")
        clock.advance(2_500)
        told = leading.slaves()[slave]
        assert (told.is_following, told.is_in_sync, told.behind_seconds) == (False, True, 7.5)
        found, name = await samples(group), "group"
        assert found["entrepot_replica_role", name, str(slave), "away"] == 1
        assert found["entrepot_replica_role", name, str(slave), "slave"] == 0
        assert found["entrepot_replica_role", name, str(master), "master"] == 1
        assert found["entrepot_replica_behind_seconds", name, str(slave)] == 7.5
        assert found["entrepot_replica_behind_bytes", name, str(slave)] == leading.engine.end - had
        assert found["entrepot_broker_epoch", name] == 1
        assert found["entrepot_broker_available", name] == 1

        group.replicas[slave].machine.lost()
        assert (await view(group, slave)).unready(1.0) == "it has not joined its master yet"
        group.replicas[slave]._follow_again()
        await group.even()
        assert (await view(group, slave)).unready(0.0) == ""
        assert (await samples(group))["entrepot_replica_behind_seconds", name, str(slave)] == 0


async def test_operators_see_one_that_is_away_as_its_master_does(tmp_path: Path) -> None:
    clock = ManualClock()
    async with ReplicatedGroup(tmp_path, QUORUM, clock) as group:
        slave = next(replica for replica in group.replicas if replica != group.master)
        await group.stop(slave)
        await group.store.topology.put_topic(Topic("t", queues=1))
        clock.advance(3_000)
        assert group.store.operations is not None
        [broker] = await group.store.operations.brokers()
        [found] = [each for each in broker.replicas if each.replica == slave]
        assert (found.role, found.behind_seconds, found.problem) == ("away", 3.0, "it does not answer")
        assert found.behind
        assert found.unready(10.0) == "it does not answer"
        [told] = await group.store.operations.replication()
        assert [each.role for each in told.replicas if each.replica == slave] == ["away"]


async def test_a_group_without_a_master_is_not_ready(tmp_path: Path) -> None:
    """Both are alive: that they answer says it."""
    async with ReplicatedGroup(tmp_path, QUORUM) as group:
        master = group.master
        await group.stop(master)
        for replica in group.replicas:
            await until(lambda: not group.replicas[replica].machine.is_joined, "it has noticed")  # noqa: B023
            assert (await view(group, replica)).unready(60.0)
        await until(lambda: not group.store.cluster.ready, "the gateway has noticed")
        assert await samples(group) == {("entrepot_broker_available", "group"): 0}
        others = tuple(group.replicas)
        for replica in others:
            await group.replicas[replica].fence(9, "an election that does not end")
            assert (await view(group, replica)).role == "nobody"
            assert (await view(group, replica)).unready(60.0) == "it waits for a master to be elected"


async def test_a_master_waits_for_the_disks_of_its_rule(tmp_path: Path) -> None:
    async with ReplicatedGroup(tmp_path, QUORUM) as group:
        master = group.master
        for replica in tuple(group.replicas):
            await group.stop(replica)
        await group.start(master)
        await until(lambda: group.replicas[master].store.leading, "it goes on as master")
        found = await view(group, master)
        assert (found.role, found.unready(60.0)) == ("master", "it waits for the disks that its rule asks for")


async def test_the_first_record_behind_the_end_of_a_segment_is_found(tmp_path: Path) -> None:
    """Of any record, the age is that of the first behind it: through padding, and where retention has been."""
    clock = ManualClock()
    async with ReplicatedGroup(tmp_path, QUORUM, clock) as group:
        await group.store.topology.put_topic(Topic("t", queues=1))
        for _ in range(8):
            clock.advance(1_000)
            await append(group.store, "t", *(bytes(100_000) for _ in range(2)))
        leading = group.replicas[group.master].store.leading
        assert leading is not None
        log = leading.engine.commit_log
        assert log.written_offset > log.layout.segment_size_bytes
        headers = [header for _, _, header in log.scan(log.min_offset, until=log.written_offset)]
        times = [(header.commit_log_offset + header.length, header.store_time_ms) for header in headers]
        assert len(times) > 16
        for (end, _), (_, written_at) in pairwise(times):
            assert behind_seconds(log, end, clock.now_ms()) == (clock.now_ms() - written_at) / 1000
        assert behind_seconds(log, times[-1][0], clock.now_ms()) == 0.0


@cases(
    "found, reason",
    [
        (ReplicaView(1, "a:1", "master", True), ""),
        (ReplicaView(1, "a:1", "master", True, problem="it waits"), "it waits"),
        (ReplicaView(1, "a:1", "slave", True, behind=0, behind_seconds=0.0), ""),
        (ReplicaView(1, "a:1", "slave", True, behind=9, behind_seconds=1.0), ""),
        (ReplicaView(1, "a:1", "slave", True, behind=9, behind_seconds=1.1), "it is 1.1 s and 9 bytes behind"),
        (ReplicaView(1, "a:1", "slave", False, behind=0, behind_seconds=0.0), "it is not in sync"),
        (ReplicaView(1, "a:1", "slave", True), "its master does not tell how far behind it is"),
    ],
)
def test_readiness_by_role(found: ReplicaView, reason: str) -> None:
    assert found.unready(1.0) == reason
