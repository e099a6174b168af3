"""Users and policies as a gateway knows them: no change is passed over, whoever keeps the key-values."""

from __future__ import annotations

import pytest

from domain.key_value import ABSENT, KeyValueChange, KeyValueEvent
from domain.shard import first_place
from gateway.security.directory import Directory
from gateway.security.records import USER_PREFIX, UserRecord, encode
from store_client.memory import MemoryStore
from tests.support.clock import ManualClock

KEY = f"{USER_PREFIX}eve"


def eve(credential: str) -> bytes:
    return encode(UserRecord("eve", is_super=False, is_enabled=True, credential=credential))


@pytest.fixture
def directory() -> Directory:
    return Directory(MemoryStore(ManualClock()), lambda changes: None)


def credential(directory: Directory) -> str | None:
    user = directory._users.get("eve")
    return None if user is None else user.credential


def test_a_deletion_that_was_found_by_looking(directory: Directory) -> None:
    """What the watch missed while it was away has no version when it is told."""
    directory._changed([KeyValueEvent(KEY, eve("one"), 7)])
    directory._changed([KeyValueEvent(KEY, None, ABSENT)])
    assert credential(directory) is None
    directory._changed([KeyValueEvent(KEY, eve("two"), 9)])
    assert credential(directory) == "two"


def test_changes_after_the_key_values_came_back_from_another_keeper(directory: Directory) -> None:
    for version, value in ((7, "one"), (first_place(1) + 70, "two"), (8, "three"), (7, "late")):
        directory._changed([KeyValueEvent(KEY, eve(value), version)])
    assert credential(directory) == "three"
    directory._changed([KeyValueEvent(KEY, None, first_place(1) + 71)])
    assert credential(directory) is None


async def test_what_was_written_here_is_known_though_a_later_keeper_counts_lower() -> None:
    store = MemoryStore(ManualClock())
    directory = Directory(store, lambda changes: None)
    directory._changed([KeyValueEvent(KEY, eve("before"), first_place(1) + 70)])
    version = await store.write([KeyValueChange(KEY, eve("after"))])
    await directory.settled(KEY, version)
    assert credential(directory) == "after"
