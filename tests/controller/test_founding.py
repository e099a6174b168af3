"""A controller with an empty directory: when it begins a group with others, joins one, or waits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from entrepot.broker.controller.directory import ControllerDirectory, cluster_of, founder
from entrepot.broker.controller.founding import Founding
from entrepot.domain.errors import StoreFailedError
from entrepot.domain.replication.control import ControllerView
from tests.controller.group_of_controllers import LEASE, agrees, says, view
from tests.support.brokers.controllers import Controllers

EVERYBODY = ((1, "a:1"), (2, "a:2"), (3, "a:3"))
LINKS: Mapping[int, Any] = {2: None, 3: None}


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[ControllerDirectory]:
    found = ControllerDirectory(tmp_path / "controller-1", 1)
    yield found
    found.close()


def empty(number: int, members: tuple[tuple[int, str], ...] = EVERYBODY) -> ControllerView:
    return ControllerView(number, f"i{number}", members=members)


def in_group(number: int, cluster: str, *founders: str) -> ControllerView:
    return ControllerView(number, f"i{number}", cluster, founders, members=EVERYBODY)


def test_all_begin_a_group_when_all_are_there_and_empty(directory: ControllerDirectory) -> None:
    founding = Founding(directory, LINKS)
    assert founding._decide({2: empty(2), 3: empty(3)}) == ""
    founders = [founder(directory.identity), "2:i2", "3:i3"]
    assert directory.identity.cluster == cluster_of(founders) == cluster_of(founders[::-1])
    assert directory.files().load().entries, "it has the first members in its log"


@pytest.mark.parametrize(
    ("views", "problem"),
    [
        ({}, "needs all of them: 2, 3 does not answer"),
        ({2: empty(2)}, "needs all of them: 3 does not answer"),
        ({2: empty(3), 3: empty(3)}, "controller 2 is configured where controller 3 is"),
        ({2: empty(1), 3: empty(3)}, "controller 2 is configured where controller 1 is"),
        ({2: empty(2), 3: ControllerView(3, "", members=EVERYBODY, problem="torn")}, "controller 3 cannot run: torn"),
        ({2: empty(2), 3: empty(3, EVERYBODY[:2])}, "controller 3 is set up with other controllers"),
        ({2: in_group(2, "x", "2:i2"), 3: in_group(3, "y", "3:i3")}, "the other controllers are of more than one"),
        ({2: in_group(2, "x", "1:another", "2:i2")}, "this one is empty, and may have forgotten votes"),
    ],
)
def test_it_waits_and_says_why(
    directory: ControllerDirectory, views: Mapping[int, ControllerView], problem: str
) -> None:
    assert problem in Founding(directory, LINKS)._decide(views)
    assert directory.identity.cluster == ""
    with pytest.raises(StoreFailedError):
        directory.files().load()


def test_a_founder_that_comes_late_begins_as_the_others_did(directory: ControllerDirectory) -> None:
    """A crash came between its answer and its own beginning."""
    founders = (founder(directory.identity), "2:i2", "3:i3")
    assert Founding(directory, LINKS)._decide({3: in_group(3, cluster_of(founders), *founders)}) == ""
    assert directory.identity.cluster == cluster_of(founders)
    assert directory.files().load().entries


def test_one_that_is_new_joins_and_waits_to_be_taken_in(directory: ControllerDirectory) -> None:
    assert Founding(directory, LINKS)._decide({2: in_group(2, "x", "2:i2", "3:i3")}) == ""
    assert directory.identity.cluster == "x"
    assert directory.files().load().entries == (), "it has no vote"


def test_a_beginning_that_a_crash_ended_is_made_again(directory: ControllerDirectory) -> None:
    """Of its log nobody was told."""
    directory.join("x", ["2:i2"])
    directory.identity.cluster = ""
    assert Founding(directory, LINKS)._decide({2: empty(2), 3: empty(3)}) == ""
    assert directory.files().load().entries


async def test_no_group_begins_without_one_of_them(tmp_path: Path) -> None:
    """Two of three would be a majority; but the third one may be of a group that there was."""
    group = Controllers(tmp_path, 3, LEASE)
    try:
        for number in (1, 2):
            await group.start(number)
        for number in (1, 2):
            await says(group, number, "a new group of controllers needs all of them: 3 does not answer")
            assert (await view(group, number)).cluster == ""
        await group.start(3)
        await agrees(group)
    finally:
        await group.stop_all()


async def test_one_that_lost_its_disk_before_anybody_began_is_waited_for(tmp_path: Path) -> None:
    group = Controllers(tmp_path, 3, LEASE)
    try:
        await group.start(1)
        await says(group, 1, "2, 3 does not answer")
        await group.stop(1)
        group.wipe(1)
        await group.start_all()
        await agrees(group)
    finally:
        await group.stop_all()
