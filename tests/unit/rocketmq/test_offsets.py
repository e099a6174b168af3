"""Offsets of groups, as clients that read by offset write them down."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from types import SimpleNamespace

import pytest

from entrepot.domain.access.model import ANONYMOUS, Origin, Principal
from entrepot.domain.definitions.consumer_group import ConsumerGroup
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.topic import Topic
from entrepot.gateway.messaging.incidents import Incidents
from entrepot.gateway.rocketmq.caller import Caller
from entrepot.gateway.rocketmq.offsets import Offsets
from entrepot.protocols.rocketmq import v2_pb2 as v2
from entrepot.protocols.rocketmq.errors import WireError
from tests.support.clock import ManualClock
from tests.support.stores.model_store import MemoryStore
from tests.support.stores.steps import append, bodies, pop, refusal_of
from tests.support.waiting import PATIENCE_SECONDS

CALLER = Caller("one", Principal(ANONYMOUS, Origin.ANONYMOUS, "127.0.0.1"), "127.0.0.1", None)
GROUP, QUEUE = v2.Resource(name="g"), v2.MessageQueue(topic=v2.Resource(name="t"), id=0)


@pytest.fixture
async def store() -> AsyncIterator[MemoryStore]:
    opened = MemoryStore(ManualClock())
    await opened.topology.put_topic(Topic("t", queues=1))
    await append(opened, "t", "a", "b", "c")
    yield opened
    await opened.close()


@pytest.fixture
def offsets(store: MemoryStore) -> Offsets:
    async def ensure_group(name: str) -> None:
        if store.topology.group(name) is None:
            await store.topology.put_group(ConsumerGroup(name))

    access = SimpleNamespace(check_read=lambda caller, topic: None, check_group=lambda caller, group: None)
    frontend = SimpleNamespace(store=store, access=access, ensure_group=ensure_group)
    return Offsets(frontend)  # type: ignore[arg-type]


def update(offset: int, queue: v2.MessageQueue = QUEUE) -> v2.UpdateOffsetRequest:
    return v2.UpdateOffsetRequest(group=GROUP, message_queue=queue, offset=offset)


@pytest.mark.parametrize(("offset", "left"), [(0, ["a", "b", "c"]), (2, ["c"]), (3, [])])
async def test_an_offset_up_to_the_end_is_written_down(
    store: MemoryStore, offsets: Offsets, offset: int, left: list[str]
) -> None:
    assert (await offsets.update(update(offset), CALLER)).status.code == v2.OK
    found = await offsets.get(v2.GetOffsetRequest(group=GROUP, message_queue=QUEUE), CALLER)
    assert (found.status.code, found.offset) == (v2.OK, offset)
    assert bodies(await pop(store, "t")) == left


@pytest.mark.parametrize("offset", [-1, 4])
async def test_an_offset_beyond_the_queue_is_refused(store: MemoryStore, offsets: Offsets, offset: int) -> None:
    assert await refusal_of(offsets.update(update(offset), CALLER)) is Code.ILLEGAL_OFFSET
    assert store.topology.group("g") is None
    with pytest.raises(WireError):
        await offsets.get(v2.GetOffsetRequest(group=GROUP, message_queue=QUEUE), CALLER)


async def test_the_ends_of_a_queue(offsets: Offsets) -> None:
    for policy, expected in ((v2.BEGINNING, 0), (v2.END, 3)):
        question = v2.QueryOffsetRequest(message_queue=QUEUE, query_offset_policy=policy)
        assert (await offsets.query(question, CALLER)).offset == expected


async def test_there_is_no_such_queue(offsets: Offsets) -> None:
    with pytest.raises(EntrepotError, match="no queue 1"):
        await offsets.update(update(0, v2.MessageQueue(topic=v2.Resource(name="t"), id=1)), CALLER)
    other = v2.MessageQueue(topic=v2.Resource(name="other"), id=0)
    assert await refusal_of(offsets.update(update(0, other), CALLER)) is Code.TOPIC_NOT_FOUND


async def test_a_pull_at_the_end_is_answered_as_soon_as_a_message_comes(store: MemoryStore, offsets: Offsets) -> None:
    waits, answers = asyncio.Event(), list[v2.PullMessageResponse]()

    async def wait_for(grown: Awaitable[object], seconds: float) -> None:
        waits.set()
        await grown

    async def write(answer: v2.PullMessageResponse) -> None:
        answers.append(answer)

    frontend = SimpleNamespace(
        **vars(offsets._frontend),
        settings=SimpleNamespace(max_receive_messages=10, long_polling_seconds=10 * PATIENCE_SECONDS),
        check_room_to_wait=lambda: None,
        counters=SimpleNamespace(waiting=0),
        is_stopping=False,
        wait_for=wait_for,
        sender=SimpleNamespace(incidents=Incidents(ManualClock())),
    )
    question = v2.PullMessageRequest(message_queue=QUEUE, offset=3, batch_size=2)
    question.long_polling_timeout.FromSeconds(round(10 * PATIENCE_SECONDS))
    pulling = asyncio.create_task(Offsets(frontend).pull(question, CALLER, write))  # type: ignore[arg-type]
    await asyncio.wait_for(waits.wait(), PATIENCE_SECONDS)
    assert frontend.counters.waiting == 1
    await append(store, "t", "d")
    await asyncio.wait_for(pulling, PATIENCE_SECONDS)
    [status, message, end] = answers
    assert (status.status.code, message.message.body, end.next_offset) == (v2.OK, b"d", 4)
    assert frontend.counters.waiting == 0
