"""A store with something of everything in it, made with the real broker and disk.

As a program: makes one in a directory, says so, and waits to be killed.
"""

from __future__ import annotations

import asyncio
import sys
from dataclasses import replace
from pathlib import Path

from entrepot.broker.broker import Broker
from entrepot.broker.settings.store import BrokerSettings
from entrepot.broker.store import consume_queue
from entrepot.broker.store.carried_entries import ENTRY_SIZE
from entrepot.broker.store.index_file import IndexLayout
from entrepot.broker.store.log_reading import CommitLogLayout
from entrepot.broker.store.record import RecordKind
from entrepot.domain.definitions.consumer_group import ConsumerGroup
from entrepot.domain.filter_hash import filter_hash
from entrepot.domain.key_value import KeyValueChange
from entrepot.domain.message import Message, SystemProperty
from entrepot.domain.ports import PopRequest
from entrepot.domain.replication.epochs import EpochStart
from entrepot.domain.topic import Topic, TopicType
from entrepot.domain.transaction import TransactionEnd
from tests.support.clock import ManualClock
from tests.support.stores.burying import bury_exhausted
from tests.support.stores.steps import append_all, handles, pop, settled

LAYOUT = CommitLogLayout(segment_size_bytes=64 << 10, preallocate_bytes=16 << 10, reserve_bytes=4 << 10)
INDEX = IndexLayout(slots=64, entries=200)
MESSAGES = 400


def settings_of(directory: Path) -> BrokerSettings:
    return BrokerSettings(
        directory, layout=LAYOUT, index=INDEX, checkpoint_interval_bytes=32 << 10, checkpoint_interval_seconds=0.1
    )


async def fill(store: Broker, clock: ManualClock) -> None:
    store.engine.append_record(RecordKind.EPOCH, EpochStart(1, 1, 0, replica=1).payload(), clock.now_ms())
    await store.topology.put_namespace("ns")
    topics = [
        Topic("orders", queues=2),
        Topic("copies", queues=1),
        Topic("ns/orders", queues=1),
        Topic("gone", queues=1),
    ]
    await store.topology.put_topics([*topics, Topic("ranked", queues=3, type=TopicType.PRIORITY)])
    await store.topology.put_group(ConsumerGroup("ordered", fifo=True))
    await store.topology.put_group(ConsumerGroup("fragile", max_attempts=1))
    for start in range(0, MESSAGES, 20):
        await append_all(store, *(order(number) for number in range(start, start + 20)))
    await append_all(store, Message("ns/orders", b"n", queue_id=0), Message("gone", b"g", queue_id=0))
    await append_all(store, *(Message("ranked", b"r", queue_id=number) for number in range(3)))
    await consume(store, clock)
    await wait_for_later(store, clock)
    await store.key_values.write([KeyValueChange(f"session/{number}", b"\x00kept", None) for number in range(5)])
    await store.key_values.write([KeyValueChange("session/0", None, None)])
    await store.topology.put_topics([Topic("ranked", queues=3, max_message_bytes=1000, type=TopicType.PRIORITY)])
    await store.topology.delete_topic("gone")


def order(number: int) -> Message:
    sub_topic = f"orders/{number % 7}"
    return Message(
        "orders",
        bytes(200 + number),
        sub_topic=sub_topic,
        queue_id=number % 2,
        tag="even" if number % 4 == 0 else "",
        keys=(f"order-{number}",),
        message_group=f"customer-{number % 5}",
        message_id=number.to_bytes(16, "big"),
        filter_hash=filter_hash(sub_topic, "even" if number % 4 == 0 else ""),
        properties=(("number", str(number)),),
        further_queues=(("copies", 0),) if number % 3 == 0 else (),
    )


async def consume(store: Broker, clock: ManualClock) -> None:
    found = await pop(store, "orders", "workers", 40)
    await store.consumption.acknowledge("orders", "workers", handles(found[::2]))
    await store.consumption.reject("orders", "workers", handles(found[1:4:2]))
    await store.consumption.change_invisible_duration("orders", "workers", handles(found[5:8:2]), 60_000, release=True)
    found = await store.consumption.pop(PopRequest("orders", "ordered", 20, attempt_id="try-1"))
    await store.consumption.acknowledge("orders", "ordered", handles(found[:3]))
    await pop(store, "copies", "fragile", 5, invisible_ms=1)
    clock.advance(1000)
    bury_exhausted(store.core.consumption, clock.now_ms())
    await store.core.commit.wait()
    assert await store.consumption.resend_dead_letters("fragile", [0, 1]) == [None, None]
    await pop(store, "gone", "workers")


async def wait_for_later(store: Broker, clock: ManualClock) -> None:
    def later(number: int) -> Message:
        due = clock.now_ms() + 3_600_000 + number * 40_000
        return replace(order(1000 + number), further_queues=(), system={SystemProperty.DELIVER_AT_MS: due})

    await append_all(store, *(later(number) for number in range(8)))
    await store.timers.recall("orders", later(0).message_id, clock.now_ms() + 3_600_000)
    halves = [
        replace(order(2000 + number), further_queues=(), system={SystemProperty.TRANSACTION_ID: f"t{number}"})
        for number in range(5)
    ]
    assert await settled(store.transactions.append_half(halves)) is None
    for _ in store.cleaner.restatements.say_again(store.engine.end, lambda: store.engine.end, store.cleaner._append):
        await asyncio.sleep(0)
    await store.transactions.end_transactions(
        [TransactionEnd("orders", "t0", True), TransactionEnd("orders", "t1", False)]
    )


async def make(directory: Path) -> None:
    """One that ended cleanly."""
    clock = ManualClock()
    store = await Broker.open(settings_of(directory), clock)
    await fill(store, clock)
    await store.close()


async def live(directory: Path) -> None:
    """Changes behind the last checkpoint, however long it is until somebody kills this."""
    await make(directory)
    seldom = replace(settings_of(directory), checkpoint_interval_bytes=1 << 30, checkpoint_interval_seconds=3600)
    store = await Broker.open(seldom, ManualClock())
    await append_all(store, *(order(number) for number in range(MESSAGES, MESSAGES + 50)))
    await pop(store, "orders", "late", 10)
    await store.topology.delete_topic("copies")
    print("filled", flush=True)
    await asyncio.Event().wait()


def shorten_tails() -> None:
    """So that queues of a few hundred entries have files."""
    consume_queue.ROW_TAIL_BYTES = 3 * ENTRY_SIZE  # type: ignore[misc]


if __name__ == "__main__":
    shorten_tails()
    asyncio.run(live(Path(sys.argv[1])))
