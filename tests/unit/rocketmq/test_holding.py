"""What push consumers hold, and when they are silent."""

from __future__ import annotations

from collections.abc import AsyncIterator
from types import SimpleNamespace

import pytest

from entrepot.domain.access.model import ANONYMOUS, Origin, Principal
from entrepot.domain.topic import Topic
from entrepot.gateway.member.identity import Identity
from entrepot.gateway.rocketmq.caller import Caller
from entrepot.gateway.rocketmq.holding import Holding
from entrepot.gateway.rocketmq.receiving import Receiving
from entrepot.gateway.settings.grpc import GrpcSettings
from entrepot.gateway.work.background_tasks import BackgroundTasks
from entrepot.protocols.rocketmq import v2_pb2 as v2
from tests.support.clock import ManualClock
from tests.support.stores.model_store import MemoryStore
from tests.support.stores.steps import append, pop
from tests.support.waiting import until


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def store(clock: ManualClock) -> AsyncIterator[MemoryStore]:
    opened = MemoryStore(clock)
    await opened.topology.put_topic(Topic("t", queues=1))
    yield opened
    await opened.close()


async def test_a_receive_that_outlives_a_goodbye(store: MemoryStore, clock: ManualClock) -> None:
    """It was no receive of the client that came back with the same id: that one is silent when nothing more comes."""
    frontend = SimpleNamespace(
        store=store,
        clock=clock,
        settings=GrpcSettings(lease_seconds=1),
        identity=Identity("g"),
        tasks=BackgroundTasks("the door"),
    )
    holding = Holding(frontend)  # type: ignore[arg-type]
    await holding.start()
    holding.seen("one")
    polling = holding.begin_receive("one")
    await holding.goodbye("one")
    holding.seen("one")
    holding.end_receive(polling)
    await append(store, "t", "a")
    holding.hold("one", "t", [("g", "", await pop(store, "t", invisible_ms=3_600_000))])
    assert holding.held == 1
    clock.advance(31_000)  # of silence
    await until(lambda: not holding.held, "given up")
    assert [delivery.attempt for delivery in await pop(store, "t", wait_ms=5000)] == [2]
    await holding.close()


async def test_who_says_how_long_it_holds_a_message_is_not_renewed_over(store: MemoryStore, clock: ManualClock) -> None:
    """A push consumer that failed says so when the message is to come again."""
    frontend = SimpleNamespace(
        store=store,
        clock=clock,
        settings=GrpcSettings(lease_seconds=30),
        access=SimpleNamespace(check_consume=lambda caller, topic, group: None),
    )
    holding = Holding(frontend)  # type: ignore[arg-type]
    receiving = Receiving(frontend, holding, SimpleNamespace())  # type: ignore[arg-type]
    await append(store, "t", "a")
    [delivery] = deliveries = await pop(store, "t", invisible_ms=30_000)
    caller = Caller("one", Principal(ANONYMOUS, Origin.ANONYMOUS, "127.0.0.1"), "127.0.0.1", None)
    holding.hold(caller.identity, "t", [("g", "", deliveries)])
    question = v2.ChangeInvisibleDurationRequest(
        topic=v2.Resource(name="t"), group=v2.Resource(name="g"), receipt_handle=delivery.receipt_handle
    )
    question.invisible_duration.FromSeconds(5)
    assert (await receiving.change(question, caller)).status.code == v2.OK
    assert holding.held == 0
    clock.advance(5_000)
    assert [again.attempt for again in await pop(store, "t")] == [2]


async def test_a_client_lives_while_it_waits_and_from_the_end_of_its_wait_on(
    store: MemoryStore, clock: ManualClock
) -> None:
    settings = GrpcSettings(lease_seconds=30, silence_seconds=30)
    frontend = SimpleNamespace(
        store=store, clock=clock, settings=settings, identity=Identity("g"), tasks=BackgroundTasks("d")
    )
    holding = Holding(frontend)  # type: ignore[arg-type]
    holding.seen("one")
    polling = holding.begin_receive("one")
    clock.advance(40_000)  # a long wait
    client = holding._client("one")
    await holding._look_at("one", client)
    holding.end_receive(polling)
    await append(store, "t", "a")
    holding.hold("one", "t", [("g", "", await pop(store, "t", invisible_ms=3_600_000))])
    clock.advance(29_999)
    await holding._look_at("one", client)
    assert holding.held_by("one") == 1
    clock.advance(2)
    await holding._look_at("one", client)
    assert holding.held_by("one") == 0
    assert [again.attempt for again in await pop(store, "t", wait_ms=5000)] == [2]
    await holding.close()


async def test_what_was_acknowledged_or_is_over_is_not_held(store: MemoryStore, clock: ManualClock) -> None:
    frontend = SimpleNamespace(
        store=store,
        clock=clock,
        settings=GrpcSettings(lease_seconds=30),
        access=SimpleNamespace(check_consume=lambda caller, topic, group: None),
        counters=SimpleNamespace(acknowledged=0),
    )
    holding = Holding(frontend)  # type: ignore[arg-type]
    receiving = Receiving(frontend, holding, SimpleNamespace())  # type: ignore[arg-type]
    await append(store, "t", "over", "done", "kept")
    caller = Caller("one", Principal(ANONYMOUS, Origin.ANONYMOUS, "127.0.0.1"), "127.0.0.1", None)
    over = await pop(store, "t", count=1, invisible_ms=1_000)
    others = await pop(store, "t", invisible_ms=30_000)
    holding.hold(caller.identity, "t", [("g", "", [*over, *others])])
    clock.advance(1_000)
    assert len(await pop(store, "t", invisible_ms=30_000)) == 1, "somebody else has it"
    entries = [v2.AckMessageEntry(receipt_handle=each.receipt_handle) for each in (*over, others[0])]
    question = v2.AckMessageRequest(topic=v2.Resource(name="t"), group=v2.Resource(name="g"), entries=entries)
    answer = await receiving.acknowledge(question, caller)
    assert answer.status.code == v2.MULTIPLE_RESULTS
    assert [each.status.code for each in answer.entries] == [v2.INVALID_RECEIPT_HANDLE, v2.OK]
    assert (holding.held_by(caller.identity), frontend.counters.acknowledged) == (1, 1)


async def test_no_message_is_held_for_longer_than_the_limit(store: MemoryStore, clock: ManualClock) -> None:
    settings = GrpcSettings(lease_seconds=30, silence_seconds=30, max_hold_seconds=60)
    frontend = SimpleNamespace(
        store=store, clock=clock, settings=settings, identity=Identity("g"), tasks=BackgroundTasks("d")
    )
    holding = Holding(frontend)  # type: ignore[arg-type]
    await append(store, "t", "a", "b")
    held = []
    for _ in range(5):
        holding.seen("one")
        holding.hold("one", "t", [("g", "", await pop(store, "t", count=1, invisible_ms=3_600_000))])
        clock.advance(25_000)
        await holding._look_at("one", holding._client("one"))
        held.append(holding.held_by("one"))
    assert held == [1, 2, 1, 0, 0], "each has a minute"
    await holding.close()
