"""Topics that some brokers have already and others not yet: no key's messages go to queues of the former alone."""

from __future__ import annotations

import asyncio

import pytest

from entrepot.domain.errors import Code
from entrepot.domain.message import Message
from entrepot.domain.topic import Topic
from entrepot.store_client.remote import RemoteStore
from tests.support.brokers.broker_world import BrokerWorld, sender_over
from tests.support.stores.steps import append, refusal_of
from tests.support.waiting import until

BOTH = (0, 1, 2, 3, 10000, 10001, 10002, 10003)


@pytest.fixture
async def arriving(world: BrokerWorld, store: RemoteStore, other: RemoteStore) -> asyncio.Task[Topic]:
    """A topic that is being put, that the first broker has told of, and that the second one knows nothing of."""
    world.brokers[1].hang()
    putting = asyncio.create_task(store.topology.put_topic(Topic("t", queues=4)))
    for each in (store, other):
        await until(lambda each=each: each.cluster.definition("t"), "a broker has told of it")
    return putting


async def test_it_is_known_when_all_have_it(
    world: BrokerWorld, store: RemoteStore, other: RemoteStore, arriving: asyncio.Task[Topic]
):
    assert (store.topology.topic("t"), other.topology.topic("t")) == (None, None)
    world.brokers[1].hang(False)
    await arriving
    for each in (store, other):
        await until(lambda each=each: each.topology.topic("t"), "it is known")
        assert each.topology.queues(Topic("t", queues=4)).writable == BOTH


async def test_names_that_are_used_meanwhile_stay_in_their_queues(
    world: BrokerWorld, store: RemoteStore, other: RemoteStore, arriving: asyncio.Task[Topic]
):
    keys = [f"t/{n}" for n in range(20)]
    sent = [[Message("t", b"x", sub_topic=key) for key in keys] for _ in range(6)]
    sending = []
    for turn, sender in enumerate([sender_over(store, world.clock), sender_over(other, world.clock)]):
        for batch in sent[turn::2][:2]:
            sending.append(asyncio.create_task(sender.send_and_wait(batch)))
            await asyncio.sleep(0)
    world.brokers[1].hang(False)
    await arriving
    assert await asyncio.gather(*sending) == [None] * 4
    for each, batch in ((store, sent[4]), (other, sent[5])):
        assert await sender_over(each, world.clock).send_and_wait(batch) is None
    for n in range(20):
        assert len({batch[n].queue_id for batch in sent}) == 1
    assert {message.queue_id for message in sent[0]} - set(BOTH) == set()
    assert any(message.queue_id >= 10000 for message in sent[0])


async def test_a_broker_that_is_stuck_is_not_waited_for_long(
    world: BrokerWorld, other: RemoteStore, arriving: asyncio.Task[Topic]
):
    await until(lambda: other.topology.topic("t"), "the other gateway may use what there is", 10)
    assert other.topology.queues(Topic("t", queues=4)).writable == (0, 1, 2, 3)
    world.brokers[1].hang(False)
    await arriving
    await until(lambda: other.topology.queues(Topic("t", queues=4)).writable == BOTH, "the rest has come")


async def test_what_a_broker_refuses_stays_where_it_was(world: BrokerWorld, store: RemoteStore, other: RemoteStore):
    """A gateway that does not know of the topic yet puts it: it is not taken back from where others have used it."""
    await store.topology.put_namespace("n")
    await world.agree()
    await world.brokers[1].broker.topology.delete_namespace("n")
    await world.brokers[0].broker.topology.put_topic(Topic("n/t", queues=2))
    await until(lambda: other.cluster.definition("n/t"), "a broker has told of it")
    assert other.topology.topic("n/t") is None
    assert await refusal_of(other.topology.put_topic(Topic("n/t", revision=1))) in (
        Code.BAD_REQUEST,
        Code.ILLEGAL_TOPIC,
    )
    kept = world.brokers[0].broker.topology.topic("n/t")
    assert kept is not None
    assert kept.queues == 2
    await append(store, "n/t", "a", queue_id=0)
