"""Replicas whose `replica.json` is torn: none of them joins with promises that it may have forgotten."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path

import pytest

from entrepot.broker.replication.files.replica_files import FILE, ReplicaFiles
from entrepot.domain.errors import EntrepotError, StoreFailedError
from entrepot.domain.replication.confirmation_rule import Rule, RuleKind
from entrepot.domain.replication.mastership import Member, ReplicaState
from tests.controller.failing_over import another, filled, held, joined, reached, taken
from tests.support.brokers.replicated_group import ReplicatedGroup
from tests.support.cases import cases
from tests.support.seed import seeded
from tests.support.waiting import until
from tests.tiers.marks import soak_only

IN_SYNC = Rule(RuleKind.IN_SYNC, 3, min_in_sync=2)
QUORUM = Rule(RuleKind.QUORUM, 3, 2)
RULES = pytest.mark.parametrize("rule", [IN_SYNC, QUORUM], ids=["in-sync", "2-3"])
ROLES = pytest.mark.parametrize("of_master", [False, True], ids=["of a slave", "of the master"])
WORDS = r"replica\.json cannot be read: .*: put its directory aside, and start it with an empty one"

pytestmark = pytest.mark.usefixtures("quick")


@cases("kind", ["half", "empty", "zeros", "no text", "deep", "another shape"])
def test_it_is_told_in_words_what_to_do(tmp_path: Path, kind: str) -> None:
    files = ReplicaFiles(tmp_path)
    files.save(ReplicaState("g", 1, "abc", 3))
    whole = (tmp_path / FILE).read_bytes()
    torn = {
        "half": whole[: len(whole) // 2],
        "empty": b"",
        "zeros": bytes(len(whole)),
        "no text": whole.replace(b"abc", b"a\xff\xfe"),
        "deep": b'{"x": ' + b"[" * 100_000,
        "another shape": b'{"group": "g"}',
    }
    (tmp_path / FILE).write_bytes(torn[kind])
    with pytest.raises(StoreFailedError, match=WORDS):
        files.load(1, "g")


def test_no_beginning_of_it_and_no_random_bytes_are_taken_for_promises(tmp_path: Path) -> None:
    rng = seeded()
    files = ReplicaFiles(tmp_path)
    files.save(ReplicaState("g", 1, "abc", 3))
    whole = (tmp_path / FILE).read_bytes()
    torn = [whole[:length] for length in range(len(whole))] + [rng.randbytes(len(whole)) for _ in range(200)]
    for data in torn:
        (tmp_path / FILE).write_bytes(data)
        with pytest.raises(StoreFailedError, match=WORDS):
            files.load(1, "g")


@RULES
@ROLES
async def test_the_others_go_on_and_an_empty_one_takes_its_place(tmp_path: Path, rule: Rule, of_master: bool) -> None:
    async with ReplicatedGroup(tmp_path, rule, controllers=3) as group:
        await filled(group)
        torn = group.master if of_master else next(each for each in group.replicas if each != group.master)
        await group.crash(torn)
        path = group.data_dir(torn) / FILE
        path.write_bytes(path.read_bytes()[:-40])
        for _ in range(2):
            with pytest.raises(StoreFailedError, match=WORDS):
                await group.start(torn)
        if of_master:
            await another(group, torn)
        await taken(group, "c")
        group.data_dir(torn).rename(tmp_path / "aside")
        await group.start(torn)
        await joined(group)
        old = group.master
        await group.crash(old)
        await another(group, old)
        await taken(group, "d")
        await held(group, "a", "b", "c", "d")


@pytest.mark.parametrize(
    ("rule", "of_master"),
    [
        pytest.param(IN_SYNC, True, id="in-sync-of the master"),
        soak_only(QUORUM, True, name="2-3-of the master"),
        soak_only(IN_SYNC, False, name="in-sync-of a slave"),
        soak_only(QUORUM, False, name="2-3-of a slave"),
    ],
)
async def test_without_it_the_log_is_a_stranger_s(tmp_path: Path, rule: Rule, of_master: bool) -> None:
    """Someone has removed the file, and not the log: it counts once it was taken in, and never before."""
    async with ReplicatedGroup(tmp_path, rule, controllers=3) as group:
        await filled(group)
        odd = group.master if of_master else next(each for each in group.replicas if each != group.master)
        before = group.replicas[odd].machine.state.member
        await group.crash(odd)
        (group.data_dir(odd) / FILE).unlink()
        others = [each for each in group.replicas if each != odd]
        if of_master:
            await another(group, odd)
        await taken(group, "c")
        for each in others:
            await group.crash(each)
        await group.start(odd)
        member: Member = group.replicas[odd].machine.state.member
        assert member != before
        leases = asyncio.get_running_loop().time() + 3 * group.controllers.lease
        await until(lambda: asyncio.get_running_loop().time() > leases, "the controllers had time to elect it")
        assert group.master == 0
        for each in others:
            await group.start(each)
        await until(lambda: group.master, "somebody is master")
        assert group.master != odd
        await reached(group)
        await taken(group, "d")
        if of_master:  # its directory is that of a broker alone, whose start was later than these epochs
            words = "it waits for a master to be elected"
            await until(lambda: group.replicas[odd].status().problem == words, "it says so")
            with suppress(EntrepotError):  # where an election is under way, that is one
                await group.controllers.running[await group.controllers.led()]._elect("group", 0, [], False)
            await reached(group)
        await joined(group)
        await held(group, "a", "b", "c", "d")
