"""Controllers whose disks fail: they stop with clear words, and nothing counts that is not durable."""

from __future__ import annotations

import asyncio
import errno
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from entrepot.broker.controller.commands import NameController
from entrepot.broker.controller.directory import ControllerDirectory
from entrepot.broker.raft.effects import Propose, Write
from entrepot.broker.raft.files import OsDirectory, RaftFiles
from entrepot.broker.raft.messages import Message
from entrepot.domain.errors import Code, EntrepotError, StoreFailedError
from tests.controller.group_of_controllers import agrees, controllers, known, member_of, view
from tests.support.brokers.controllers import Controllers
from tests.support.stores.steps import refusal_of
from tests.support.waiting import PATIENCE_SECONDS, until


class FailingDisk:
    """Of one controller.  `fails`: what its writes end with; None where they go well."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
        self.fails: OSError | None = None
        write, put, name = OsDirectory.write, OsDirectory.put, f"controller-{number}"

        def failing_write(directory: OsDirectory, file: str, data: bytes, offset: int) -> None:
            self._fail(name in str(directory.path))
            write(directory, file, data, offset)

        def failing_put(directory: OsDirectory, file: str, data: bytes) -> None:
            self._fail(name in str(directory.path))
            put(directory, file, data)

        monkeypatch.setattr(OsDirectory, "write", failing_write)
        monkeypatch.setattr(OsDirectory, "put", failing_put)

    def _fail(self, is_here: bool) -> None:
        if is_here and self.fails is not None:
            raise self.fails


def full() -> OSError:
    return OSError(errno.ENOSPC, "No space left on device")


async def writes(group: Controllers, address: str) -> None:
    """Have something committed."""
    leader = member_of(group.running[await agrees(group)])
    leader.propose(0, NameController(9, address))
    await until(lambda: leader.register.addresses.get(9) == address, "it is committed")


async def ended(group: Controllers, number: int) -> EntrepotError:
    return await asyncio.wait_for(asyncio.shield(group.running[number].stopped), PATIENCE_SECONDS)


@pytest.mark.failure(
    "The disk of a controller is full",
    group="Disks",
    does=("That controller stops, even if there is room again at once. The others go on; it catches up after a start."),
    lost="nothing",
    told="its log and `cluster show`: No space left on device",
)
@pytest.mark.parametrize("is_leader", [False, True])
async def test_a_full_disk_stops_a_controller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_leader: bool) -> None:
    """Even when there is room again at once: what was not written is not told to be."""
    async with controllers(tmp_path) as group:
        leader = await agrees(group)
        bad = leader if is_leader else next(each for each in group.running if each != leader)
        disk, server = FailingDisk(monkeypatch, bad), group.running[bad]
        sent: list[Message] = []
        member = member_of(server)
        failed = member._on_failure
        member._on_failure = lambda error: (failed(error), sent.clear())[0]  # type: ignore[func-returns-value]
        send = member._send
        member._send = lambda target, message: (sent.append(message), send(target, message))[1]  # type: ignore[func-returns-value]
        disk.fails = full()
        member_of(group.running[leader]).propose(0, NameController(9, "a:1"))
        assert (await ended(group, bad)).message == "the controller's disk: [Errno 28] No space left on device"
        disk.fails = None
        told = await view(group, bad)
        assert "No space left on device" in told.problem
        assert (told.role, told.leader) == ("follower", 0), "its process may go on, and it leads nobody"
        assert await refusal_of(member.read()) is Code.UNAVAILABLE
        await until(lambda: any(each.is_leader for each in map(member_of, group.running.values())), "the others go on")
        await writes(group, "a:2")
        assert sent == [], "it has said nothing since"
        await group.stop(bad)
        await group.start(bad)
        await known(group, bad)
        await until(lambda: member_of(group.running[bad]).register.addresses.get(9) == "a:2", "it has caught up")


@pytest.mark.failure_also("The disk of a controller is full")
async def test_a_vote_that_is_not_durable_is_not_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with controllers(tmp_path) as group:
        leader = await agrees(group)
        bad, other = sorted(group.running.keys() - {leader})
        term = member_of(group.running[bad]).machine.state.term
        disk = FailingDisk(monkeypatch, bad)
        disk.fails = OSError(errno.EIO, "Input/output error")
        await group.stop(leader)
        assert "Input/output error" in (await ended(group, bad)).message
        disk.fails = None
        server = group.running[other]
        tries = member_of(server).machine.state.time + 1500
        await until(lambda: member_of(server).machine.state.time > tries, "the other one has asked for votes")
        assert group.leader == 0
        await group.stop(bad)
        stored = RaftFiles(OsDirectory(group.data_dir(bad) / "raft"), bad).load()
        assert stored.state.term == term, "the later term was told to nobody"
        await group.start(bad)
        await agrees(group)


async def test_a_disk_that_hangs_stops_only_its_controller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with controllers(tmp_path) as group:
        leader = await agrees(group)
        bad = next(each for each in group.running if each != leader)
        hangs, perform = threading.Event(), RaftFiles.perform

        def hanging(files: RaftFiles, writes: Sequence[Write]) -> None:
            if files is member_of(group.running[bad])._files:
                hangs.wait(PATIENCE_SECONDS)
            perform(files, writes)

        monkeypatch.setattr(RaftFiles, "perform", hanging)
        try:
            await writes(group, "a:1")
            assert 9 not in member_of(group.running[bad]).register.addresses, "it applies nothing that it has not"
        finally:
            hangs.set()
        await until(lambda: member_of(group.running[bad]).register.addresses.get(9) == "a:1", "it has caught up")


async def test_a_log_of_a_later_version_stops_a_controller(tmp_path: Path) -> None:
    """It cannot know what it does not understand, so it decides nothing more."""
    async with controllers(tmp_path, 1) as group:
        member = member_of(group.running[1])
        member.step(Propose(7, b"\x81\xa4type\xa6Future"))
        error = await ended(group, 1)
        assert isinstance(error, StoreFailedError)
        assert "the controllers' log has what this version cannot read" in error.message
        assert not member.is_leader
        await group.stop(1)
        server = await group.start(1)
        assert "cannot read" in (await asyncio.wait_for(server.stopped, PATIENCE_SECONDS)).message


@pytest.mark.parametrize("name", ["state", "log-00000000000000000000"])
async def test_damaged_files_stop_a_controller(tmp_path: Path, name: str) -> None:
    async with controllers(tmp_path) as group:
        await group.stop(3)
        path = group.data_dir(3) / "raft" / name
        path.write_bytes(bytes([path.read_bytes()[0] ^ 255]) + path.read_bytes()[1:])
        server = await group.start(3)
        message = (await asyncio.wait_for(server.stopped, PATIENCE_SECONDS)).message
        assert "the files of member 3 are damaged" in message
        await agrees(group, 3)
        path.unlink()
        await group.stop(3)
        server = await group.start(3)
        assert (await asyncio.wait_for(server.stopped, PATIENCE_SECONDS)).message


async def test_a_disk_that_fails_beside_the_log_stops_a_controller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has no vote from then on, though its process may go on, and the others do."""
    async with controllers(tmp_path) as group:
        bad = await agrees(group)

        def failing(directory: ControllerDirectory, is_refused: bool) -> None:
            if directory is group.running[bad]._directory:
                raise full()

        monkeypatch.setattr(ControllerDirectory, "note_refused", failing)
        assert "No space left on device" in (await ended(group, bad)).message
        leader = await agrees(group, bad)
        [other] = group.running.keys() - {leader, bad}
        await group.stop(other)
        assert await refusal_of(group.running[leader]._leading.read()) is Code.UNAVAILABLE
        await until(lambda: group.leader == 0, "one of three alone")
        assert "No space left on device" in (await view(group, bad)).problem


async def test_a_disk_that_fails_while_a_group_is_founded_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(directory: ControllerDirectory, founders: Sequence[str]) -> None:
        raise full()

    monkeypatch.setattr(ControllerDirectory, "found", failing)
    group = Controllers(tmp_path, 1, 0.5)
    try:
        await group.start(1)
        assert "No space left on device" in (await ended(group, 1)).message
        assert "No space left on device" in (await view(group, 1)).problem
    finally:
        await group.stop_all()
