"""Run as a program: appends for ever and prints what was confirmed, until it is killed."""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

from entrepot.broker.broker import Broker
from entrepot.broker.settings.store import BrokerSettings
from entrepot.broker.store.log_reading import CommitLogLayout
from entrepot.domain.message import Message
from entrepot.domain.ports import PopRequest
from entrepot.domain.topic import Topic

LAYOUT = CommitLogLayout(segment_size_bytes=256 * 1024, preallocate_bytes=64 * 1024, reserve_bytes=16 * 1024)


class SystemClock:
    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000


def settings_of(directory: Path) -> BrokerSettings:
    return BrokerSettings(
        directory, layout=LAYOUT, checkpoint_interval_bytes=128 * 1024, checkpoint_interval_seconds=0.2
    )


async def produce(store: Broker, round_number: int) -> None:
    number = 0
    while True:
        batch = []
        for _ in range(1 + number % 7):
            number += 1
            message_id = f"{round_number:04d}{number:012d}".encode()
            batch.append(Message("t", message_id * (1 + number % 40), queue_id=number % 2, message_id=message_id))
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        confirmation = store.messages.append(batch)
        confirmation.when_settled(lambda failure: done.set_result(None))  # noqa: B023 - awaited right here
        await done
        if confirmation.failure is not None:
            raise confirmation.failure
        print("confirmed", *(m.message_id.decode() for m in batch), flush=True)


async def consume(store: Broker) -> None:
    while True:
        found = await store.consumption.pop(PopRequest("t", "g", 5, wait_ms=1000, invisible_ms=1000))
        outcomes = await store.consumption.acknowledge("t", "g", [d.receipt_handle for d in found])
        taken = [d.message.message_id.decode() for d, o in zip(found, outcomes, strict=True) if o is None]
        if taken:
            print("acknowledged", *taken, flush=True)


async def main(directory: Path, round_number: int) -> None:
    store = await Broker.open(settings_of(directory), SystemClock())
    await store.topology.put_topic(Topic("t", queues=2))
    print("ready", flush=True)
    await asyncio.gather(produce(store, round_number), consume(store))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
