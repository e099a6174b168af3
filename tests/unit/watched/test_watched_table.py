"""Definitions in key-values: loaded, followed, written; never an older one in place of a newer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from entrepot.domain.broker_of_queue import first_place
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.key_value import ABSENT, KeyValueChange, KeyValueEvent, is_older
from entrepot.gateway.key_values.watched_table import WatchedTable
from tests.support.http.server import ServerClock
from tests.support.stores.model_store import MemoryStore
from tests.support.waiting import PATIENCE_SECONDS


def decode(value: bytes) -> str:
    if value == b"broken":
        raise ValueError("it is broken")
    return value.decode()


@pytest.fixture
async def store() -> AsyncIterator[MemoryStore]:
    made = MemoryStore(ServerClock())
    yield made
    await made.close()


def table(store: MemoryStore, prefix: str = "kind/") -> WatchedTable[str]:
    return WatchedTable(store.key_values, prefix, decode, str.encode)


async def test_what_is_there_and_what_comes_is_known(store: MemoryStore) -> None:
    await store.key_values.write(
        [KeyValueChange("kind/a", b"1"), KeyValueChange("kind/b", b"broken"), KeyValueChange("other", b"x")]
    )
    one = table(store)
    await one.start()
    assert dict(one.items()) == {"a": "1"} and len(one) == 1
    changes: list[tuple[str, str | None, str | None]] = []
    one.on_change.append(lambda *change: changes.append(change))
    version = await store.key_values.write([KeyValueChange("kind/a", b"2"), KeyValueChange("kind/c", b"3")])
    await one.catch_up(version)
    assert dict(one.items()) == {"a": "2", "c": "3"}
    await one.catch_up(await store.key_values.write([KeyValueChange("kind/a", None)]))
    assert one.get("a") is None and one.version("a") == ABSENT
    assert changes == [("a", "1", "2"), ("c", None, "3"), ("a", "2", None)]
    one.close()


async def test_its_own_writes_are_known_when_they_return(store: MemoryStore) -> None:
    one, two = table(store), table(store)
    await one.start()
    await two.start()
    version = await one.write([one.change("a", "1", ABSENT)])
    assert (one.get("a"), one.version("a")) == ("1", version)
    with pytest.raises(EntrepotError) as refused:
        await two.write([two.change("a", "2", ABSENT)])
    assert refused.value.code is Code.PRECONDITION_FAILED
    assert await two.look("a") == "1" and await two.look("none") is None
    await two.write([two.change("a", "2", two.version("a"))])
    await one.catch_up(two.version("a"))
    assert one.get("a") == "2"
    one.close()
    two.close()


async def test_tables_that_are_written_together_know_it_together(store: MemoryStore) -> None:
    """No watch tells them: neither was started."""
    one, other = table(store), table(store, "other/")
    await one.write([one.change("a", "1"), other.change("b", "2")], other)
    assert (one.get("a"), other.get("b")) == ("1", "2")
    assert (one.get("b"), other.get("a")) == (None, None)


def test_what_is_older_changes_nothing(store: MemoryStore) -> None:
    one = table(store)
    for version, value in ((7, b"new"), (5, b"old"), (7, b"again")):
        one._take([KeyValueEvent("kind/a", value, version)])
    assert one.get("a") == "new"
    one._take([KeyValueEvent("kind/a", None, ABSENT)])
    assert one.get("a") is None, "a deletion that was found by looking has no version"


def test_changes_are_known_when_another_keeps_the_key_values(store: MemoryStore) -> None:
    one = table(store)
    one._take([KeyValueEvent("kind/a", b"of another", first_place(1) + 70)])
    one._take([KeyValueEvent("kind/a", b"back again", 8)])
    assert one.get("a") == "back again"


def test_versions_of_two_keepers_are_not_compared() -> None:
    assert is_older(5, 7) and not is_older(7, 5)
    assert not is_older(5, first_place(1) + 7) and not is_older(first_place(1) + 7, 5)


async def test_what_was_loaded_is_not_waited_for(store: MemoryStore) -> None:
    version = await store.key_values.write([KeyValueChange("kind/a", b"1"), KeyValueChange("kind/b", b"2")])
    one = table(store)
    await one.start()
    await asyncio.wait_for(one.catch_up(version, patience_seconds=1e9), PATIENCE_SECONDS)
    assert one.get("b") == "2"
    one.close()
