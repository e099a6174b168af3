"""A broker whose machine lost the end of its log: what was before is there, and everybody goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from entrepot.domain.errors import Code
from entrepot.domain.message import StoredMessage
from entrepot.domain.ports import Store
from entrepot.domain.topic import Topic
from entrepot.gateway.clock import SystemClock
from entrepot.store_client.rocketmq import open_rocketmq
from tests.support.rocketmq.cluster import RocketMqCluster, on_rocketmq
from tests.support.rocketmq.store_load import GOES_ON_SECONDS, Popper, Publisher, Tails, bodies_of, everything
from tests.support.rocketmq.torn_log import tear
from tests.support.seed import seeded
from tests.support.waiting import until

pytestmark = [*on_rocketmq, pytest.mark.timeout(600)]

ROUNDS = 5
QUEUES = (0, 1)


@pytest.fixture(scope="module", params=["ASYNC_FLUSH", "SYNC_FLUSH"])
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RocketMqCluster]:
    flush = {"flushDiskType": request.param}
    with RocketMqCluster(tmp_path_factory.mktemp("torn"), 1, settings=flush) as started:
        yield started


async def test_the_end_of_a_log_is_torn(cluster: RocketMqCluster):
    chance = seeded("torn")
    store = await open_rocketmq([f"127.0.0.1:{cluster.name_server_port}"], SystemClock())
    topic = "torn"
    await store.topology.put_topic(Topic(topic, queues=len(QUEUES)))
    tails, popper = Tails(store, topic, QUEUES), Popper(store, topic, "g")
    broker = cluster.process("broker-0-0")
    for number in range(ROUNDS):
        publisher = Publisher(store, topic, f"r{number}-", lines=4)
        await publisher.goes_on(chance.randrange(200, 400))
        await publisher.stop()
        assert set(publisher.codes) <= {Code.TOO_MANY_REQUESTS}, "what a broker of a busy machine says"
        before = await settled_log(cluster, store, tails, topic)
        broker.kill()
        in_order = sorted((each for found in before.values() for each in found), key=lambda m: m.commit_log_offset)
        first_lost = in_order[-chance.randrange(1, 120)]
        way = tear(cluster, cluster.brokers[0], first_lost.commit_log_offset, chance)
        broker.start()
        await until(cluster.knows_all, cluster.log_text, GOES_ON_SECONDS)
        kept = [each for each in in_order if each.commit_log_offset < first_lost.commit_log_offset]
        later = Publisher(store, topic, f"l{number}-", lines=4)
        await later.goes_on(chance.randrange(1, 400))
        await later.stop()
        after = await settled_log(cluster, store, tails, topic)
        lost = len(in_order) - len(kept)
        print(f"round {number}: {way}, {lost} of {len(in_order)} torn off, then {len(later.confirmed)} confirmed")
        expected = {each.body.decode() for each in kept}
        assert expected <= set(bodies_of(after)), "what was before the torn place is there"
        assert later.findings([b for b in bodies_of(after) if b.startswith(f"l{number}-")]) == ([], [])
        assert set(bodies_of(after)) - expected <= {*later.confirmed, *later.unknown}, "nothing came back"
        again = at_places_of_before(before, kept, after)
        await until(
            lambda s=after, a=again: set(bodies_of(s)) - a <= set(popper.taken),
            lambda s=after, a=again: f"{sorted(set(bodies_of(s)) - a - set(popper.taken))[:9]} were not popped",
            GOES_ON_SECONDS,
        )
        print(f"round {number}: passed over by the group, whose position was ahead: {len(again - set(popper.taken))}")
    assert tails.repeated() == []
    tails.close()
    await popper.stop()
    await store.close()


def at_places_of_before(
    before: dict[int, list[StoredMessage]], kept: list[StoredMessage], after: dict[int, list[StoredMessage]]
) -> set[str]:
    """Messages at offsets that had others before: a broker that has kept the group's position passes over them."""
    there = {each.body for each in kept}
    ends = {queue_id: stored[-1].queue_offset for queue_id, stored in before.items() if stored}
    return {
        each.body.decode()
        for queue_id, stored in after.items()
        for each in stored
        if each.queue_offset <= ends.get(queue_id, -1) and each.body not in there
    }


async def settled_log(
    cluster: RocketMqCluster, store: Store, tails: Tails, topic: str
) -> dict[int, list[StoredMessage]]:
    """All that is stored, once it can be read and the tails have it: in the order of each queue."""
    await asyncio.to_thread(cluster.wait_readable)
    found = await everything(store, topic)
    for queue_id, stored in found.items():
        wanted = [each.body.decode() for each in stored]
        await until(
            lambda q=queue_id, w=wanted: set(w) <= set(tails.bodies(q)),
            lambda q=queue_id, w=wanted: f"{sorted(set(w) - set(tails.bodies(q)))[:9]} did not come by a tail",
            GOES_ON_SECONDS,
        )
        order = [body for body in tails.bodies(queue_id) if body in set(wanted)]
        assert order == wanted, "in the queue's order"
    return found
