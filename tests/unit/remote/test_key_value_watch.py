"""Watching key-values over connections that end: who watches is told when it begins anew, and nothing from before."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

from entrepot.broker.remoting.link import ConnectionLostError
from entrepot.domain.broker_of_queue import first_place
from entrepot.domain.key_value import KeyValueEvent
from entrepot.protocols.wire.values import encode
from entrepot.store_client.remote.cluster import Cluster
from entrepot.store_client.remote.key_values import RemoteKeyValues


class Keeper:
    """A broker that keeps key-values; `cut` ends its connection."""

    def __init__(self, number: int = 0) -> None:
        self.number = number
        self.info = SimpleNamespace(keeps_key_values=True, problem="")
        self.link = self
        self.is_ready = True
        self.version = 0
        self.streams: list[SimpleNamespace] = []

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

    def change(self, key: str, value: bytes | None) -> None:
        self.version += 1
        for stream in tuple(self.streams):
            stream.on_item(encode([KeyValueEvent(key, value, self.version)]))

    def cut(self) -> list[SimpleNamespace]:
        cut, self.streams = self.streams, []
        return cut


class Watched:
    """A watcher, and what it was told: events, and None for each beginning."""

    def __init__(self, keeper: Keeper) -> None:
        self.keeper = keeper
        self.cluster = SimpleNamespace(clients={"": keeper}, ready_watchers=[], info_watchers=[])
        self.key_values = RemoteKeyValues(cast("Cluster", self.cluster))
        self.told: list[KeyValueEvent | None] = []
        self.stop = self.key_values.watch("", self.told.extend, lambda: self.told.append(None))

    def lose(self) -> None:
        self.keeper.is_ready = False
        for stream in self.keeper.cut():
            stream.on_end(ConnectionLostError("lost"))

    def find(self) -> None:
        self.keeper.is_ready = True
        self.cluster.clients = {"": self.keeper}
        for watcher in self.cluster.ready_watchers:
            watcher(self.keeper, True)


async def turn() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_each_beginning_is_told_before_what_comes_after_it():
    watched = Watched(keeper := Keeper(3))
    await turn()
    keeper.change("a", b"1")
    watched.lose()
    keeper.change("a", b"missed")
    watched.find()
    await turn()
    keeper.change("b", None)
    place = first_place(3)
    assert watched.told == [
        None,
        KeyValueEvent("a", b"1", place + 1),
        None,
        KeyValueEvent("b", None, place + 3),
    ]
    watched.stop()
    assert keeper.streams == []


async def test_while_there_is_nobody_it_has_not_begun():
    keeper = Keeper()
    keeper.is_ready = False
    watched = Watched(keeper)
    await turn()
    assert watched.told == [] and keeper.streams == []
    watched.find()
    await turn()
    assert watched.told == [None]


async def test_another_keeper_is_another_beginning():
    one, two = Keeper(1), Keeper(2)
    watched = Watched(one)
    await turn()
    watched.lose()
    watched.keeper = two
    watched.find()
    await turn()
    two.change("a", b"y")
    assert watched.told == [None, None, KeyValueEvent("a", b"y", first_place(2) + 1)]


async def test_a_fault_of_who_watches_is_its_own():
    keeper = Keeper()
    watched = Watched(keeper)

    def bad(*_: object) -> None:
        raise RuntimeError("not ours")

    watched.key_values.watch("", bad, bad)
    watched.key_values.watch("", watched.told.extend, lambda: None)
    await turn()
    keeper.change("a", b"1")
    assert watched.told == [None, KeyValueEvent("a", b"1", 1), KeyValueEvent("a", b"1", 1)]
