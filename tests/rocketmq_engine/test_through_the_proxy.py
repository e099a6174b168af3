"""Our store and gateway in front of Apache RocketMQ, and what RocketMQ tells its operators of it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from entrepot.domain.definitions.consumer_group import ConsumerGroup
from entrepot.domain.delivery import Delivery
from entrepot.domain.errors import Code
from entrepot.domain.message import Message, StoredMessage, SystemProperty
from entrepot.domain.topic import Topic
from entrepot.domain.transaction import TransactionEnd
from entrepot.gateway.clock import SystemClock
from entrepot.store_client.rocketmq import open_rocketmq
from tests.contract_rocketmq.operated import OperatedStore, PassingClock, RocketMqOperator, full_message
from tests.support.processes.deployment import GatewayProcess
from tests.support.rocketmq.cluster import RocketMqCluster, on_rocketmq
from tests.support.stores.steps import append, append_all, bodies, codes, handles, message, pop, refusal_of, settled
from tests.support.waiting import PATIENCE_SECONDS

pytestmark = on_rocketmq

EVENT = {"ce-specversion": "1.0", "ce-id": "1", "ce-type": "t", "ce-source": "/s", "content-type": "text/plain"}
SHORTEST_LEASE_MS = 10_000
"""The proxy refuses a shorter one."""


@pytest.fixture
def operator(rocketmq_cluster: RocketMqCluster) -> RocketMqOperator:
    return RocketMqOperator(rocketmq_cluster)


@pytest.fixture
async def store(operator: RocketMqOperator) -> AsyncIterator[OperatedStore]:
    opened = operator.open(PassingClock())
    yield opened
    await opened.close()


async def until_popped(store: OperatedStore, topic: str = "t", group: str = "g") -> Delivery:
    """The next delivery, however long the cluster takes."""
    async with asyncio.timeout(2 * PATIENCE_SECONDS):
        while not (found := await pop(store, topic, group, 1, 5_000)):
            pass
    return found[0]


async def test_operators_see_what_the_store_has_sent(rocketmq_cluster: RocketMqCluster):
    rocketmq_cluster.put_topic("seen", queues=2, message_type="NORMAL")
    place = f"127.0.0.1:{rocketmq_cluster.proxy_port}"
    store = await open_rocketmq([place], SystemClock(), topics=["seen"], request_timeout_ms=10_000)
    assert store.topology.topic("seen") == Topic("seen", queues=4), "two at each broker"
    for number in range(6):
        assert await settled(store.messages.append([message("seen", str(number))])) is None
    seen = rocketmq_cluster.bounds("seen")
    assert sorted(seen) == [("broker-a", 0), ("broker-a", 1), ("broker-b", 0), ("broker-b", 1)]
    assert sum(end for _, end in seen.values()) == 6
    await store.close()


@pytest.mark.xfail(reason="the proxy of RocketMQ 5.5.0 ignores resource namespaces", strict=True)
async def test_namespaces_keep_topics_apart(rocketmq_cluster: RocketMqCluster):
    rocketmq_cluster.put_topic("shared", queues=1, message_type="NORMAL")
    place = f"127.0.0.1:{rocketmq_cluster.proxy_port}"
    store = await open_rocketmq([place], SystemClock(), topics=["shared", "team/shared"], request_timeout_ms=10_000)
    try:
        assert await settled(store.messages.append([message("team/shared", "a")])) is None
        assert bodies(await pop(store, "shared", wait_ms=5_000)) == []
    finally:
        await store.close()


async def test_a_gateway_serves_http_from_the_cluster(rocketmq_cluster: RocketMqCluster, tmp_path: Path):
    rocketmq_cluster.put_topic("orders", message_type="NORMAL")
    settings = {
        "rocketmq.endpoints": f'["127.0.0.1:{rocketmq_cluster.proxy_port}"]',
        "rocketmq.topics": '["orders"]',
        "facts.url": f"file:{tmp_path / 'facts'}",
    }
    gateway = GatewayProcess(tmp_path, [], settings, "gateway")
    try:
        await asyncio.to_thread(gateway.start)
        await _through_http(f"http://{gateway.address('http')}/topics/orders")
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


async def test_a_message_comes_back_as_it_was_sent(store: OperatedStore):
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


async def test_what_is_not_settled_comes_again(store: OperatedStore):
    await store.topology.put_topic(Topic("t", queues=1))
    await append(store, "t", "kept", "released", "renewed")
    first = {each.message.body: each for each in await pop(store, "t", invisible_ms=SHORTEST_LEASE_MS)}
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


async def test_what_is_rejected_is_a_dead_letter(store: OperatedStore):
    await store.topology.put_topic(Topic("t", queues=1))
    await append(store, "t", "bad")
    bad = await until_popped(store)
    assert codes(await store.consumption.reject("t", "g", handles([bad]))) == [None]
    assert await store.until_known(Topic("%DLQ%g")) is None
    dead = await until_popped(store, "%DLQ%g", "mourners")
    assert (dead.message.topic, dead.message.body) == ("%DLQ%g", b"bad")


async def test_a_message_group_is_in_order(store: OperatedStore):
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


async def test_a_timed_message_comes_at_its_time_unless_it_is_recalled(store: OperatedStore):
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


def half(body: str) -> Message:
    return replace(message("t", body), system={SystemProperty.TRANSACTION_ID: f"tx-{body}"})


async def test_a_transaction_is_ended_or_asked_after(store: OperatedStore, operator: RocketMqOperator):
    name = operator.names.stored("t")
    operator.cluster.put_topic(name, 1, "TRANSACTION", brokers=1)  # in a MIXED topic nobody is asked
    await store.until_known(Topic("t"))
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
