"""Shared parts of the store's benchmarks: making, appending and consuming messages, and counting time."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Coroutine
from typing import Any, Final

from benchmarks.processes import BenchmarkError, cpu_seconds
from entrepot.domain.confirmation import Confirmation
from entrepot.domain.filter_hash import filter_hash
from entrepot.domain.message import Message
from entrepot.domain.ports import PopRequest, Store

TOPIC: Final = "bench"
GROUP: Final = "workers"
QUEUES: Final = 4
BODY_BYTES: Final = 200
APPEND_BATCH: Final = 100
BATCHES_IN_FLIGHT: Final = 32
POP_BATCH: Final = 32
CONSUMERS: Final = 16


async def timed(work: Callable[[], Coroutine[Any, Any, None]]) -> tuple[float, float]:
    """Return (CPU seconds with children, wall seconds)."""
    cpu, begun = cpu_seconds(os.getpid()), time.perf_counter()
    await work()
    return cpu_seconds(os.getpid()) - cpu, time.perf_counter() - begun


def make_messages(count: int) -> list[Message]:
    """Messages as from a listener: queue chosen, id minted, hash made."""
    names = [f"{TOPIC}/{number}" for number in range(10)]
    hashes = [filter_hash(name, "") for name in names]
    body = b"x" * BODY_BYTES
    return [
        Message(
            TOPIC,
            body,
            names[number % 10],
            number % QUEUES,
            1,
            message_id=number.to_bytes(16, "big"),
            born_time_ms=1,
            filter_hash=hashes[number % 10],
        )
        for number in range(count)
    ]


async def append_all(broker: Store, messages: list[Message]) -> None:
    """Append in batches with a few of them unconfirmed at a time, as connections do; return when all are confirmed."""
    loop = asyncio.get_running_loop()
    finished = loop.create_future()
    state = {"next": 0, "in_flight": 0}

    def settled(failure: object) -> None:
        state["in_flight"] -= 1
        if failure is not None and not finished.done():
            finished.set_exception(BenchmarkError(str(failure)))
        elif state["in_flight"] == 0 and state["next"] >= len(messages):
            finished.set_result(None)
        elif state["in_flight"] == BATCHES_IN_FLIGHT // 2:
            loop.call_soon(fill)

    def fill() -> None:
        while state["in_flight"] < BATCHES_IN_FLIGHT and state["next"] < len(messages):
            start = state["next"]
            state["next"] += APPEND_BATCH
            state["in_flight"] += 1
            confirmation: Confirmation = broker.messages.append(messages[start : start + APPEND_BATCH])
            confirmation.when_settled(settled)

    fill()
    await finished


async def consume_all(broker: Store, count: int) -> None:
    """Pop and acknowledge everything, by consumers of one group."""
    left = count

    async def consumer() -> None:
        nonlocal left
        request = PopRequest(TOPIC, GROUP, POP_BATCH)
        while left > 0:
            deliveries = await broker.consumption.pop(request)
            if not deliveries:
                return
            left -= len(deliveries)
            outcomes = await broker.consumption.acknowledge(TOPIC, GROUP, deliveries)
            if any(outcomes):
                raise BenchmarkError(f"an acknowledgement was refused: {outcomes}")

    await asyncio.gather(*(consumer() for _ in range(CONSUMERS)))
    if left:
        raise BenchmarkError(f"{left} messages were not delivered")
