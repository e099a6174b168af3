"""A topic of a broker that goes cold: its messages are in an object store, and no more on the disk."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from entrepot.broker.broker import Broker
from entrepot.broker.settings.store import BrokerSettings
from entrepot.broker.settings.tier import TierSettings
from entrepot.broker.store.log_reading import CommitLogLayout
from entrepot.domain.filter_hash import filter_hash
from entrepot.domain.message import Message, StoredMessage
from entrepot.domain.topic import Topic
from tests.support.clock import ManualClock
from tests.support.stores.steps import append_all
from tests.support.waiting import until

LAYOUT = CommitLogLayout(segment_size_bytes=1 << 20, preallocate_bytes=256 << 10, reserve_bytes=64 << 10)
AT_ONCE: dict[str, Any] = {"max_age_seconds": 0.1, "requests_per_hour": 10**6}
"""Settings of a tier to which messages go soon."""
QUEUES = 2
COUNT = 1200
"""Messages of a queue: several files of the log."""
TOPIC = Topic("factory", queues=QUEUES, retention_seconds=60, tier_seconds=10**9)


@asynccontextmanager
async def opened(directory: Path, clock: ManualClock, url: str = "", **tier: Any) -> AsyncIterator[Broker]:
    values: dict[str, Any] = {**AT_ONCE, "segment_bytes": 256 << 10, **tier}
    store = await Broker.open(
        BrokerSettings(
            directory / "data",
            layout=LAYOUT,
            retention_interval_seconds=0.01,
            checkpoint_interval_seconds=0.1,
            tier=TierSettings(url or (directory / "cold").as_uri(), **values),
        ),
        clock,
    )
    try:
        yield store
    finally:
        await store.close()


def message(number: int, **others: Any) -> Message:
    queue_id, at = number % QUEUES, number // QUEUES
    name, tag = f"factory/line{at % 5}", "odd" if at % 2 else "even"
    return Message(
        "factory",
        b"%d " % number + bytes(1000),
        sub_topic=name,
        queue_id=queue_id,
        message_id=b"m%d" % number,
        tag=tag,
        filter_hash=filter_hash(name, tag),
        properties=(("a", str(number)), ("a", b"\xff")),
        born_time_ms=5,
        **others,
    )


async def published(store: Broker, clock: ManualClock, first: int = 0, count: int = COUNT) -> None:
    """Messages of each queue, over some time."""
    for start in range(first, first + count, 100):
        await append_all(store, *map(message, range(start * QUEUES, (start + 100) * QUEUES)))
        clock.advance(1000)


def root(store: Broker) -> str:
    assert store.tier is not None
    return store.tier.root(store.registry.topics["factory"])


def uploaded(store: Broker) -> dict[int, int]:
    """By queue, up to where the table has it; empty until the table is loaded."""
    assert store.tier is not None
    told = store.tier.progress.get(root(store))
    is_loaded = root(store) in store.tier.tables.cold
    return told.ends if told is not None and is_loaded else {}


async def all_uploaded(store: Broker, count: int = COUNT) -> None:
    await until(lambda: uploaded(store) == dict.fromkeys(range(QUEUES), count), lambda: f"{uploaded(store)}")


async def gone(store: Broker, clock: ManualClock) -> None:
    """Have the disk let go of what is old."""
    clock.advance(120_000)
    queues = [store.engine.dispatcher.queue("factory", number) for number in range(QUEUES)]
    ends = [queue.visible_offset for queue in queues]
    await until(lambda: [queue.min_offset for queue in queues] == ends, "all has left the disk")


async def all_of(store: Broker, queue_id: int, first: int = 0) -> list[StoredMessage]:
    """The messages of a queue, as one reads them one page after the other."""
    found: list[StoredMessage] = []
    while page := await store.messages.read("factory", queue_id, first, 300):
        found += page
        first = page[-1].queue_offset + 1
    return found


async def filled(store: Broker, clock: ManualClock) -> dict[int, list[StoredMessage]]:
    """All that is there, when nothing of it is on the disk any more."""
    await store.topology.put_topic(TOPIC)
    await published(store, clock)
    before = {queue_id: await all_of(store, queue_id) for queue_id in range(QUEUES)}
    await all_uploaded(store)
    await gone(store, clock)
    return before


async def known(store: Broker) -> None:
    """The table is loaded: after a start it is not at once."""
    await until(lambda: store.tier is not None and root(store) in store.tier.tables.cold, "the table is loaded")
