"""What only a store in front of a cluster does: types, brokers, broken connections, deadlines, settings, signatures."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import replace
from typing import Any

import grpc
import pytest

from entrepot.domain.definitions.consumer_group import ConsumerGroup
from entrepot.domain.delivery import Delivery
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.expression.filter import FilterExpression, FilterKind
from entrepot.domain.message import Message, StoredMessage, SystemProperty
from entrepot.domain.ports import PopRequest
from entrepot.domain.query import MessageQuery
from entrepot.domain.topic import Permission, Topic
from entrepot.domain.transaction import TransactionEnd
from entrepot.protocols.rocketmq import v2_pb2 as v2
from entrepot.protocols.rocketmq.cluster_handle import ClusterHandle
from entrepot.store_client.rocketmq import RocketMqStore, open_rocketmq
from entrepot.store_client.rocketmq.calls import FIRST_RECONNECT_MS
from tests.contract_rocketmq.conftest import settings_of
from tests.contract_rocketmq.operated import OperatedStore, full_message
from tests.support.clock import ManualClock
from tests.support.processes.slow_proxy import SlowProxy
from tests.support.rocketmq.server import RocketMqServer
from tests.support.stores.steps import (
    LONG_POLL_MS,
    append,
    append_all,
    bodies,
    codes,
    handles,
    message,
    pop,
    refusal_of,
    settled,
)
from tests.support.waiting import PATIENCE_SECONDS, until


@pytest.fixture
def engine() -> str:
    return "model"


@pytest.fixture
def takes_wishes() -> bool:
    return False


async def open_second(cluster: RocketMqServer, clock: ManualClock, **others: Any) -> RocketMqStore:
    """Another gateway's store."""
    return RocketMqStore(settings_of(cluster, **others), clock)


# -- sending ---------------------------------------------------------------------------------------------------------


async def test_a_message_comes_back_as_it_was_sent(store: OperatedStore):
    await store.topology.put_topic(Topic("t", queues=1))
    sent = full_message()
    assert await append_all(store, sent) == [None]
    [found] = await pop(store, "t")
    for name in Message.__slots__:
        if name != "filter_hash":
            assert getattr(found.message, name) == getattr(sent, name), name


async def test_an_empty_body_comes_through(store: OperatedStore):
    await store.topology.put_topic(Topic("t", queues=1))
    assert await append_all(store, replace(message("t", b""), message_id=b"1")) == [None]
    assert bodies(await pop(store, "t")) == [""]


async def test_a_batch_is_few_calls_and_one_message_group_is_in_order(store: OperatedStore, cluster: RocketMqServer):
    await store.topology.put_topic(Topic("t", queues=4))
    assert await append_all(store, *(message("t", str(i)) for i in range(100))) == [None] * 100
    assert [len(question.messages) for question in cluster.asked("SendMessage")] == [32, 32, 32, 4]
    await store.topology.put_topic(Topic("f", queues=4))
    confirmations = [
        store.messages.append([replace(message("f", f"{g}{i}"), message_group=g) for g in "abc"]) for i in range(10)
    ]
    assert await settled(confirmations[-1]) is None
    await store.topology.put_group(ConsumerGroup("g", fifo=True))
    found = bodies(await pop(store, "f"))
    for group in "abc":
        assert [body for body in found if body[0] == group] == [f"{group}{i}" for i in range(10)]


async def test_types_are_said_and_what_the_topic_does_not_take_is_refused(
    store: OperatedStore, cluster: RocketMqServer, clock: ManualClock
):
    await cluster.put_topic(Topic("n", queues=1), (v2.NORMAL,))
    await cluster.put_topic(Topic("f", queues=1), (v2.FIFO,))
    for name in "nf":
        await store.own_topology.put_topic(Topic(name))
    later = {SystemProperty.DELIVER_AT_MS: clock.now_ms() + 60_000}
    grouped = replace(message("n", "x"), message_group="g")
    outcomes = await append_all(
        store,
        message("n", "a"),
        grouped,
        replace(message("n", "x"), system=later),
        message("f", "b"),
        message("no", "x"),
    )
    assert outcomes == [None, Code.BAD_REQUEST, Code.BAD_REQUEST, None, Code.TOPIC_NOT_FOUND]
    kinds = [m.system_properties.message_type for q in cluster.asked("SendMessage") for m in q.messages]
    assert sorted(kinds) == [v2.NORMAL, v2.FIFO]
    [found] = await pop(store, "f")
    assert found.message.message_group == "", "the group it was given to keep its order is not the producer's"


async def test_a_refusal_of_the_cluster_stands_at_its_message(store: OperatedStore, cluster: RocketMqServer):
    await store.topology.put_topic(Topic("t", queues=1))
    cluster.accepts["t"] = (v2.FIFO,)  # the route that the store knows still says that it takes any
    outcomes = await append_all(store, message("t", "a"), replace(message("t", "b"), message_group="g"))
    assert outcomes == [Code.BAD_REQUEST, None]


async def test_further_queues_cannot_be_carried(store: OperatedStore):
    await store.topology.put_topics([Topic("t", queues=1), Topic("u", queues=1)])
    many = replace(message("t", "a"), further_queues=(("u", 0),))
    assert await append_all(store, many) == [Code.UNSUPPORTED]
    assert await pop(store, "t") == []


async def test_a_broken_connection_leaves_the_outcome_unknown(store: OperatedStore, cluster: RocketMqServer):
    await store.topology.put_topic(Topic("t", queues=1))
    cluster.faults["SendMessage"] = [grpc.StatusCode.UNAVAILABLE]
    failure = await settled(store.messages.append([message("t", "a")]))
    assert failure is not None and failure.code == Code.UNAVAILABLE and "unknown outcome" in failure.message
    assert bodies(await pop(store, "t")) == ["a"], "it was stored all the same"
    await append(store, "t", "b")


async def test_a_deadline_leaves_the_outcome_unknown(store: OperatedStore, cluster: RocketMqServer, clock: ManualClock):
    await store.topology.put_topic(Topic("t", queues=1))
    hasty = await open_second(cluster, clock)
    await hasty.find_topics(["t"])
    assert await settled(hasty.messages.append([message("t", "first")])) is None
    cluster.faults["SendMessage"] = ["hang"]
    hasty._cluster.producer.timeout_seconds = 0.2
    first, second = hasty.messages.append([message("t", "a")]), hasty.messages.append([message("t", "b")])
    order: list[str] = []
    second.when_settled(lambda failure: order.append("second"))
    first.when_settled(lambda failure: order.append("first"))
    failure = await settled(first)
    assert failure is not None and failure.code == Code.REQUEST_TIMEOUT and "unknown outcome" in failure.message
    await until(lambda: len(order) == 2, "both confirmed")
    assert order == ["first", "second"]
    await hasty.close()


async def test_a_fault_of_ours_confirms_nothing(store: OperatedStore, monkeypatch: pytest.MonkeyPatch):
    await store.topology.put_topic(Topic("t", queues=1))
    monkeypatch.setattr("entrepot.store_client.rocketmq.sending.refusal_of", lambda status: 1 / 0)
    failure = await settled(store.messages.append([message("t", "a")]))
    assert failure is not None and failure.code == Code.INTERNAL_ERROR and "unknown outcome" in failure.message
    monkeypatch.setattr("entrepot.store_client.rocketmq.receiving.from_wire", lambda *args: 1 / 0)
    assert await refusal_of(pop(store, "t", wait_ms=10_000)) == Code.INTERNAL_ERROR


async def test_a_cluster_that_was_away_is_found_again(store: OperatedStore, cluster: RocketMqServer):
    await store.topology.put_topic(Topic("t", queues=1))
    await append(store, "t", "a")
    await cluster.stop()
    failure = await settled(store.messages.append([message("t", "lost")]))
    assert failure is not None and failure.code == Code.UNAVAILABLE
    cluster.clients.clear()
    await cluster.start()

    async with asyncio.timeout(PATIENCE_SECONDS):
        while await settled(store.messages.append([message("t", "b")])) is not None:
            await asyncio.sleep(0.01)
    assert bodies(await pop(store, "t", wait_ms=10_000)) == ["a", "b"]


async def test_no_cluster_at_all(cluster: RocketMqServer, clock: ManualClock):
    await cluster.stop()
    assert await refusal_of(open_rocketmq([f"127.0.0.1:{cluster.port}"], clock, topics=["t"])) == Code.UNAVAILABLE
    assert await refusal_of(open_rocketmq(["nowhere"], clock)) == Code.BAD_REQUEST
    await cluster.start()


async def test_a_far_cluster_has_time_for_its_first_answer(cluster: RocketMqServer, clock: ManualClock):
    await cluster.put_topic(Topic("t", queues=1))
    with SlowProxy(cluster.port) as far:
        far.delay_seconds = 3 * FIRST_RECONNECT_MS / 1000
        place = f"127.0.0.1:{far.port('grpc')}"
        opened = await open_rocketmq([place], clock, topics=["t"], request_timeout_ms=10_000)
        await opened.close()


# -- receiving -------------------------------------------------------------------------------------------------------


class TestTwoBrokers:
    @pytest.fixture
    def brokers(self) -> int:
        return 2

    async def test_pops_take_from_all_brokers(self, store: OperatedStore, cluster: RocketMqServer):
        topic = await store.topology.put_topic(Topic("t", queues=2))
        assert topic.queues == 4
        assert await append_all(store, *(message("t", str(i)) for i in range(12))) == [None] * 12
        found: list[Delivery] = []
        while len(found) < 12:
            some = await pop(store, "t", count=5, wait_ms=10_000)
            assert len(some) <= 5
            found += some
        assert sorted(map(int, bodies(found))) == list(range(12))
        assert {d.message.queue_id for d in found} == {0, 1, 2, 3}
        assert {ClusterHandle.decode(h).broker for h in handles(found)} == set(cluster.brokers)
        assert codes(await store.consumption.acknowledge("t", "g", handles(found))) == [None] * 12

    async def test_a_long_poll_is_woken_whichever_broker_it_is(self, store: OperatedStore, cluster: RocketMqServer):
        await store.topology.put_topic(Topic("t", queues=1))
        for body in "ab":  # they go to the brokers in turn
            waiting = asyncio.create_task(pop(store, "t", wait_ms=LONG_POLL_MS))
            await until(lambda: cluster.asked("ReceiveMessage"), "the receives")
            await append(store, "t", body)
            assert bodies(await waiting) == [body]

    async def test_one_that_is_away_does_not_hide_the_other(self, store: OperatedStore, cluster: RocketMqServer):
        await store.topology.put_topic(Topic("t", queues=1))
        await append(store, "t", "a", "b")
        cluster.faults["ReceiveMessage"] = [v2.INTERNAL_SERVER_ERROR]
        assert len(await pop(store, "t", wait_ms=10_000)) == 1
        cluster.faults["ReceiveMessage"] = [v2.INTERNAL_SERVER_ERROR, v2.INTERNAL_SERVER_ERROR]
        assert await refusal_of(pop(store, "t", "other")) == Code.INTERNAL_ERROR


async def test_what_came_too_late_is_for_the_next_pop(store: OperatedStore, cluster: RocketMqServer):
    await store.topology.put_topic(Topic("t", queues=1))
    given_up = asyncio.create_task(pop(store, "t", wait_ms=LONG_POLL_MS))
    await until(lambda: cluster.asked("ReceiveMessage"), "the receive")
    given_up.cancel()
    await append(store, "t", "a")
    [found] = await pop(store, "t", wait_ms=10_000)
    assert (found.message.body, found.attempt) == (b"a", 1)


async def test_what_nobody_fetches_is_given_back(store: OperatedStore, cluster: RocketMqServer, clock: ManualClock):
    await store.topology.put_topic(Topic("t", queues=1))
    other = await open_second(cluster, clock, keep_ms=1)
    waiting = asyncio.create_task(pop(other, "t", wait_ms=LONG_POLL_MS, invisible_ms=3_600_000))  # type: ignore[arg-type]
    await until(lambda: cluster.asked("ReceiveMessage"), "the receive")
    waiting.cancel()
    await append(store, "t", "a")
    [found] = await pop(store, "t", wait_ms=10_000)
    assert found.attempt == 2
    await other.close()


async def test_filters_of_the_protocol_and_of_ours(store: OperatedStore, cluster: RocketMqServer):
    await store.topology.put_topic(Topic("t", queues=1))
    names = ("t/a", "t/b", "t/a/c")
    assert await append_all(store, *(replace(message("t", name), sub_topic=name) for name in names)) == [None] * 3
    wanted = FilterExpression(FilterKind.SUB_TOPIC, "t/a/#")
    found = await store.consumption.pop(PopRequest("t", "g", 10, filter=wanted))
    assert bodies(found) == ["t/a", "t/a/c"]
    [ack] = cluster.asked("AckMessage")
    assert len(ack.entries) == 1, "what it does not want is settled"
    by_name = FilterExpression(FilterKind.SQL92, "entrepot_sub_topic = 't/b'")
    assert bodies(await store.consumption.pop(PopRequest("t", "h", 10, filter=by_name))) == ["t/b"]
    bad = FilterExpression(FilterKind.SQL92, "a >")
    assert (
        await refusal_of(store.consumption.pop(PopRequest("t", "g", 10, filter=bad))) == Code.ILLEGAL_FILTER_EXPRESSION
    )


# -- settling --------------------------------------------------------------------------------------------------------


async def test_any_gateway_settles_what_another_one_popped(
    store: OperatedStore, cluster: RocketMqServer, clock: ManualClock
):
    await store.topology.put_topic(Topic("t", queues=1))
    await append(store, "t", "a", "b")
    found = handles(await pop(store, "t"))
    other = await open_second(cluster, clock)
    assert codes(await other.consumption.acknowledge("t", "g", found)) == [None, None]
    assert codes(await store.consumption.acknowledge("t", "g", found)) == [Code.INVALID_RECEIPT_HANDLE] * 2
    await other.close()


async def test_a_renewed_delivery_is_settled_with_the_handle_it_came_with(store: OperatedStore, clock: ManualClock):
    await store.topology.put_topic(Topic("t", queues=1))
    await append(store, "t", "a")
    [handle] = handles(await pop(store, "t", invisible_ms=10_000))
    for _ in range(3):
        assert codes(await store.consumption.change_invisible_duration("t", "g", [handle], 10_000, release=False)) == [
            None
        ]
        clock.advance(9_000)
    assert await pop(store, "t") == []
    assert codes(await store.consumption.acknowledge("t", "g", [handle])) == [None]
    clock.advance(60_000)
    assert await pop(store, "t") == []


async def test_a_handle_leads_to_no_place_that_the_route_does_not_name(store: OperatedStore, cluster: RocketMqServer):
    await store.topology.put_topic(Topic("t", queues=1))
    await append(store, "t", "a")
    [handle] = handles(await pop(store, "t"))
    forged = replace(ClusterHandle.decode(handle), broker="evil.example:80").encode()
    assert codes(await store.consumption.acknowledge("t", "g", [forged])) == [None], "it is asked where the topic is"
    assert len(cluster.asked("AckMessage")) == 1


async def test_dead_letters(store: OperatedStore, cluster: RocketMqServer):
    await store.topology.put_topic(Topic("t", queues=1))
    await append(store, "t", "a", "b")
    found = handles(await pop(store, "t"))
    assert codes(await store.consumption.reject("t", "g", found[:1])) == [None]
    [question] = cluster.asked("ForwardMessageToDeadLetterQueue")
    assert (question.delivery_attempt, question.max_delivery_attempts) == (1, 16)
    assert codes(await store.consumption.reject("t", "g", found[:1])) == [Code.INVALID_RECEIPT_HANDLE]
    cluster.accepts["%DLQ%g"] = (v2.NORMAL,)
    [dead] = await pop(store, "%DLQ%g", "mourner")
    assert (dead.message.topic, dead.message.body) == ("%DLQ%g", b"a")
    assert dead.message.system_text(SystemProperty.DEAD_LETTER_TOPIC) == "t"


async def test_a_settling_that_breaks_off_is_told_for_each_handle(store: OperatedStore, cluster: RocketMqServer):
    await store.topology.put_topic(Topic("t", queues=1))
    await append(store, "t", "a", "b")
    found = handles(await pop(store, "t"))
    cluster.faults["AckMessage"] = [grpc.StatusCode.UNAVAILABLE]
    assert codes(await store.consumption.acknowledge("t", "g", found)) == [Code.UNAVAILABLE] * 2


# -- timers, transactions --------------------------------------------------------------------------------------------


async def test_a_timed_message_is_recalled_by_its_sender(store: OperatedStore, clock: ManualClock):
    await store.topology.put_topic(Topic("t", queues=1))
    at = clock.now_ms() + 60_000
    one, two = (replace(message("t", b), system={SystemProperty.DELIVER_AT_MS: at}) for b in "ab")
    assert await append_all(store, one, two) == [None, None]
    assert await pop(store, "t") == []
    await store.timers.recall("t", one.message_id, at)
    assert await refusal_of(store.timers.recall("t", one.message_id, at)) == Code.OFFSET_NOT_FOUND
    clock.advance(60_000)
    assert bodies(await pop(store, "t", wait_ms=10_000)) == ["b"]
    assert await refusal_of(store.timers.recall("t", two.message_id, at)) == Code.OFFSET_NOT_FOUND


def half(body: str) -> Message:
    return replace(message("t", body), system={SystemProperty.TRANSACTION_ID: f"tx-{body}"})


async def test_a_transaction_is_committed_or_rolled_back(store: OperatedStore, cluster: RocketMqServer):
    await store.topology.put_topic(Topic("t", queues=1))
    assert await settled(store.transactions.append_half([half("a"), half("b")])) is None
    assert await pop(store, "t") == []
    ends = [TransactionEnd("t", "tx-a", True), TransactionEnd("t", "tx-b", False), TransactionEnd("t", "tx-c", True)]
    assert codes(await store.transactions.end_transactions(ends)) == [None, None, Code.INVALID_TRANSACTION_ID]
    assert bodies(await pop(store, "t")) == ["a"]
    assert {question.source for question in cluster.asked("EndTransaction")} == {v2.SOURCE_CLIENT}


async def test_a_cluster_asks_after_a_transaction(store: OperatedStore, cluster: RocketMqServer, clock: ManualClock):
    await store.topology.put_topic(Topic("t", queues=1))
    assert await settled(store.transactions.append_half([half("a")])) is None
    clock.advance(6_000)
    await cluster.check_transactions()
    asked = await until_checked(store)
    assert (asked.body, asked.system_text(SystemProperty.TRANSACTION_ID)) == (b"a", "tx-a")
    assert await store.transactions.take_checks(["t"], 10) == [], "it is asked once each time"
    assert codes(await store.transactions.end_transactions([TransactionEnd("t", "tx-a", True)])) == [None]
    [question] = cluster.asked("EndTransaction")
    assert question.source == v2.SOURCE_SERVER_CHECK
    assert bodies(await pop(store, "t")) == ["a"]


async def until_checked(store: OperatedStore) -> Any:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not (found := await store.transactions.take_checks(["t"], 10)):
            await asyncio.sleep(0.01)
    return found[0]


# -- who and what ----------------------------------------------------------------------------------------------------


async def test_calls_are_signed(clock: ManualClock):
    server = RocketMqServer(clock, accounts={"key": "secret"})
    await server.start()
    await server.put_topic(Topic("t", queues=1))
    place = [f"127.0.0.1:{server.port}"]
    signed = await open_rocketmq(place, clock, topics=["t"], access_key="key", secret="secret")
    assert await settled(signed.messages.append([message("t", "a")])) is None
    for access_key, secret in (("key", "wrong"), ("nobody", "secret"), ("", "")):
        opening = open_rocketmq(place, clock, topics=["t"], access_key=access_key, secret=secret)
        assert await refusal_of(opening) == Code.UNAUTHORIZED
    await signed.close()
    await server.close()


async def test_clients_say_what_they_are_and_goodbye(store: OperatedStore, cluster: RocketMqServer):
    await store.topology.put_topic(Topic("t", queues=1))
    await append(store, "t", "a")
    await pop(store, "t")
    await until(lambda: all(client.heartbeats for client in cluster.clients.values()), "heartbeats")
    kinds = {client.settings.client_type: client.settings for client in cluster.clients.values() if client.settings}
    assert [topic.name for topic in kinds[v2.PRODUCER].publishing.topics] == ["t"]
    assert kinds[v2.SIMPLE_CONSUMER].subscription.group.name == "g"
    await store.close()
    assert sorted(cluster.terminated) == sorted(cluster.clients)


async def test_names_of_a_namespace_are_resources_of_it(cluster: RocketMqServer, clock: ManualClock):
    for namespace in ("home", "team"):
        await cluster.brokers["broker-0"].topology.put_namespace(namespace)
        await cluster.put_topic(Topic(f"{namespace}/t", queues=1))
    at_home = await open_second(cluster, clock, namespace="home")
    await at_home.find_topics(["t", "team/t"])
    assert [topic.name for topic in at_home.topology.topics()] == ["t", "team/t"]
    assert at_home.topology.namespaces() == ["default", "team"]
    assert await settled(at_home.messages.append([message("t", "a"), message("team/t", "b")])) is None
    [one], [two] = await pop(at_home, "t"), await pop(at_home, "team/t", "team/g")  # type: ignore[arg-type]
    assert (one.message.topic, one.message.body) == ("t", b"a")
    assert (two.message.topic, two.message.body) == ("team/t", b"b")
    await at_home.close()


async def test_topics_are_what_the_cluster_has(cluster: RocketMqServer, clock: ManualClock):
    await cluster.put_topic(Topic("t", queues=3, permission=Permission.READ))
    opened = await open_rocketmq([f"127.0.0.1:{cluster.port}"], clock, route_refresh_ms=20)
    changed: list[str] = []
    opened.topology.watch_topics(changed.append)
    assert opened.topology.topic("t") is None and opened.topology.topics() == []
    assert await opened.topology.put_topic(Topic("t", queues=8)) == Topic("t", queues=3, permission=Permission.READ)
    assert await refusal_of(opened.topology.put_topic(Topic("no"))) == Code.UNSUPPORTED
    assert changed == ["t"]
    await cluster.put_topic(Topic("t", queues=4))
    await until(lambda: opened.topology.topic("t") == Topic("t", queues=4), "the route to be asked again")
    await cluster.brokers["broker-0"].topology.delete_topic("t")
    await until(lambda: opened.topology.topic("t") is None, "the topic to be forgotten")
    await opened.close()


async def test_what_the_protocol_cannot_carry_is_refused(
    store: OperatedStore, cluster: RocketMqServer, clock: ManualClock
):
    calls: list[Awaitable[Any]] = [
        store.finder.query(MessageQuery("t")),
        store.finder.messages_by_id(b"a"),
        store.finder.message_at(0),
        store.finder.message_consumers(StoredMessage("t", b"")),
        store.finder.message_trace(b"a"),
        store.timers.retime("t", b"a", 1, 2),
        store.timers.timed_messages(),
        store.consumption.resend_dead_letters("g", [0]),
        store.topology.delete_topic("t"),
        store.topology.put_namespace("n"),
        store.topology.delete_namespace("n"),
    ]
    for call in calls:
        assert await refusal_of(call) == Code.UNSUPPORTED
    alone = await open_second(cluster, clock)
    calls = [alone.key_values.get(["k"]), alone.key_values.scan("k"), alone.key_values.write([])]
    for call in calls:
        assert await refusal_of(call) == Code.UNSUPPORTED
    with pytest.raises(EntrepotError) as refused:
        alone.key_values.watch("k", print, print)
    assert refused.value.code == Code.UNSUPPORTED
    await alone.close()


async def test_a_server_without_the_offset_calls_says_so(store: OperatedStore, cluster: RocketMqServer):
    await store.topology.put_topic(Topic("t", queues=1))
    cluster.faults["QueryOffset"] = [grpc.StatusCode.UNIMPLEMENTED] * 2
    assert await refusal_of(store.messages.bounds("t")) == Code.UNSUPPORTED
