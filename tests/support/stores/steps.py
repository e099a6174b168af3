"""Short words for what tests ask of a store."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

from entrepot.domain.confirmation import Confirmation
from entrepot.domain.delivery import Deliveries, Delivery
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.message import Message, StoredMessage
from entrepot.domain.names import TRACE_TOPIC
from entrepot.domain.ports import PopRequest, Store
from tests.support.waiting import PATIENCE_SECONDS

T = TypeVar("T")

LONG_POLL_MS: Final = int(PATIENCE_SECONDS * 4_000)
"""Longer than any test waits: a poll that is answered was not over by itself."""


def message(topic: str, body: bytes | str, queue_id: int = 0, **fields: object) -> Message:
    raw = body.encode() if isinstance(body, str) else body
    return Message(topic, raw, sub_topic=topic, queue_id=queue_id, message_id=raw[:16], **fields)  # type: ignore[arg-type]


async def settled(confirmation: Confirmation) -> EntrepotError | None:
    """Wait for a confirmation; the failure, or None."""
    future: asyncio.Future[EntrepotError | None] = asyncio.get_running_loop().create_future()
    confirmation.when_settled(future.set_result)
    return await asyncio.wait_for(future, PATIENCE_SECONDS)


async def append(store: Store, topic: str, *bodies: bytes | str, queue_id: int = 0) -> None:
    """Append and wait for the confirm; nothing may be refused."""
    confirmation = store.messages.append([message(topic, body, queue_id) for body in bodies])
    assert confirmation.refusals is None
    assert await settled(confirmation) is None


async def eventually_read(store: Store, count: int, topic: str = "t", queue_id: int = 0) -> list[StoredMessage]:
    """The messages of a queue, once there are so many."""

    async def enough() -> list[StoredMessage]:
        found = await store.messages.read(topic, queue_id, 0, 100)
        return found if len(found) >= count else []

    return await eventually(enough)


async def pop(
    store: Store, topic: str, group: str = "g", count: int = 32, wait_ms: int = 0, invisible_ms: int | None = None
) -> Deliveries:
    return await asyncio.wait_for(
        store.consumption.pop(PopRequest(topic, group, count, wait_ms, invisible_ms)), PATIENCE_SECONDS
    )


def bodies(found: Sequence[Delivery] | Sequence[StoredMessage]) -> list[str]:
    return [(item.message if isinstance(item, Delivery) else item).body.decode() for item in found]


def handles(deliveries: Sequence[Delivery]) -> list[str]:
    return [delivery.receipt_handle for delivery in deliveries]


def codes(outcomes: Sequence[EntrepotError | None]) -> list[Code | None]:
    return [None if outcome is None else outcome.code for outcome in outcomes]


async def eventually(question: Callable[[], Awaitable[T]]) -> T:
    """The first answer that is something, for what a store does by itself in a while."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not (answer := await question()):
            await asyncio.sleep(0.01)
    return answer


async def refusal_of(call: Awaitable[object]) -> Code:
    """The code that a call is refused with."""
    try:
        await call
    except EntrepotError as refused:
        return refused.code
    raise AssertionError("it was not refused")


async def append_all(store: Store, *messages: Message) -> list[Code | None]:
    """Append and wait for the confirm; the refusals."""
    confirmation = store.messages.append(messages)
    assert await settled(confirmation) is None
    return [None] * len(messages) if confirmation.refusals is None else codes(confirmation.refusals)


def topics_of(store: Store) -> dict[str, int]:
    """Topics and their numbers of queues, by name.  That of traces comes when it likes: each failed attempt is told."""
    found = sorted(store.topology.topics(), key=lambda topic: topic.name)
    return {topic.name: topic.queues for topic in found if topic.name != TRACE_TOPIC}
