"""What tests ask of controllers that run in this process."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from entrepot.broker.controller.process import ControllerServer
from entrepot.domain.errors import EntrepotError
from entrepot.domain.replication.control import ControllerView
from tests.support.brokers.controllers import Controllers
from tests.support.stores.steps import eventually
from tests.support.waiting import until

LEASE = 0.5


@asynccontextmanager
async def controllers(directory: Path, count: int = 3) -> AsyncIterator[Controllers]:
    """A group of them that has a leader, and in which each is known to all."""
    found = Controllers(directory, count, LEASE)
    try:
        await found.start_all()
        await found.led()
        for number in found.running:
            await known(found, number)
        yield found
    finally:
        await found.stop_all()


def member_of(server: ControllerServer):
    assert server._member is not None
    return server._member


async def known(group: Controllers, number: int) -> None:
    """Return when the start of a controller is committed, and applied by all that run."""
    run = group.running[number]._directory.identity.start.run

    def is_heard() -> bool:
        starts = [each._ready.register.start_of(number) for each in group.running.values() if each._member is not None]
        return all(start is not None and start.run == run for start in starts)

    await until(is_heard, f"the start of controller {number} is known")


async def view(group: Controllers, number: int) -> ControllerView:
    return await group.running[number]._view()


async def says(group: Controllers, number: int, words: str) -> None:
    """Return when a controller tells of a problem in these words."""
    found = [""]

    async def told() -> bool:
        found[0] = (await view(group, number)).problem
        return words in found[0]

    try:
        await eventually(told)
    except TimeoutError:
        raise AssertionError(f"controller {number} does not say {words!r}, but {found[0]!r}") from None


async def agrees(group: Controllers, *besides: int) -> int:
    """Return who leads, once it has had something committed; `besides`: nobody of these."""

    async def agreed() -> int:
        leader = await group.led()
        try:
            await group.running[leader]._leading.read()
        except EntrepotError:  # it has lost the others' votes meanwhile
            return 0
        return leader

    leader = await eventually(agreed)
    assert leader not in besides
    return leader


def copied(group: Controllers, number: int, name: str) -> Path:
    """A copy of a controller's directory, as it is now."""
    found = group.directory / name
    shutil.copytree(group.data_dir(number), found)
    return found


def put_back(group: Controllers, number: int, copy: Path) -> None:
    """Have an earlier copy of a directory in its place."""
    group.wipe(number)
    shutil.copytree(copy, group.data_dir(number))
