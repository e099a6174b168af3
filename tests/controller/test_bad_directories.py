"""Controllers with a directory that is not theirs: of another group, of earlier, emptied, or copied.

Such a one says so in clear words, and its votes and acknowledgements count nowhere; the others go on.
"""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from entrepot.broker.controller.directory import ControllerDirectory
from entrepot.broker.controller.raft_codec import encode_messages
from entrepot.broker.raft.effects import Role
from entrepot.broker.raft.messages import Vote, VoteAnswer
from entrepot.domain.errors import StoreFailedError
from entrepot.protocols.wire import operations as wire
from tests.controller.group_of_controllers import (
    LEASE,
    agrees,
    controllers,
    copied,
    known,
    member_of,
    put_back,
    says,
    view,
)
from tests.support.brokers.controllers import Controllers
from tests.support.waiting import until


async def is_alone_without(group: Controllers, bad: int) -> None:
    """The others agree with each other, and with nobody where one of them is left beside the bad one."""
    leader = await agrees(group, bad)
    [other] = group.running.keys() - {leader, bad}
    await group.stop(leader)
    await until(lambda: member_of(group.running[other]).machine.state.role is Role.PRE_CANDIDATE, "it asks for votes")
    rounds = member_of(group.running[other]).machine.state.time
    await until(lambda: member_of(group.running[other]).machine.state.time > rounds + 1000, "it has asked some times")
    assert group.leader == 0, "the bad one's vote would make a majority"
    await group.start(leader)
    await agrees(group, bad)


async def test_one_of_another_group_is_not_listened_to(tmp_path: Path) -> None:
    async with controllers(tmp_path / "a") as group, controllers(tmp_path / "b") as others:
        await others.stop(3)
        await group.stop(3)
        put_back(group, 3, others.data_dir(3))
        await group.start(3)
        leader = await agrees(group, 3)
        await says(group, leader, "controller 3 is of another group of controllers")
        await says(group, 3, f"controller {leader} is of another group of controllers")
        await is_alone_without(group, 3)


@pytest.mark.failure(
    "A controller starts with an old copy of its directory",
    group="Controllers and name servers",
    does="The others do not listen to it, and go on. Add a controller with a new id.",
    lost="nothing",
    told="`cluster show`: is an old copy; remove it",
)
@pytest.mark.parametrize("runs", [1, 2])
async def test_one_with_an_earlier_copy_of_its_directory_is_not_listened_to(tmp_path: Path, runs: int) -> None:
    """It may have forgotten votes, and entries that count with it.  Its id is of no use any more: another one comes."""
    async with controllers(tmp_path) as group:
        copy = copied(group, 3, "earlier")
        for _ in range(runs):
            await group.stop(3)
            await group.start(3)
            await known(group, 3)
        await group.stop(3)
        put_back(group, 3, copy)
        await group.start(3)
        words = "is a copy" if runs == 1 else "is an old copy"
        await says(group, await agrees(group, 3), f"{words}; remove it, and add a controller with a new id")
        await says(group, 3, f"{words}; remove it, and add a controller with a new id")
        await is_alone_without(group, 3)


async def test_an_earlier_copy_is_found_by_those_that_have_started_since(tmp_path: Path) -> None:
    """The register has its last start."""
    async with controllers(tmp_path) as group:
        copy = copied(group, 3, "earlier")
        for _ in range(2):
            await group.stop(3)
            await group.start(3)
            await known(group, 3)
        await group.stop_all()
        put_back(group, 3, copy)
        await group.start_all()
        await says(group, await agrees(group, 3), "its directory is an old copy")
        await says(group, 3, "does not listen: controller 3 comes with run 2, run 3 was heard")
        await is_alone_without(group, 3)


@pytest.mark.failure(
    "The directory of one controller is lost",
    group="Controllers and name servers",
    does="It waits and does not vote; the others go on. Replace it by one with a new id.",
    lost="nothing",
    told="`cluster show`: this one is empty, and may have forgotten votes; remove it",
)
async def test_one_with_an_empty_directory_waits_and_is_replaced(tmp_path: Path) -> None:
    async with controllers(tmp_path) as group:
        await group.stop(3)
        group.wipe(3)
        await group.start(3)
        await says(group, 3, "this one is empty, and may have forgotten votes; remove it")
        await agrees(group, 3)
        assert (await view(group, 3)).cluster == "", "it belongs to no group"
        await replaced(group, 3, 4)
        await group.stop(next(each for each in (1, 2) if each != group.leader))
        await agrees(group)  # the new one counts


async def replaced(group: Controllers, old: int, new: int) -> None:
    """Have a new controller in place of one."""
    await group.stop(old)
    group.reserve(new)
    await group.start(new)
    leader = group.running[await agrees(group)]
    await leader._change_controllers(old, new, group.addresses[new])
    everybody = {1, 2, 3, new} - {old}
    await until(lambda: {*member_of(leader).configuration.voters} == everybody, "the new one has a vote")
    await known(group, new)


async def test_one_that_came_later_is_not_listened_to_with_an_empty_directory(tmp_path: Path) -> None:
    """It was no founder, so it takes itself for a new one: the others know better."""
    async with controllers(tmp_path) as group:
        await replaced(group, 3, 4)
        await group.stop(4)
        group.wipe(4)
        await group.start(4)
        await says(group, await agrees(group, 4), "controller 4 comes with another directory than it had")
        await says(group, 4, "does not listen: controller 4 comes with another directory than it had")
        await is_alone_without(group, 4)


@asynccontextmanager
async def twin_of_3(group: Controllers, directory: Path, copy: Path) -> AsyncIterator[Controllers]:
    """A second controller 3 at another address, with a copy of a directory."""
    twin = Controllers(directory, 3, LEASE)
    twin.addresses = {**group.addresses, 3: twin.addresses[3]}
    shutil.copytree(copy, twin.data_dir(3))
    await twin.start(3)
    try:
        yield twin
    finally:
        await twin.stop_all()


@pytest.mark.failure_also("A controller starts with an old copy of its directory")
async def test_two_with_one_id_are_noticed(tmp_path: Path) -> None:
    """The second one has a copy of the directory of the first: the later start counts, and the other one is told."""
    async with controllers(tmp_path) as group, twin_of_3(group, tmp_path / "twin", group.data_dir(3)) as twin:
        await says(group, 3, "does not listen: controller 3 comes with run 1, run 2 was heard: its directory is an old")
        await agrees(group, 3)
        assert member_of(twin.running[3]).machine.state.role is not Role.LEADER


async def test_two_with_copies_of_one_directory_are_noticed(tmp_path: Path) -> None:
    """Both have the same number of starts: that which was heard first goes on."""
    async with controllers(tmp_path) as group:
        copy = copied(group, 3, "copy")
        await group.stop(3)
        await group.start(3)
        await known(group, 3)
        async with twin_of_3(group, tmp_path / "twin", copy) as twin:
            await says(twin, 3, "does not listen: controller 3 comes with another run 2 than was heard")
            await agrees(group)
            assert member_of(twin.running[3]).machine.state.role is not Role.LEADER
            assert (await view(group, 3)).problem == ""


async def test_answers_to_another_process_with_the_same_id_are_not_taken(tmp_path: Path) -> None:
    """Nobody is elected by votes that another one has asked for."""
    async with controllers(tmp_path) as group:
        taken: list[object] = []
        server, other = group.running[3], group.running[1]
        member_of(server).received = lambda source, messages: taken.extend(messages)  # type: ignore[method-assign]
        sender = other._peers.sender
        assert sender is not None
        link = other._peers.links[3]
        vote, question = VoteAnswer(9, True), Vote(9, 1, 1)
        for target in ("another", "", server._directory.identity.start.token):
            taken.clear()
            await link.call(wire.RAFT, encode_messages(sender, target, [vote, question]), 5)
            assert question in taken
            assert (vote in taken) is (target != "another")


async def test_two_processes_have_not_one_directory(tmp_path: Path) -> None:
    async with controllers(tmp_path, 1) as group:
        with pytest.raises(StoreFailedError, match="is in use by process"):
            ControllerDirectory(group.data_dir(1), 1)


async def test_a_directory_is_of_one_controller_for_ever(tmp_path: Path) -> None:
    async with controllers(tmp_path) as group:
        await group.stop(3)
        await group.stop(2)
        put_back(group, 3, group.data_dir(2))
        with pytest.raises(StoreFailedError, match="is the directory of controller 2, not 3"):
            ControllerDirectory(group.data_dir(3), 3)
        (group.data_dir(3) / "controller.json").unlink()
        with pytest.raises(StoreFailedError, match=r"has a controller's log and no controller\.json"):
            ControllerDirectory(group.data_dir(3), 3)
        (group.data_dir(3) / "controller.json").write_text("{")
        with pytest.raises(StoreFailedError, match=r"controller\.json cannot be read"):
            ControllerDirectory(group.data_dir(3), 3)
        await group.start(2)
        await agrees(group, 3)
