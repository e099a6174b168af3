"""Tails and watches over several brokers: nothing missed and nothing twice, while brokers come and go."""

from __future__ import annotations

import asyncio

import pytest

from entrepot.domain.errors import EntrepotError
from entrepot.domain.key_value import KeyValueChange
from entrepot.domain.message import StoredMessage
from entrepot.domain.ports import Tail
from entrepot.domain.position import EARLIEST_POSITION, Position
from entrepot.gateway.key_values.watched_table import WatchedTable
from entrepot.store_client.remote import RemoteStore
from tests.support.brokers.broker_world import BrokerWorld
from tests.support.stores.steps import append, bodies, refusal_of
from tests.support.waiting import PATIENCE_SECONDS, until


class Seen:
    """What a tail handed over."""

    def __init__(self, store: RemoteStore, queue_id: int, start: int | Position | None = 0) -> None:
        self.messages: list[StoredMessage] = []
        self.begun = False
        self.tail: Tail = store.messages.tail("t", queue_id, start, self.messages.extend)
        self.tail.when_begun(self._begins)

    def _begins(self) -> None:
        self.begun = True

    @property
    def bodies(self) -> list[str]:
        return bodies(self.messages)


@pytest.mark.parametrize("start", [0, EARLIEST_POSITION])
async def test_tails_of_all_brokers(world: BrokerWorld, store: RemoteStore, other: RemoteStore, start: int | Position):
    await world.topic()
    await append(store, "t", "a", queue_id=10001)
    seen = {queue_id: Seen(other, queue_id, start) for queue_id in (0, 1, 10000, 10001)}
    for queue_id in seen:
        await append(store, "t", f"b{queue_id}", queue_id=queue_id)
    await until(lambda: all(f"b{q}" in s.bodies for q, s in seen.items()), "all is there")
    assert seen[10001].bodies == ["a", "b10001"]
    assert [m.queue_id for s in seen.values() for m in s.messages] == [0, 1, 10000, 10001, 10001]
    for queue_id in (2, 10002, 20000):
        with pytest.raises(EntrepotError):
            Seen(store, queue_id)


@pytest.mark.parametrize("how", ["stop", "cut"])
async def test_a_tail_goes_on_at_the_exact_offset(world: BrokerWorld, store: RemoteStore, how: str):
    await world.topic()
    seen, healthy = Seen(store, 10000), Seen(store, 0)
    local = world.brokers[1].broker
    sent = 0
    for _ in range(5):
        for _ in range(7):
            await append(local, "t", f"m{sent}")
            sent += 1
        if how == "stop":
            await world.stop(1)
            await append(local, "t", f"m{sent}")
            sent += 1
            await append(store, "t", f"h{sent}", queue_id=0)
            await until(lambda n=sent: f"h{n}" in healthy.bodies, "the other goes on")  # type: ignore[misc]
            await world.serve(1)
        else:
            world.brokers[1].cut()
    await append(local, "t", "last")
    await until(lambda: "last" in seen.bodies, "it goes on")
    assert seen.bodies == [*(f"m{i}" for i in range(sent)), "last"]


async def test_a_tail_begun_while_its_broker_is_away_begins_when_it_was_asked_for(
    world: BrokerWorld, store: RemoteStore
):
    await world.topic()
    local = world.brokers[1].broker
    await append(local, "t", "before")
    written = world.clock.now_ms()
    await until(lambda: world.clock.now_ms() > written + 1500, "it is well before")
    await world.stop(1)
    seen = Seen(store, 10000, None)
    assert seen.begun, "nobody is kept waiting"
    await append(local, "t", "after")
    await world.serve(1)
    await until(lambda: seen.messages, "it begins")
    assert seen.bodies == ["after"]


async def test_a_tail_that_was_closed_while_its_broker_is_away_stays_closed(world: BrokerWorld, store: RemoteStore):
    await world.topic()
    closed, left = Seen(store, 10000), Seen(store, 10000)
    await world.stop(1)
    closed.tail.close()
    await world.serve(1)
    await append(store, "t", "a", queue_id=10000)
    await until(lambda: left.messages, "the other goes on")
    assert closed.messages == []


class Watched:
    """What a view of key-values was told, and what there is by it."""

    def __init__(self, store: RemoteStore) -> None:
        self.changes: list[tuple[str, bytes | None]] = []
        self.table: WatchedTable[bytes] = WatchedTable(store.key_values, "k/", bytes)
        self.table.on_change.append(lambda name, before, now: self.changes.append((name, now)))

    @property
    def there(self) -> dict[str, bytes]:
        return dict(self.table.items())


@pytest.mark.failure(
    "The broker is away that keeps the key-values",
    group="A broker without replicas",
    does=(
        "Key-values are not changed until it is back: users, sessions, definitions. Then gateways learn all that "
        "they missed."
    ),
    lost="nothing",
)
@pytest.mark.parametrize("how", ["stop", "cut"])
async def test_a_view_misses_nothing_while_the_keeper_is_away(world: BrokerWorld, store: RemoteStore, how: str):
    watched = Watched(store)
    await watched.table.start()
    await store.key_values.write(
        [KeyValueChange("k/a", b"1"), KeyValueChange("k/b", b"1"), KeyValueChange("k/c", b"1")]
    )
    await until(lambda: len(watched.changes) == 3, "it is told")
    await watched.table.write([KeyValueChange("k/own", b"1")])
    local = world.brokers[0].broker
    if how == "stop":
        await world.stop(0)
        assert await refusal_of(store.key_values.write([KeyValueChange("k/a", b"9")])) is not None
    else:
        world.brokers[0].cut()
    missed = {"k/a": b"2", "k/b": None, "k/d": b"2", "k/own": None}
    await local.key_values.write([KeyValueChange(key, value) for key, value in missed.items()])
    if how == "stop":
        await world.serve(0)
    await until(lambda: watched.there == {"a": b"2", "c": b"1", "d": b"2"}, lambda: f"{watched.there}")
    await store.key_values.write([KeyValueChange("k/e", b"3")])
    await until(lambda: "e" in watched.there, "it goes on")
    assert len(watched.changes) == 9, "and nothing is told twice"
    watched.table.close()


async def test_a_view_begun_while_the_keeper_is_away(world: BrokerWorld, store: RemoteStore):
    await world.stop(0)
    watched = Watched(store)
    assert await refusal_of(watched.table.start()) is not None
    starting = asyncio.ensure_future(watched.table.start(PATIENCE_SECONDS))
    await world.serve(0)
    await starting
    await store.key_values.write([KeyValueChange("k/a", b"1")])
    await until(lambda: watched.there == {"a": b"1"}, "it is told")
    watched.table.close()


async def test_key_values_need_their_keeper_alone(world: BrokerWorld, store: RemoteStore, other: RemoteStore):
    version = await store.key_values.write([KeyValueChange("k/a", b"1")])
    await world.stop(1)
    [found] = await other.key_values.get(["k/a"])
    assert found is not None
    assert (found.value, found.version) == (b"1", version)
    await other.key_values.write([KeyValueChange("k/a", b"2", version)])
    assert [found.value for found in await store.key_values.scan("k/")] == [b"2"]
