"""One history of the model store, whole from its seed."""

from __future__ import annotations

from random import Random
from typing import Any

from tests.history.model_clients import QUEUES, TOPIC, consumer, drainer, follower, keeper, producer, reader
from tests.history.model_store import ModelStore
from tests.history.model_world import World
from tests.history.operations import AnyOperation, Drained, Whole

GROUPS = ("plain", "fifo")


def run_history(seed: int, kind: type[ModelStore] = ModelStore) -> list[AnyOperation]:
    """Clients at one time, masters that go, and at the end all is read and drained."""
    chance = Random(f"history {seed}")
    store = kind(Random(f"fault {seed}"))
    world = World(store, chance)
    for queue in range(QUEUES):
        store.queues[TOPIC, queue] = []
    for name in ("p1", "p2"):
        world.start(name, producer(store, name, chance, 12))
        world.start(f"k-{name}", keeper(store, name, chance, 8))
    for number in range(4):
        group = GROUPS[number % 2]
        world.start(f"c{number}", consumer(store, group, chance, 12))
    for queue in range(QUEUES):
        world.start(f"r{queue}", reader(store, chance, 8))
    for _ in range(3):
        world.at(chance.uniform(10, 150), store.failover)
    world.run()
    world.is_calm = True
    _end(world)
    return world.history


def _end(world: World) -> None:
    store = world.store
    for queue in range(QUEUES):
        world.start(f"tail {queue}", follower(store, f"tail {queue}", queue, 0, 1))
    for group in GROUPS:
        world.start(f"d-{group}", drainer(store, group))
    world.run()
    world.now += 1
    times: dict[str, Any] = {
        "client": "end",
        "begun": world.now,
        "ended": world.now,
        "begun_ms": world.now_ms,
        "ended_ms": world.now_ms,
    }
    world.history += [Drained(**times, topic=TOPIC, group=group) for group in GROUPS]
    for queue in range(QUEUES):
        items = tuple(store.read(TOPIC, queue, 0, 1 << 30))
        world.history.append(Whole(**times, topic=TOPIC, queue=queue, items=items))
