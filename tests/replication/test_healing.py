"""Corrupted records of a replica are fetched from another one, wherever they are met."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest

from entrepot.broker.replication.files import runs
from entrepot.broker.replication.healing import is_whole
from entrepot.broker.store import recovery
from entrepot.domain.errors import CorruptedError
from entrepot.domain.message import StoredMessage
from entrepot.domain.replication.confirmation_rule import Rule, RuleKind
from entrepot.domain.topic import Topic
from tests.support.brokers.replicated_group import LAYOUT, ReplicatedGroup
from tests.support.stores.steps import append, bodies, eventually, pop
from tests.support.waiting import until

TWO = Rule(RuleKind.IN_SYNC, 2)
QUORUM = Rule(RuleKind.QUORUM, 3, 2)
MANY = [f"message {number}" for number in range(20)]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("entrepot.broker.replication.healing.HOPELESS_SECONDS", 0.1)


async def filled(group: ReplicatedGroup) -> list[int]:
    """Messages on every replica; the places of their records."""
    await group.store.topology.put_topic(Topic("t", queues=1))
    await append(group.store, "t", *MANY)
    await group.even()
    return [message.commit_log_offset for message in await group.store.messages.read("t", 0, 0, len(MANY))]


def harm(group: ReplicatedGroup, replica: int, place: int, at: int = 50) -> None:
    """Change a byte of a record on the disk of a replica."""
    segment = place - place % LAYOUT.segment_size_bytes
    with (group.data_dir(replica) / "commitlog" / f"{segment:020d}").open("r+b") as file:
        file.seek(place - segment + at)
        [byte] = file.read(1)
        file.seek(-1, 1)
        file.write(bytes([byte ^ 0xFF]))


def is_whole_on(group: ReplicatedGroup, replica: int, place: int) -> bool:
    commit_log = group.replicas[replica].store.commit_log
    assert commit_log is not None
    return is_whole(commit_log, place)


@pytest.mark.failure(
    "A record is corrupted on one replica",
    group="Disks",
    does="It is fetched from another replica before it is read or sent. Nobody sees the corruption.",
    lost="nothing",
    told="`cluster show`, column `log`",
)
@pytest.mark.parametrize("at", [50, 2, 14], ids=["checksum", "magic", "length"])
async def test_what_is_read_is_healed_first(tmp_path: Path, at: int) -> None:
    async with ReplicatedGroup(tmp_path, QUORUM) as group:
        places = await filled(group)
        for place in places[5:8]:
            harm(group, group.master, place, at)
        assert not is_whole_on(group, group.master, places[6])
        assert bodies(await group.store.messages.read("t", 0, 0, len(MANY))) == MANY[:5], "what precedes it"
        assert bodies(await group.store.messages.read("t", 0, 5, len(MANY))) == MANY[5:]
        assert all(is_whole_on(group, group.master, place) for place in places)
        harm(group, group.master, places[3], at)
        pulled = await group.store.messages.pull("t", 0, 3, 2)
        assert bodies(pulled.messages) == MANY[3:5]
        healing = group.replicas[group.master]._log.healing
        await until(lambda: healing.healed == 4, "all are durable, too")


@pytest.mark.failure_also("A record is corrupted on one replica")
async def test_a_tail_and_a_pop_wait_for_what_is_healed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("entrepot.broker.consume.group_windows.HEALING_RETRY_MS", 0)
    async with ReplicatedGroup(tmp_path, QUORUM) as group:
        places = await filled(group)
        for place in places[5:8]:
            harm(group, group.master, place)
        found: list[StoredMessage] = []
        group.store.messages.tail("t", 0, 0, found.extend)
        await until(lambda: len(found) == len(MANY), "all of them")
        assert bodies(found) == MANY
        harm(group, group.master, places[0])
        popped = bodies(await eventually(lambda: pop(group.store, "t", count=1)))
        while len(popped) < len(MANY):
            popped += bodies(await pop(group.store, "t"))
            group.clock.advance(1)
        assert sorted(popped) == sorted(MANY)


async def test_what_is_corrupted_everywhere_is_an_error(tmp_path: Path) -> None:
    async with ReplicatedGroup(tmp_path, TWO) as group:
        places = await filled(group)
        for replica in group.replicas:
            harm(group, replica, places[4])
        with pytest.raises(CorruptedError):
            await group.store.messages.read("t", 0, 4, 1)
        master = group.replicas[group.master]
        assert not await master._log.healing.heal(places[4])
        assert master.status().log.corrupted == 1
        found: list[StoredMessage] = []
        group.store.messages.tail("t", 0, 0, found.extend)
        await until(lambda: len(found) == len(MANY) - 1, "a tail passes it over")


async def test_a_slave_heals_what_it_sends_and_what_it_applies(tmp_path: Path) -> None:
    """A slave that is behind is sent what is corrupted at the master only once that is whole."""
    async with ReplicatedGroup(tmp_path, QUORUM) as group:
        away = next(replica for replica in group.replicas if replica != group.master)
        await group.stop(away)
        await group.store.topology.put_topic(Topic("t", queues=1))
        await append(group.store, "t", *MANY)
        stored = await group.store.messages.read("t", 0, 0, len(MANY))
        harm(group, group.master, stored[7].commit_log_offset)
        await group.start(away)
        await group.even()
        assert is_whole_on(group, group.master, stored[7].commit_log_offset)
        assert is_whole_on(group, away, stored[7].commit_log_offset)


@pytest.mark.failure_also("A record is corrupted on one replica")
async def test_sealed_segments_are_compared(tmp_path: Path) -> None:
    async with ReplicatedGroup(tmp_path, QUORUM) as group:
        await group.store.topology.put_topic(Topic("t", queues=1))
        for _ in range(24):
            await append(group.store, "t", bytes(100_000))
        await group.even()
        places = [message.commit_log_offset for message in await group.store.messages.read("t", 0, 0, 24)]
        [one, other] = [replica for replica in group.replicas if replica != group.master]
        harm(group, one, places[2])
        harm(group, group.master, places[4])
        comparing = group.replicas[one]._log.comparing
        comparing._rate = 1 << 40
        await comparing.compare(0)
        assert is_whole_on(group, one, places[2])
        assert is_whole_on(group, group.master, places[4])
        assert comparing.forked == set()
        assert comparing._next_segment() == 0
        source = group.replicas[other]._log.source
        assert await source.checksums(0, 1 << 20) == await group.replicas[one]._log.source.checksums(0, 1 << 20)


@pytest.mark.failure(
    "A replica's disk loses synced bytes at the end of its log",
    group="Disks",
    does="The replica starts anew from there. It counts nowhere until it has everything again.",
    lost="nothing",
    told="`cluster show`, column `log`: parts in `diverged/`",
)
@pytest.mark.parametrize("rule", [TWO, QUORUM], ids=["2-2", "2-3"])
async def test_one_whose_log_is_corrupted_at_its_end_begins_anew(tmp_path: Path, rule: Rule) -> None:
    """It had acknowledged those bytes, so it counts nowhere until it has them again."""
    async with ReplicatedGroup(tmp_path, rule) as group:
        await group.store.topology.put_topic(Topic("t", queues=1))
        away = next(replica for replica in group.replicas if replica != group.master)
        await append(group.store, "t", *MANY)
        await append(group.store, "t", *MANY)
        await group.even()
        places = [message.commit_log_offset for message in await group.store.messages.read("t", 0, 0, 2 * len(MANY))]
        before = group.replicas[away].machine.state.member
        await group.crash(away)
        for path in group.data_dir(away).glob("state.db*"):
            path.unlink()  # nothing is saved of what it derived: all of its log is read
        harm(group, away, places[5])
        await group.start(away)
        assert group.replicas[away].machine.state.member != before
        await group.even()
        assert [part.start for part in group.replicas[away].store.files.diverged_parts()] == [places[5]]
        assert group.log_of(away).rstrip(b"\0") == group.log_of(group.master).rstrip(b"\0")
        member, master = group.replicas[away].machine.state.member, group.replicas[group.master].machine
        await until(lambda: member in master.state.appointment.members, "it counts again")
        await append(group.store, "t", "after")


@pytest.mark.failure_also("A replica's disk loses synced bytes at the end of its log")
async def test_one_whose_log_was_cut_from_outside_begins_anew(tmp_path: Path) -> None:
    async with ReplicatedGroup(tmp_path, QUORUM) as group:
        places = await filled(group)
        away = next(replica for replica in group.replicas if replica != group.master)
        before = group.replicas[away].machine.state.member
        await group.stop(away)
        [segment] = (group.data_dir(away) / "commitlog").iterdir()
        with segment.open("r+b") as file:
            file.truncate(places[9])
        await group.start(away)
        assert group.replicas[away].machine.state.member != before
        await group.even()
        assert group.log_of(away).rstrip(b"\0") == group.log_of(group.master).rstrip(b"\0")


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Records lie across the blocks that are compared."""
    for module in ("comparing", "log_source"):
        monkeypatch.setattr(f"entrepot.broker.replication.{module}.BLOCK_BYTES", 64 << 10)


async def large(group: ReplicatedGroup) -> list[int]:
    """Messages that fill segments; the places of their records."""
    await group.store.topology.put_topic(Topic("t", queues=1))
    for _ in range(24):
        await append(group.store, "t", bytes(100_000))
    await group.even()
    return [message.commit_log_offset for message in await group.store.messages.read("t", 0, 0, 24)]


@pytest.mark.usefixtures("small_blocks")
async def test_whole_records_count_as_corrupted_nowhere(tmp_path: Path) -> None:
    async with ReplicatedGroup(tmp_path, TWO) as group:
        places, one = await large(group), 3 - group.master
        harm(group, one, places[2])
        comparing = group.replicas[one]._log.comparing
        comparing._rate = 1 << 40
        await comparing.compare(0)
        assert is_whole_on(group, one, places[2])
        assert comparing.forked == set()
        assert [each.status().log.corrupted for each in group.replicas.values()] == [0, 0]


@pytest.mark.usefixtures("small_blocks")
async def test_one_that_is_corrupted_everywhere_keeps_no_other_from_being_healed(tmp_path: Path) -> None:
    async with ReplicatedGroup(tmp_path, TWO) as group:
        places, one = await large(group), 3 - group.master
        harm(group, one, places[1], 50)
        harm(group, group.master, places[1], 60)
        harm(group, one, places[6], 50_000)
        comparing = group.replicas[one]._log.comparing
        comparing._rate = 1 << 40
        await comparing.compare(0)
        assert is_whole_on(group, one, places[6])
        assert comparing.forked == set(), "a record of it is corrupted"


async def test_a_record_with_a_corrupted_length_is_not_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with ReplicatedGroup(tmp_path, TWO) as group:
        places = await large(group)
        monkeypatch.setattr(runs, "RUN_BYTES", 200_000)
        harm(group, group.master, places[0], 12)
        commit_log = group.replicas[group.master].store.commit_log
        assert commit_log is not None
        with pytest.raises(CorruptedError):
            runs.read_run(commit_log, places[0], 1 << 20)


async def test_one_whose_process_dies_while_it_finds_that_out_begins_anew_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with ReplicatedGroup(tmp_path, QUORUM) as group:
        places = await filled(group)
        away = next(replica for replica in group.replicas if replica != group.master)
        before = group.replicas[away].machine.state.member
        await group.stop(away)
        [segment] = (group.data_dir(away) / "commitlog").iterdir()
        with segment.open("r+b") as file:
            file.truncate(places[9])

        def killed(*_: object) -> None:
            raise OSError("killed while all is derived anew")

        with monkeypatch.context() as during:
            during.setattr(recovery, "_dispatch", killed)
            with pytest.raises(OSError, match="killed"):
                await group.start(away)
        await group.start(away)
        assert group.replicas[away].machine.state.member != before


class Failing:
    """A disk that cannot read some places until they are written."""

    def __init__(self, disk: Any, places: set[int]) -> None:
        self._disk, self.places = disk, places

    def __getattr__(self, name: str) -> Any:
        return getattr(self._disk, name)

    def read(self, descriptor: int, length: int, offset: int) -> bytes:
        if any(offset <= place < offset + length for place in self.places):
            raise OSError(errno.EIO, "unreadable")
        data: bytes = self._disk.read(descriptor, length, offset)
        return data

    def write(self, descriptor: int, data: bytes, offset: int) -> None:
        self.places.discard(offset)
        self._disk.write(descriptor, data, offset)


async def test_a_place_that_cannot_be_read_harms_no_neighbours(tmp_path: Path) -> None:
    async with ReplicatedGroup(tmp_path, QUORUM) as group:
        places = await filled(group)
        commit_log = group.replicas[group.master].store.commit_log
        assert commit_log is not None
        disk = Failing(commit_log._disk, {places[7]})
        commit_log._disk = disk
        found: list[StoredMessage] = []
        group.store.messages.tail("t", 0, 0, found.extend)
        await until(lambda: len(found) == len(MANY), "all of them")
        assert bodies(found) == MANY
        assert disk.places == set(), "it was written anew"
        disk.places = {places[11]}
        with pytest.raises(CorruptedError) as unreadable:
            list(commit_log.scan(places[5], until=places[-1]))
        assert unreadable.value.commit_log_offset == places[11]


HARMS = ["cut in the middle", "without one in the middle", "cut at the end", "without its end"]


@pytest.mark.parametrize("harmed", HARMS)
async def test_a_log_that_lost_a_part_heals_with_one_start(tmp_path: Path, harmed: str) -> None:
    """Wherever the part was: it copies what is behind the first missing byte, and counts again."""
    async with ReplicatedGroup(tmp_path, TWO) as group:
        await group.store.topology.put_topic(Topic("t", queues=1))
        for _ in range(40):
            await append(group.store, "t", "x" * 90_000)
        await group.even()
        away = next(replica for replica in group.replicas if replica != group.master)
        before = group.replicas[away].machine.state.member
        await group.stop(away)
        segments = sorted((group.data_dir(away) / "commitlog").iterdir())
        assert len(segments) > 3
        segment = segments[1] if "middle" in harmed else segments[-1]
        if harmed.startswith("cut"):
            with segment.open("r+b") as file:
                file.truncate(100_001)
        else:
            segment.unlink()
        await group.start(away)
        assert group.replicas[away].machine.state.member != before
        await group.even()
        assert group.log_of(away).rstrip(b"\0") == group.log_of(group.master).rstrip(b"\0")
        member, master = group.replicas[away].machine.state.member, group.replicas[group.master].machine
        await until(lambda: member in master.state.appointment.members, "it counts again")
