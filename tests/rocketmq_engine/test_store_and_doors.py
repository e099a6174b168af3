"""Our store and gateway in front of Apache RocketMQ, and what RocketMQ tells its operators of it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import aiomqtt
import pytest

from entrepot.domain.definitions.consumer_group import ConsumerGroup
from entrepot.domain.delivery import Delivery
from entrepot.domain.errors import Code
from entrepot.domain.message import Message, StoredMessage, SystemProperty
from entrepot.domain.ports import Store
from entrepot.domain.query import MessageQuery
from entrepot.domain.topic import Topic
from entrepot.domain.transaction import TransactionEnd
from entrepot.gateway.clock import SystemClock
from entrepot.store_client.rocketmq import open_rocketmq
from tests.contract_rocketmq.operated import PassingClock, SettledStore, at_rocketmq, full_message
from tests.support.processes.deployment import GatewayProcess
from tests.support.rocketmq.cluster import RocketMqCluster, on_rocketmq
from tests.support.stores.steps import append, append_all, bodies, codes, handles, message, pop, refusal_of, settled
from tests.support.waiting import PATIENCE_SECONDS, until

pytestmark = on_rocketmq

EVENT = {"ce-specversion": "1.0", "ce-id": "1", "ce-type": "t", "ce-source": "/s", "content-type": "text/plain"}
LEASE_MS = 3_000


@pytest.fixture
async def store(rocketmq_cluster: RocketMqCluster) -> AsyncIterator[SettledStore]:
    opened = at_rocketmq(rocketmq_cluster, PassingClock())
    await opened.start()
    yield opened
    await opened.close()


async def open_at(cluster: RocketMqCluster, **others: Any) -> Store:
    return await open_rocketmq(
        [f"127.0.0.1:{cluster.name_server_port}"], SystemClock(), request_timeout_ms=10_000, **others
    )


async def until_popped(store: SettledStore, topic: str = "t", group: str = "g") -> Delivery:
    """The next delivery, however long the cluster takes."""
    async with asyncio.timeout(2 * PATIENCE_SECONDS):
        while not (found := await pop(store, topic, group, 1, 5_000)):
            pass
    return found[0]


async def test_operators_see_what_the_store_has_made_and_sent(rocketmq_cluster: RocketMqCluster):
    store = await open_at(rocketmq_cluster)
    topic = await store.topology.put_topic(Topic("seen", queues=2))
    assert [*store.topology.queues(topic).writable] == [0, 1, 10_000, 10_001], "two at each broker"
    for number in range(8):
        assert await settled(store.messages.append([message("seen", str(number), -1)])) is None
    rocketmq_cluster.wait_readable()
    places = [("broker-0", 0), ("broker-0", 1), ("broker-1", 0), ("broker-1", 1)]
    assert rocketmq_cluster.bounds("seen") == dict.fromkeys(places, (0, 2))
    await store.topology.delete_topic("seen")
    assert store.topology.topic("seen") is None and rocketmq_cluster.bounds("seen") == {}
    await store.close()


async def test_what_an_operator_makes_is_known_and_keeps_its_numbers(rocketmq_cluster: RocketMqCluster):
    rocketmq_cluster.put_topic("operators", queues=3, message_type="NORMAL")
    rocketmq_cluster.put_group("operated", fifo=True, max_attempts=4)
    store = await open_at(rocketmq_cluster)
    topic, group = store.topology.topic("operators"), store.topology.group("operated")
    assert topic is not None and [*store.topology.queues(topic).readable] == [0, 1, 2, 10_000, 10_001, 10_002]
    assert group is not None and (group.fifo, group.max_attempts) == (True, 4)
    await store.topology.delete_group("operated")
    assert store.topology.group("operated") is None
    await store.close()


async def test_namespaces_keep_topics_apart(rocketmq_cluster: RocketMqCluster):
    store = await open_at(rocketmq_cluster)
    for name in ("shared", "team/shared"):
        await store.topology.put_topic(Topic(name, queues=1))
    assert await settled(store.messages.append([message("team/shared", "a", -1)])) is None
    assert bodies(await pop(store, "team/shared", "team/g", wait_ms=5_000)) == ["a"]
    assert bodies(await pop(store, "shared", "g", wait_ms=1_000)) == []
    assert {"default", "team"} <= set(store.topology.namespaces())  # others use the cluster, too
    assert await refusal_of(store.topology.put_topic(Topic("team%shared"))) == Code.ILLEGAL_TOPIC
    await store.close()


async def test_a_tail_has_all_that_comes_and_goes_on_from_an_offset(store: SettledStore):
    await store.topology.put_topic(Topic("t", queues=1))
    live: list[StoredMessage] = []
    tail = store.messages.tail("t", 0, None, live.extend)
    begun = asyncio.Event()
    tail.when_begun(begun.set)
    await begun.wait()
    await append(store, "t", *map(str, range(100)))
    await until(lambda: len(live) == 100, "all has come")
    old: list[StoredMessage] = []
    store.messages.tail("t", 0, 40, old.extend)
    await until(lambda: len(old) == 60, "the rest has come")
    assert [each.body for each in live] == [str(i).encode() for i in range(100)]
    assert [each.queue_offset for each in old] == [*range(40, 100)]


async def test_messages_are_found_by_id_key_and_place(store: SettledStore):
    await store.topology.put_topic(Topic("t", queues=2))
    sent = [replace(message("t", str(i), i % 2), keys=("k", f"own-{i}"), message_id=bytes([i]) * 16) for i in range(6)]
    assert await append_all(store, *sent) == [None] * 6
    await until_found(store, MessageQuery("t", key="own-5"), ["5"])
    first = await store.finder.query(MessageQuery("t", key="k", limit=4))
    rest = await store.finder.query(MessageQuery("t", key="k", limit=4, cursor=first.next))
    assert sorted(m.body for m in first.messages + rest.messages) == [str(i).encode() for i in range(6)]
    assert rest.next is None
    everything = await store.finder.query(MessageQuery("t", limit=10))
    assert len(everything.messages) == 6
    [found] = await store.finder.messages_by_id(sent[3].message_id, everywhere=True)
    assert (await store.finder.message_at(found.commit_log_offset)).body == found.body == b"3"
    assert await refusal_of(store.finder.message_at(found.commit_log_offset + 1)) == Code.OFFSET_NOT_FOUND


async def until_found(store: SettledStore, query: MessageQuery, expected: list[str]) -> None:
    """The index of a broker is a little behind its log."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while [m.body.decode() for m in (await store.finder.query(query)).messages] != expected:
            await asyncio.sleep(0.05)


async def test_one_odd_message_does_not_stop_the_others(store: SettledStore):
    """A broker refuses a batch as a whole."""
    await store.topology.put_topic(Topic("t", queues=1))
    odd = replace(message("t", b""), body=bytes((4 << 20) + 1), message_id=b"odd")
    batch = [message("t", "a"), odd, message("t", "b")]
    outcomes = await append_all(store, *batch)
    assert outcomes == [None, Code.MESSAGE_BODY_TOO_LARGE, None]
    assert sorted(bodies(await pop(store, "t", wait_ms=10_000))) == ["a", "b"]


async def test_a_gateway_serves_http_and_mqtt_from_the_cluster(rocketmq_cluster: RocketMqCluster, tmp_path: Path):
    rocketmq_cluster.put_topic("orders", message_type="NORMAL")
    settings = {
        "rocketmq.name_servers": f'["127.0.0.1:{rocketmq_cluster.name_server_port}"]',
        "facts.url": f"file:{tmp_path / 'facts'}",
    }
    gateway = GatewayProcess(tmp_path, [], settings, "gateway")
    try:
        await asyncio.to_thread(gateway.start)
        host, port = gateway.address("mqtt").rsplit(":", 1)
        async with aiomqtt.Client(host, int(port)) as client:
            await client.subscribe("orders/#", qos=1)
            await _through_http(f"http://{gateway.address('http')}/topics/orders")
            received = await asyncio.wait_for(anext(aiter(client.messages)), PATIENCE_SECONDS)
            assert (str(received.topic), received.payload) == ("orders", b"body")
        assert await asyncio.to_thread(gateway.stop) == 0
    finally:
        gateway.kill()
    assert sum(end for _, end in rocketmq_cluster.bounds("orders").values()) == 1


async def _through_http(url: str) -> None:
    """Publish, receive and acknowledge one event."""
    async with aiohttp.ClientSession(trust_env=False) as client:
        async with client.post(f"{url}:publish", data=b"body", headers=EVENT) as answer:
            assert answer.status == 200, await answer.text()
        found: list[Any] = []
        while not found:
            async with client.post(f"{url}/eventsubscriptions/workers:receive?maxWaitTime=10") as answer:
                found = (await answer.json())["value"]
        assert (found[0]["event"]["id"], found[0]["event"]["data"]) == ("1", "body")
        token = found[0]["brokerProperties"]["lockToken"]
        settling = f"{url}/eventsubscriptions/workers:acknowledge"
        async with client.post(settling, json={"lockTokens": [token]}) as answer:
            assert (await answer.json())["succeededLockTokens"] == [token]


async def test_a_message_comes_back_as_it_was_sent(store: SettledStore):
    await store.topology.put_topic(Topic("t", queues=1))
    sent = full_message()
    grouped = replace(message("t", "grouped"), message_group="line 1", properties=(("c", "3"),))
    assert await append_all(store, sent, grouped, replace(message("t", b""), message_id=b"1")) == [None] * 3
    found = {each.message.body: each.message for each in await pop(store, "t", wait_ms=10_000)}
    for body, expected in ((sent.body, sent), (b"grouped", grouped)):
        for name in Message.__slots__:
            if name not in ("filter_hash", "system", "born_time_ms"):
                assert getattr(found[body], name) == getattr(expected, name), name
    assert sent.system.items() <= found[sent.body].system.items(), "the cluster adds who has sent it"
    assert found[sent.body].born_time_ms == sent.born_time_ms
    assert b"" in found


async def test_what_is_not_settled_comes_again(store: SettledStore):
    await store.topology.put_topic(Topic("t", queues=1))
    await append(store, "t", "kept", "released", "renewed")
    first = {each.message.body: each for each in await pop(store, "t", invisible_ms=LEASE_MS)}
    assert {each.attempt for each in first.values()} == {1}
    change = store.consumption.change_invisible_duration
    assert codes(await change("t", "g", [first[b"released"].receipt_handle], 0, release=True)) == [None]
    renewed = first[b"renewed"].receipt_handle
    assert codes(await change("t", "g", [renewed], 600_000, release=False)) == [None]
    for body in ("released", "kept"):
        again = await until_popped(store)
        assert (again.message.body.decode(), again.attempt, again.message.properties) == (body, 2, ())
        assert codes(await store.consumption.acknowledge("t", "g", handles([again]))) == [None]
    assert codes(await store.consumption.acknowledge("t", "g", [renewed])) == [None], "by the handle it came with"
    assert await pop(store, "t", wait_ms=5_000) == []


async def test_what_is_rejected_is_a_dead_letter(store: SettledStore):
    await store.topology.put_topic(Topic("t", queues=1))
    await append(store, "t", "bad")
    bad = await until_popped(store)
    assert codes(await store.consumption.reject("t", "g", handles([bad]))) == [None]
    await until_known(store, "%DLQ%g")
    dead = await until_popped(store, "%DLQ%g", "mourners")
    assert (dead.message.topic, dead.message.body) == ("%DLQ%g", b"bad")


async def test_a_message_group_is_in_order(store: SettledStore):
    await store.topology.put_topic(Topic("t", queues=1))
    await store.topology.put_group(ConsumerGroup("g", fifo=True))
    sent = [replace(message("t", str(i)), message_group="line") for i in range(20)]
    assert await append_all(store, *sent) == [None] * 20
    found: list[str] = []
    while len(found) < 20:
        some = await pop(store, "t", count=8, wait_ms=10_000)
        found += bodies(some)
        assert codes(await store.consumption.acknowledge("t", "g", handles(some))) == [None] * len(some)
    assert found == [str(i) for i in range(20)]


async def test_a_timed_message_comes_at_its_time_unless_it_is_recalled(store: SettledStore):
    await store.topology.put_topic(Topic("t", queues=1))
    at = int(time.time() * 1000) + 4_000
    kept, recalled = (replace(message("t", b), system={SystemProperty.DELIVER_AT_MS: at}) for b in ("kept", "recalled"))
    assert await append_all(store, kept, recalled) == [None, None]
    await store.timers.recall("t", recalled.message_id, at)
    found = await until_popped(store)
    assert found.message.body == b"kept"
    assert found.message.store_time_ms >= at - 1_000, "RocketMQ's times are whole seconds"
    assert await pop(store, "t", wait_ms=5_000) == []
    assert await refusal_of(store.timers.recall("t", kept.message_id, at)) == Code.OFFSET_NOT_FOUND


async def until_known(store: SettledStore, name: str) -> None:
    """A broker makes the topic of dead letters."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while store.topology.topic(name) is None:
            await store._catalog.look()


def half(body: str) -> Message:
    return replace(message("t", body), system={SystemProperty.TRANSACTION_ID: f"tx-{body}"})


async def test_a_transaction_is_ended_or_asked_after(store: SettledStore):
    await store.topology.put_topic(Topic("t", queues=1))
    await store.transactions.take_checks([], 0)  # from now on brokers know that somebody can be asked
    halves = [half(body) for body in ("committed", "rolled back", "forgotten")]
    assert await settled(store.transactions.append_half(halves)) is None
    ends = [TransactionEnd("t", "tx-committed", True), TransactionEnd("t", "tx-rolled back", False)]
    assert codes(await store.transactions.end_transactions(ends)) == [None, None]
    committed = await until_popped(store)
    assert (committed.message.body, committed.message.properties) == (b"committed", ())
    asked: list[StoredMessage] = []
    async with asyncio.timeout(2 * PATIENCE_SECONDS):
        while not asked:
            asked = await store.transactions.take_checks(["t"], 10)
            await asyncio.sleep(0.05)
    assert [(each.body, each.system_text(SystemProperty.TRANSACTION_ID)) for each in asked] == [
        (b"forgotten", "tx-forgotten")
    ]
    assert codes(await store.transactions.end_transactions([TransactionEnd("t", "tx-forgotten", True)])) == [None]
    assert (await until_popped(store)).message.body == b"forgotten"
