"""A cluster whose servers fail, as the model of it plays them: masters that move, queues that lose their ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from entrepot.domain.errors import Code
from entrepot.domain.message import StoredMessage
from entrepot.domain.ports import PopRequest
from entrepot.domain.topic import Permission, Topic
from entrepot.protocols.rocketmq.remoting import codes as asked_for
from entrepot.protocols.rocketmq.remoting.frames import Frame
from entrepot.store_client.rocketmq import RocketMqStore
from tests.contract_rocketmq.conftest import settings_of
from tests.support.clock import ManualClock
from tests.support.rocketmq.server import RocketMqServer
from tests.support.rocketmq.store_load import LEASE_MS, Popper, Publisher, Tails, bodies_of, everything
from tests.support.stores.steps import append_all, bodies, message, pop, refusal_of, settled
from tests.support.waiting import until

SOON_MS = 50


@pytest.fixture
def engine() -> str:
    return "model"


@pytest.fixture
async def looking(cluster: RocketMqServer, clock: ManualClock) -> AsyncIterator[RocketMqStore]:
    """A store that looks at routes often."""
    opened = RocketMqStore(settings_of(cluster, route_refresh_ms=SOON_MS, most_poll_ms=200), clock)
    await opened.start()
    yield opened
    await opened.close()


async def outcome_of(store: RocketMqStore, body: str, queue_id: int = 0) -> Code | None:
    """The outcome of a message: its refusal, or that of all."""
    confirmation = store.messages.append([message("t", body, queue_id)])
    failure = await settled(confirmation)
    refusal = failure or next(iter(confirmation.refusals or ()), None)
    return None if refusal is None else refusal.code


async def test_a_master_at_another_place_is_found(cluster: RocketMqServer, looking: RocketMqStore, clock: ManualClock):
    await looking.topology.put_topic(Topic("t", queues=1))
    publisher = Publisher(looking, "t", "m", queues=(0,))
    tails, popper = Tails(looking, "t", (0,)), Popper(looking, "t", "g")
    for _ in range(3):
        await publisher.goes_on(20)
        await cluster.move("broker-0")
        await publisher.goes_on(20)
    await publisher.stop()
    found = bodies_of(await everything(looking, "t"))
    assert publisher.findings(found) == ([], [])
    await until(lambda: len(tails.all()) >= len(found), "the tail goes on")
    assert tails.all() == found
    clock.advance(LEASE_MS)  # what was popped over a connection that broke comes again
    await until(lambda: set(publisher.confirmed) <= set(popper.taken), "pops go on")
    tails.close()
    await popper.stop()


async def test_without_a_master_queues_are_read_and_take_nothing(cluster: RocketMqServer, looking: RocketMqStore):
    """They stay writable queues: a message is put off, and not forbidden."""
    await looking.topology.put_topic(Topic("t", queues=1))
    assert await outcome_of(looking, "before") is None
    cluster.at["broker-0"].has_master = False
    route = await looking._cluster.routes.refresh("t")
    assert [*route.ids.writable] == [0]
    sent = len(cluster.asked(asked_for.SEND))
    assert await outcome_of(looking, "refused") == Code.UNAVAILABLE
    assert await refusal_of(looking.consumption.pop(PopRequest("t", "g", 1, 0))) == Code.UNAVAILABLE
    assert bodies(await looking.messages.read("t", 0, 0, 9)) == ["before"], "the slave serves reads"
    assert await refusal_of(looking.messages.read("t", 0, 5, 9)) == Code.UNAVAILABLE, "it may be behind"
    assert len(cluster.asked(asked_for.SEND)) == sent and not cluster.asked(asked_for.POP)
    cluster.at["broker-0"].has_master = True
    await until(lambda: looking._cluster.routes.all()[0].queues[0].has_master, "the master is found")
    assert await outcome_of(looking, "after") is None


@pytest.mark.parametrize("meanwhile", [0, 2, 9], ids=["shorter", "shorter still", "longer again"])
async def test_a_queue_that_lost_its_end_is_read_on(cluster: RocketMqServer, looking: RocketMqStore, meanwhile: int):
    """What is still there does not come twice, and what has the lost offsets now comes, whenever the tail looks."""
    await looking.topology.put_topic(Topic("t", queues=1))
    found: list[StoredMessage] = []
    tail = looking.messages.tail("t", 0, 0, found.extend)
    for number in range(8):
        assert await outcome_of(looking, f"old-{number}") is None
    await until(lambda: len(found) == 8, "all has come")
    cluster.faults[asked_for.PULL] = ["early"] * 2
    await cluster.lose("broker-0", "t", 5)
    for number in range(meanwhile):
        assert await append_new(looking, f"new-{number}") is None
    await until(lambda: not cluster.faults[asked_for.PULL], "the tail is back")
    assert await append_new(looking, "last") is None
    new = [*(f"new-{number}" for number in range(meanwhile)), "last"]
    await until(lambda: len(found) >= 8 + len(new), lambda: f"{bodies(found)}")
    assert bodies(found) == [*(f"old-{number}" for number in range(8)), *new]
    assert tail.next_offset == 5 + len(new)
    tail.close()


async def append_new(store: RocketMqStore, body: str) -> Code | None:
    """As a client does, whose first try may meet the broken connection."""
    while (code := await outcome_of(store, body)) in (Code.OUTCOME_UNKNOWN, Code.UNAVAILABLE):
        await asyncio.sleep(0)
    return code


@pytest.mark.parametrize(
    ("answer", "remark", "code"),
    [
        (
            14,
            "the broker's disk is full [CL:  0.95 CQ:  0.95 INDEX:  0.95], messages",
            Code.STORAGE_FULL,
        ),
        (14, "the broker's disk is full [CL:  0.20 CQ:  0.20 INDEX: -1.00], messages", Code.UNAVAILABLE),
        (14, "no reason", Code.STORAGE_FULL),
        (1, "in-sync replicas not enough", Code.UNAVAILABLE),
        (1, "broker unable to service, until 2026", Code.UNAVAILABLE),
        (1, "timer message is under flow control, max num limit is 1", Code.TOO_MANY_REQUESTS),
        (1, "java.lang.NullPointerException", Code.INTERNAL_ERROR),
    ],
)
def test_a_refusal_is_told_by_its_words(answer: int, remark: str, code: Code):
    frame = replace(Frame(answer, 1, {}, b"", is_answer=True), remark=remark)
    assert asked_for.refusal_of(frame, "store a message").code == code


@pytest.mark.parametrize("answer", [2, 14, 215])
async def test_what_was_refused_is_taken_later(cluster: RocketMqServer, looking: RocketMqStore, answer: int):
    """A broker that is full, or has too much to do: each message is refused, and nothing else waits for it."""
    await looking.topology.put_topic(Topic("t", queues=1))
    publisher = Publisher(looking, "t", "f", queues=(0,))
    await publisher.goes_on(10)
    cluster.faults[asked_for.SEND] = [answer] * 5
    cluster.faults[asked_for.SEND_BATCH] = [answer] * 5
    await until(lambda: sum(publisher.codes.values()) >= 4, "it is refused")
    cluster.faults.clear()
    await publisher.goes_on(10)
    await publisher.stop()
    expected = Code.STORAGE_FULL if answer == 14 else Code.TOO_MANY_REQUESTS
    assert set(publisher.codes) == {expected} and not publisher.unknown
    assert publisher.findings(bodies_of(await everything(looking, "t"))) == ([], [])


async def test_many_requests_meet_a_server_that_leaves(cluster: RocketMqServer, looking: RocketMqStore):
    """Each is sent again: none has an unknown outcome because another one was told first."""
    await looking.topology.put_topic(Topic("t", queues=8))
    cluster.faults[asked_for.SEND] = [asked_for.GO_AWAY] * 8
    sent = [message("t", str(number), number) for number in range(8)]
    assert await append_all(looking, *sent) == [None] * 8
    assert len(cluster.asked(asked_for.SEND)) == 16
    assert sorted(bodies_of(await everything(looking, "t"))) == [str(number) for number in range(8)]


async def test_a_broker_leaves_and_another_joins(cluster: RocketMqServer, looking: RocketMqStore):
    """First its queues take nothing more, then they are gone; what it had is read before that."""
    await looking.topology.put_topic(Topic("t", queues=1))
    broker = await cluster.join("broker-1")
    await broker.store.topology.put_topic(Topic("t", 1))
    topic = Topic("t", 1)
    await until(lambda: [*looking.topology.queues(topic).writable] == [0, 10_000], "the new one takes part")
    publisher, popper = Publisher(looking, "t", "j", queues=(-1,)), Popper(looking, "t", "g")
    tails = Tails(looking, "t", (0, 10_000))
    await publisher.goes_on(20)
    await cluster.at["broker-0"].store.topology.put_topic(Topic("t", 1, permission=Permission.READ))
    await until(lambda: [*looking.topology.queues(topic).writable] == [10_000], "the old one takes nothing")
    await publisher.goes_on(20)
    await publisher.stop()
    found = bodies_of(await everything(looking, "t"))
    assert publisher.findings(found) == ([], [])
    await until(lambda: len(tails.all()) == len(found), "all was read")
    await until(lambda: set(found) <= set(popper.taken), "all was popped")
    await cluster.at["broker-0"].store.topology.delete_topic("t")
    await until(lambda: [*looking.topology.queues(topic).readable] == [10_000], "its queues are gone")
    assert await outcome_of(looking, "last", -1) is None
    await until(lambda: "last" in tails.all() and popper.taken["last"], "the rest goes on")
    tails.close()
    await popper.stop()
    assert bodies(await pop(looking, "t", "g2", wait_ms=1_000))[:1]
