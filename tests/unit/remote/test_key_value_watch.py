"""Watching key-values over connections that end: what was missed is told, nothing that was told is told again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.remoting.link import ConnectionLostError
from domain.errors import Code, EntrepotError
from domain.key_value import KeyValue, KeyValueEvent
from domain.shard import first_place
from protocols.remoting import operations as wire
from protocols.remoting.values import encode
from store_client.remote.cluster import Cluster
from store_client.remote.key_values import RemoteKeyValues

PAGE = 2
"""What one scan of this keeper returns at most."""


class Keeper:
    """A broker that keeps key-values; `cut` ends its connection."""

    def __init__(self, number: int = 0) -> None:
        self.number = number
        self.info = SimpleNamespace(keeps_key_values=True)
        self.link = self
        self.is_ready = True
        self.values: dict[str, KeyValue] = {}
        self.version = 0
        self.streams: list[SimpleNamespace] = []
        self.failing_scans = 0
        self.before_scan: Callable[[], Awaitable[None]] | None = None

    def check_ready(self) -> None:
        if not self.is_ready:
            raise ConnectionLostError("away")

    def world_place(self, place: int) -> int:
        return first_place(self.number) + place

    def open_stream(self, operation: object, payload: bytes, on_item: Any, on_end: Any) -> SimpleNamespace:
        stream = SimpleNamespace(on_item=on_item, on_end=on_end)
        stream.close = lambda: self.streams.remove(stream) if stream in self.streams else None
        self.streams.append(stream)
        asyncio.get_running_loop().call_soon(on_item, encode([]))
        return stream

    async def ask(self, operation: wire.Operation, prefix: str, after: str, limit: int) -> list[KeyValue]:
        assert operation is wire.SCAN
        if self.before_scan is not None:
            await self.before_scan()
        if self.failing_scans:
            self.failing_scans -= 1
            raise EntrepotError(Code.REQUEST_TIMEOUT, "slow")
        return [self.values[key] for key in sorted(self.values) if key > after][:PAGE]

    def change(self, key: str, value: bytes | None) -> None:
        self.version += 1
        if value is None:
            self.values.pop(key, None)
        else:
            self.values[key] = KeyValue(key, value, self.version)
        for stream in tuple(self.streams):
            stream.on_item(encode([KeyValueEvent(key, value, self.version)]))

    def cut(self) -> list[SimpleNamespace]:
        cut, self.streams = self.streams, []
        return cut


class Watched:
    """A watcher, and what it believes there is."""

    def __init__(self, keeper: Keeper) -> None:
        self.keeper = keeper
        self.cluster = SimpleNamespace(clients={"": keeper}, ready_watchers=[], info_watchers=[])
        self.key_values = RemoteKeyValues(cast("Cluster", self.cluster))
        self.told: list[KeyValueEvent] = []
        self.believed: dict[str, bytes] = {}
        self.stop = self.key_values.watch("", self.take)

    def take(self, events: list[KeyValueEvent]) -> None:
        self.told += events
        for event in events:
            if event.value is None:
                self.believed.pop(event.key, None)
            else:
                self.believed[event.key] = event.value

    def lose(self) -> None:
        self.keeper.is_ready = False
        for stream in self.keeper.cut():
            stream.on_end(ConnectionLostError("lost"))

    def find(self) -> None:
        self.keeper.is_ready = True
        self.cluster.clients = {"": self.keeper}
        for watcher in self.cluster.ready_watchers:
            watcher(self.keeper, True)

    async def rest(self) -> None:
        """Until it has looked at all there is: a few turns of the loop for every page."""
        for _ in range(60):
            await asyncio.sleep(0)


KEYS = st.sampled_from("abcde")
CHANGES = st.lists(st.tuples(KEYS, st.none() | st.binary(max_size=2)), max_size=6)


@given(CHANGES, st.lists(st.tuples(CHANGES, CHANGES), max_size=4))
def test_who_watches_believes_what_is_there(before: list, rounds: list):
    """`rounds`: changes while it is connected, and while it is not."""
    asyncio.run(watch_on(before, rounds))


async def watch_on(before: list, rounds: list) -> None:
    keeper = Keeper(3)
    for key, value in before:
        keeper.change(key, value)
    watched = Watched(keeper)
    await watched.rest()
    assert watched.told == []
    watched.believed = {key: found.value for key, found in keeper.values.items()}
    for seen, missed in rounds:
        told = len(watched.told)
        for key, value in seen:
            keeper.change(key, value)
        assert [(event.key, event.value) for event in watched.told[told:]] == seen
        versions = {key: found.version for key, found in keeper.values.items()}
        watched.lose()
        for key, value in missed:
            keeper.change(key, value)
        told = len(watched.told)
        watched.find()
        await watched.rest()
        assert watched.believed == {key: found.value for key, found in keeper.values.items()}
        changed = {k for k in versions.keys() | keeper.values if versions.get(k) != version_of(keeper, k)}
        assert sorted(event.key for event in watched.told[told:]) == sorted(changed)
    watched.stop()
    assert keeper.streams == []


def version_of(keeper: Keeper, key: str) -> int | None:
    found = keeper.values.get(key)
    return None if found is None else found.version


async def test_changes_while_it_looks_are_told_once():
    keeper = Keeper()
    for key in "abcd":
        keeper.change(key, b"old")
    watched = Watched(keeper)
    await watched.rest()
    watched.lose()
    for key in "abcd":
        keeper.change(key, b"missed")
    going = asyncio.Event()
    keeper.before_scan = going.wait  # type: ignore[assignment]
    watched.find()
    await watched.rest()
    keeper.change("a", b"new")
    keeper.change("d", None)
    going.set()
    await watched.rest()
    told = [(event.key, event.value) for event in watched.told]
    assert told == [("a", b"new"), ("d", None), ("b", b"missed"), ("c", b"missed")]


async def test_a_look_that_fails_is_taken_again(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("store_client.remote.key_values.LOOK_AGAIN_SECONDS", 0)
    keeper = Keeper()
    keeper.change("a", b"old")
    watched = Watched(keeper)
    await watched.rest()
    watched.lose()
    keeper.change("a", b"missed")
    keeper.failing_scans = 2
    watched.find()
    await watched.rest()
    assert watched.believed == {"a": b"missed"}


async def test_what_was_missed_before_the_first_look_ended_is_told():
    keeper = Keeper()
    never = asyncio.Event()
    keeper.before_scan = never.wait  # type: ignore[assignment]
    watched = Watched(keeper)
    await watched.rest()
    watched.lose()
    keeper.change("a", b"missed")
    keeper.before_scan = None
    watched.find()
    await watched.rest()
    assert watched.believed == {"a": b"missed"}


async def test_another_keeper_has_other_versions():
    one, two = Keeper(1), Keeper(2)
    one.change("a", b"x")
    two.change("a", b"y")
    watched = Watched(one)
    await watched.rest()
    watched.lose()
    watched.keeper = two
    watched.find()
    await watched.rest()
    assert [(e.key, e.value, e.version) for e in watched.told] == [("a", b"y", first_place(2) + 1)]
