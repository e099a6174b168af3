"""A store in front of a cluster alone: batches, brokers, broken connections, deadlines, signatures."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from entrepot.domain.definitions.consumer_group import ConsumerGroup
from entrepot.domain.errors import AWAY, Code, EntrepotError
from entrepot.domain.expression.filter import FilterExpression, FilterKind
from entrepot.domain.message import Message, SystemProperty
from entrepot.domain.ports import PopRequest
from entrepot.domain.position import Position, PositionKind
from entrepot.domain.query import MessageQuery
from entrepot.domain.topic import Cleanup, Permission, Topic
from entrepot.domain.transaction import TransactionEnd
from entrepot.protocols.rocketmq.cluster_handle import ClusterHandle
from entrepot.protocols.rocketmq.remoting import codes as asked_for
from entrepot.protocols.rocketmq.remoting.receipts import PopReceipt
from entrepot.store_client.rocketmq import RocketMqStore, open_rocketmq
from tests.contract_rocketmq.conftest import settings_of
from tests.contract_rocketmq.operated import SettledStore, full_message
from tests.support.clock import ManualClock
from tests.support.processes.certificates import TestAuthority
from tests.support.processes.ports import free_port
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
async def second(cluster: RocketMqServer, clock: ManualClock) -> AsyncIterator[RocketMqStore]:
    """Another gateway's store."""
    opened = RocketMqStore(settings_of(cluster), clock)
    await opened.start()
    yield opened
    await opened.close()


async def opened(cluster: RocketMqServer, clock: ManualClock, **others: Any) -> RocketMqStore:
    store = RocketMqStore(settings_of(cluster, **others), clock)
    await store.start()
    return store


async def known(store: RocketMqStore, name: str = "t", queues: int = 1) -> None:
    await store.topology.put_topic(Topic(name, queues=queues))


# -- sending ---------------------------------------------------------------------------------------------------------


async def test_a_message_comes_back_as_it_was_sent(store: SettledStore):
    await known(store)
    sent = full_message()
    assert await append_all(store, sent) == [None]
    [found] = await pop(store, "t")
    for name in Message.__slots__:
        if name != "filter_hash":
            assert getattr(found.message, name) == getattr(sent, name), name


async def test_an_empty_body_comes_through(store: SettledStore):
    await known(store)
    assert await append_all(store, replace(message("t", b""), message_id=b"1")) == [None]
    assert bodies(await pop(store, "t")) == [""]


async def test_what_comes_while_a_request_is_under_way_goes_together(store: SettledStore, cluster: RocketMqServer):
    await known(store)
    confirmations = [store.messages.append([message("t", str(i))]) for i in range(100)]
    assert [await settled(each) for each in confirmations] == [None] * 100
    sends = len(cluster.asked(asked_for.SEND)) + len(cluster.asked(asked_for.SEND_BATCH))
    assert sends <= 4, "one queue has one request under way"
    found = await store.messages.read("t", 0, 0, 100)
    assert [each.body for each in found] == [str(i).encode() for i in range(100)]


async def test_an_odd_message_is_refused_alone(store: SettledStore, cluster: RocketMqServer):
    await known(store)
    odd = replace(message("t", bytes((4 << 20) + 1)), message_id=b"odd")
    outcomes = await append_all(store, message("t", "a"), odd, message("t", "b"))
    assert outcomes == [None, Code.MESSAGE_BODY_TOO_LARGE, None]
    assert bodies(await pop(store, "t")) == ["a", "b"]


async def test_a_fault_of_ours_at_one_message_harms_no_other(store: SettledStore):
    """Later messages are confirmed, too: batches are confirmed in their order."""
    await known(store)
    odd = replace(message("t", "odd"), properties=((object(), "no text"),))  # type: ignore[arg-type]
    assert await append_all(store, message("t", "a"), odd, message("t", "b")) == [None, Code.INTERNAL_ERROR, None]
    assert await append_all(store, message("t", "c")) == [None]
    assert bodies(await pop(store, "t")) == ["a", "b", "c"]


async def test_properties_as_lists_go_like_others(store: SettledStore):
    """A will comes so from the record of its session."""
    await known(store)
    kept = replace(message("t", "will"), properties=[["a", "1"], ["b", "2"]])  # type: ignore[arg-type]
    assert await append_all(store, kept) == [None]
    [found] = await pop(store, "t")
    assert found.message.properties == (("a", "1"), ("b", "2"))


async def test_a_message_that_fits_no_frame_is_refused_at_once(store: SettledStore, cluster: RocketMqServer):
    await known(store)
    assert await append_all(store, message("t", bytes(16 << 20))) == [Code.MESSAGE_BODY_TOO_LARGE]
    many = tuple((f"name-{i}", "v" * 1000) for i in range(40))
    outcome = await append_all(store, replace(message("t", "b"), properties=many))
    assert outcome == [Code.MESSAGE_PROPERTIES_TOO_LARGE]
    assert not cluster.asked(asked_for.SEND)


async def test_a_batch_never_holds_what_is_timed(store: SettledStore, cluster: RocketMqServer, clock: ManualClock):
    """RocketMQ would deliver nothing that is timed any more: the model fails the test."""
    await known(store)
    later = {SystemProperty.DELIVER_AT_MS: clock.now_ms() + 60_000}
    timed = [replace(message("t", f"later{i}"), system=later) for i in range(3)]
    assert await append_all(store, *timed, *(message("t", str(i)) for i in range(3))) == [None] * 6
    assert len(cluster.asked(asked_for.SEND)) == 3
    assert all("TIMER" not in request.fields["i"] for request in cluster.asked(asked_for.SEND_BATCH))


async def test_a_batch_goes_to_all_brokers(clock: ManualClock):
    cluster = RocketMqServer(clock, 2)
    await cluster.start()
    store = await opened(cluster, clock)
    await known(store, queues=2)
    sent = [message("t", str(i), -1) for i in range(8)]
    confirmation = store.messages.append(sent)
    assert await settled(confirmation) is None and confirmation.refusals == [None] * 8
    bounds = {each.queue_id: each.max_offset for each in await store.messages.bounds("t")}
    assert bounds == {0: 2, 1: 2, 10_000: 2, 10_001: 2}
    places = {each.commit_log_offset >> 44 for q in bounds for each in await store.messages.read("t", q, 0, 9)}
    assert places == {0, 1}, "each broker has a log of its own"
    found = await store.consumption.pop(pop_request(8))
    assert sorted(bodies(found)) == [str(i) for i in range(8)]
    assert codes(await store.consumption.acknowledge("t", "g", handles(found))) == [None] * 8
    await store.close()
    await cluster.close()


def pop_request(count: int) -> PopRequest:
    return PopRequest("t", "g", count, 1_000)


@pytest.mark.parametrize(
    ("code", "refusal"),
    [(14, Code.STORAGE_FULL), (2, Code.TOO_MANY_REQUESTS), (215, Code.TOO_MANY_REQUESTS), (16, Code.FORBIDDEN)],
)
async def test_a_refusal_of_the_cluster_stands_at_its_message(
    store: SettledStore, cluster: RocketMqServer, code: int, refusal: Code
):
    await known(store)
    cluster.faults[asked_for.SEND] = [code]
    assert await append_all(store, message("t", "a")) == [refusal]
    assert await append_all(store, message("t", "b")) == [None]


async def test_less_safe_than_promised_is_unknown_unless_that_is_enough(
    store: SettledStore, cluster: RocketMqServer, clock: ManualClock
):
    await known(store)
    cluster.faults[asked_for.SEND] = [(10,)]
    failure = await settled(store.messages.append([message("t", "a")]))
    assert failure is not None and failure.code == Code.OUTCOME_UNKNOWN
    easy = await opened(cluster, clock, confirms_less_safe=True)
    cluster.faults[asked_for.SEND] = [(12,)]
    assert await settled(easy.messages.append([message("t", "b")])) is None
    assert [each.body for each in await store.messages.read("t", 0, 0, 9)] == [b"a", b"b"], "both are stored"
    await easy.close()


async def test_a_message_for_further_queues_is_one_in_each(store: SettledStore, clock: ManualClock):
    for name in ("t", "other"):
        await known(store, name)
    sent = replace(message("t", "a"), message_id=b"1" * 16, further_queues=(("other", 0),))
    assert await append_all(store, sent) == [None]
    for name in ("t", "other"):
        [found] = await store.messages.read(name, 0, 0, 9)
        assert (found.topic, found.body, found.message_id, found.system) == ("t", b"a", sent.message_id, {})
        [popped] = await pop(store, name)
        assert (popped.message.topic, popped.message.body) == ("t", b"a")
        assert codes(await store.consumption.acknowledge(name, "g", handles([popped]))) == [None]
    absent = replace(message("t", "b"), further_queues=(("other", 0), ("absent", 0)))
    assert await append_all(store, absent) == [Code.TOPIC_NOT_FOUND]
    assert len(await store.messages.read("other", 0, 0, 9)) == 1, "it is refused as a whole"
    at = clock.now_ms() + 60_000
    timed = replace(sent, message_id=b"2" * 16, system={SystemProperty.DELIVER_AT_MS: at})
    assert await append_all(store, timed) == [None]
    await store.timers.recall("t", timed.message_id, at)
    clock.advance(120_000)
    assert [await pop(store, name) for name in ("t", "other")] == [[], []]


async def test_a_broken_connection_leaves_the_outcome_unknown(store: SettledStore, cluster: RocketMqServer):
    await known(store)
    cluster.faults[asked_for.SEND] = ["break"]
    failure = await settled(store.messages.append([message("t", "stored")]))
    assert failure is not None and failure.code == Code.OUTCOME_UNKNOWN and "unknown outcome" in failure.message
    assert await append_all(store, message("t", "next")) == [None]
    assert bodies(await pop(store, "t")) == ["stored", "next"], "and nothing was repeated"


async def test_a_fault_of_who_waits_harms_no_other(store: SettledStore):
    await known(store)
    sent = store.own_messages.append
    first, second = sent([message("t", "a")]), sent([message("t", "b")])

    def fail(failure: EntrepotError | None) -> None:
        raise ValueError("a fault of who waits")

    first.when_settled(fail)
    assert await settled(second) is None
    assert await append_all(store, message("t", "c")) == [None]


async def test_a_deadline_leaves_the_outcome_unknown(cluster: RocketMqServer, clock: ManualClock):
    store = await opened(cluster, clock, request_timeout_ms=300)
    await known(store)
    cluster.faults[asked_for.SEND] = ["hang"]
    failure = await settled(store.messages.append([message("t", "a")]))
    assert failure is not None and failure.code == Code.REQUEST_TIMEOUT and "unknown outcome" in failure.message
    await store.close()


async def test_a_server_that_leaves_is_asked_again_over_a_new_connection(store: SettledStore, cluster: RocketMqServer):
    await known(store)
    cluster.faults[asked_for.SEND] = [asked_for.GO_AWAY]
    assert await append_all(store, message("t", "a")) == [None]
    assert bodies(await pop(store, "t")) == ["a"]


async def test_a_cluster_that_was_away_is_found_again(store: SettledStore, cluster: RocketMqServer):
    await known(store)
    await cluster.stop()

    async def is_stored(body: str) -> bool:
        confirmation = store.messages.append([message("t", body)])
        failure = await settled(confirmation)
        return failure is None and not any(confirmation.refusals or ())

    assert not await is_stored("lost")
    await cluster.start()
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not await is_stored("back"):
            await asyncio.sleep(0.01)
    assert bodies(await pop(store, "t")) == ["back"]


async def test_no_cluster_at_all(clock: ManualClock):
    assert await refusal_of(open_rocketmq([f"127.0.0.1:{free_port()}"], clock)) == Code.UNAVAILABLE
    assert await refusal_of(open_rocketmq(["127.0.0.1"], clock)) == Code.BAD_REQUEST


async def test_the_next_name_server_is_asked(cluster: RocketMqServer, clock: ManualClock):
    servers = [f"127.0.0.1:{free_port()}", f"127.0.0.1:{cluster.port}"]
    store = await open_rocketmq(servers, clock)
    await store.topology.put_topic(Topic("t"))
    assert store.topology.topics() == [Topic("t")]
    await store.close()


async def test_brokers_may_be_reached_at_other_places(cluster: RocketMqServer, clock: ManualClock):
    await cluster.put_topic(Topic("t", queues=1))
    told = f"127.0.0.1:{cluster.at['broker-0'].port}"
    elsewhere = await opened(cluster, clock)
    await elsewhere.close()
    away = {"addresses": {told: f"127.0.0.1:{free_port()}"}}
    assert await refusal_of(opened(cluster, clock, **away)) == Code.UNAVAILABLE


# -- receiving -------------------------------------------------------------------------------------------------------


async def test_what_came_too_late_is_for_the_next_pop(store: SettledStore, cluster: RocketMqServer):
    await known(store)
    waiting = asyncio.create_task(pop(store, "t", wait_ms=LONG_POLL_MS))
    await until(lambda: cluster.asked(asked_for.POP), "it is asked")
    waiting.cancel()
    await append(store, "t", "late")
    assert bodies(await pop(store, "t", wait_ms=LONG_POLL_MS)) == ["late"]
    assert len(cluster.asked(asked_for.POP)) == 1


async def test_what_nobody_fetches_is_given_back(cluster: RocketMqServer, clock: ManualClock):
    store = await opened(cluster, clock, keep_ms=10)
    await known(store)
    waiting = asyncio.create_task(store.consumption.pop(replace(pop_request(1), wait_ms=LONG_POLL_MS)))
    await until(lambda: cluster.asked(asked_for.POP), "it is asked")
    waiting.cancel()
    assert await settled(store.messages.append([message("t", "late", -1)])) is None
    await until(lambda: cluster.asked(asked_for.CHANGE_INVISIBLE), "it is given back")
    await store.close()


async def test_a_pop_of_several_brokers_has_what_one_has(clock: ManualClock):
    cluster = RocketMqServer(clock, 2)
    await cluster.start()
    store = await opened(cluster, clock)
    await known(store)
    assert await settled(store.messages.append([message("t", "there", 10_000)])) is None
    assert bodies(await store.consumption.pop(replace(pop_request(5), wait_ms=LONG_POLL_MS))) == ["there"]
    cluster.at["broker-0"].listener.close()
    await store.close()
    await cluster.close()


async def test_tags_go_to_the_broker_and_other_filters_are_ours(store: SettledStore, cluster: RocketMqServer):
    await known(store)
    sent = [
        replace(message("t", body), tag=tag, sub_topic=f"t/{tag}", properties=(("price", price),))
        for body, tag, price in (("1", "red", "10.5"), ("2", "blue", "9"))
    ]
    assert await append_all(store, *sent) == [None, None]
    for group, kind, text, wire in (
        ("tags", FilterKind.TAG, "red", "red"),
        ("sql", FilterKind.SQL92, "price > 10", "*"),
        ("names", FilterKind.SUB_TOPIC, "t/red", "*"),
    ):
        wanted = FilterExpression(kind, text)
        request = PopRequest("t", group, 10, filter=wanted)
        assert bodies(await store.consumption.pop(request)) == ["1"], group
        assert cluster.asked(asked_for.POP)[-1].fields["exp"] == wire


# -- settling --------------------------------------------------------------------------------------------------------


async def test_any_gateway_settles_what_another_one_popped(
    store: SettledStore, second: RocketMqStore, clock: ManualClock
):
    await known(store)
    await append(store, "t", "a", "b", "c")
    taken = handles(await pop(store, "t"))
    assert codes(await second.consumption.acknowledge("t", "g", taken)) == [None] * 3
    clock.advance(3_600_000)
    assert await pop(store, "t") == []


async def test_many_acknowledgements_are_one_request(store: SettledStore, cluster: RocketMqServer):
    await known(store)
    await append(store, "t", *map(str, range(20)))
    taken = handles(await pop(store, "t", count=20))
    assert codes(await store.consumption.acknowledge("t", "g", taken)) == [None] * 20
    assert (len(cluster.asked(asked_for.BATCH_ACK)), len(cluster.asked(asked_for.ACK))) == (1, 0)
    status = await store.topology.group_status("g")
    assert [(each.committed_offset, each.lag) for each in status.progress] == [(20, 0)]


async def test_a_renewed_delivery_is_settled_with_the_handle_it_came_with(store: SettledStore, clock: ManualClock):
    await known(store)
    await append(store, "t", "a")
    [old] = handles(await pop(store, "t", invisible_ms=1_000))
    change = store.consumption.change_invisible_duration
    assert codes(await change("t", "g", [old], 60_000, release=False)) == [None]
    clock.advance(30_000)
    assert await pop(store, "t") == []
    assert codes(await store.consumption.acknowledge("t", "g", [old])) == [None]
    clock.advance(600_000)
    assert await pop(store, "t") == []


async def test_a_delivery_settles_what_its_handle_does(store: SettledStore, clock: ManualClock):
    """A gateway settles its own deliveries without their texts, until somebody has asked for these."""
    await known(store)
    await append(store, "t", "a", "b", "c", "d")
    acknowledge, change = store.consumption.acknowledge, store.consumption.change_invisible_duration
    first, second, third, fourth = await pop(store, "t", invisible_ms=1_000)
    assert codes(await acknowledge("t", "another", [fourth])) == [Code.INVALID_RECEIPT_HANDLE]
    assert codes(await acknowledge("u", "g", [fourth])) == [Code.INVALID_RECEIPT_HANDLE]
    assert codes(await change("t", "g", [second], 60_000, release=False)) == [None]
    assert codes(await change("t", "g", [third], 0, release=True)) == [None]
    assert codes(await acknowledge("t", "g", [first, second, third])) == [None, None, Code.INVALID_RECEIPT_HANDLE]
    clock.advance(600_000)
    assert sorted(bodies(await pop(store, "t"))) == ["c", "d"]


async def test_one_that_comes_again_is_settled_in_its_retry_topic(store: SettledStore, clock: ManualClock):
    """The model fails a request for the wrong topic."""
    await known(store)
    await append(store, "t", "a")
    await pop(store, "t", invisible_ms=1_000)
    clock.advance(2_000)
    [again] = await pop(store, "t", invisible_ms=1_000)
    assert again.attempt == 2
    assert codes(await store.consumption.acknowledge("t", "g", handles([again]))) == [None]
    clock.advance(600_000)
    assert await pop(store, "t") == []


async def test_a_handle_leads_to_no_place_that_the_cluster_does_not_name(store: SettledStore):
    await known(store)
    await append(store, "t", "a")
    [text] = handles(await pop(store, "t"))
    elsewhere = replace(ClusterHandle.decode(text), broker="evil:1").encode()
    assert codes(await store.consumption.acknowledge("t", "g", [elsewhere])) == [Code.INVALID_RECEIPT_HANDLE]
    receipt = replace(PopReceipt.parse(ClusterHandle.decode(text).receipt_handle), broker="evil:1").text
    unknown = replace(ClusterHandle.decode(elsewhere), receipt_handle=receipt).encode()
    assert codes(await store.consumption.acknowledge("t", "g", [unknown])) == [Code.UNAVAILABLE]
    forged = replace(ClusterHandle.decode(text), receipt_handle="1 2 3").encode()
    assert codes(await store.consumption.acknowledge("t", "g", [forged])) == [Code.INVALID_RECEIPT_HANDLE]


async def test_a_forged_handle_makes_no_dead_letter_of_anothers_message(store: SettledStore):
    """A broker copies whatever lies at an offset of its log."""
    for name in ("t", "secret"):
        await known(store, name)
    await append(store, "t", "a")
    await append(store, "secret", "b")
    [secret] = await store.messages.read("secret", 0, 0, 1)
    [text] = handles(await pop(store, "t"))
    handle = ClusterHandle.decode(text)
    for place in (secret.commit_log_offset, secret.commit_log_offset + 1, -1):
        receipt = replace(PopReceipt.parse(handle.receipt_handle), commit_log_offset=place)
        forged = replace(handle, receipt_handle=receipt.text).encode()
        assert codes(await store.consumption.reject("t", "g", [forged])) == [Code.INVALID_RECEIPT_HANDLE]
    await store._catalog.look()
    assert store.topology.topic("%DLQ%g") is None


async def test_a_forged_handle_with_a_far_offset_costs_nothing(store: SettledStore, cluster: RocketMqServer):
    await known(store)
    await append(store, "t", "a", "b")
    one, other = handles(await pop(store, "t"))
    handle = ClusterHandle.decode(one)
    far = replace(PopReceipt.parse(handle.receipt_handle), offset=(1 << 62), start_offset=-(1 << 62))
    forged = replace(handle, receipt_handle=far.text).encode()
    await store.consumption.acknowledge("t", "g", [forged, other])
    assert not cluster.asked(asked_for.BATCH_ACK)


async def test_dead_letters_tell_where_they_come_from(store: SettledStore):
    await known(store)
    await append(store, "t", "bad")
    taken = handles(await pop(store, "t"))
    assert codes(await store.consumption.reject("t", "g", taken)) == [None]
    await store._catalog.look()
    [dead] = await pop(store, "%DLQ%g", "mourners")
    assert (dead.message.topic, dead.message.body) == ("%DLQ%g", b"bad")
    assert dead.message.system_text(SystemProperty.DEAD_LETTER_TOPIC) == "t"


# -- timers, transactions --------------------------------------------------------------------------------------------


async def test_any_gateway_recalls_a_timed_message(store: SettledStore, second: RocketMqStore, clock: ManualClock):
    await known(store)
    at = clock.now_ms() + 60_000
    timed = replace(message("t", "a"), message_id=b"1" * 16, system={SystemProperty.DELIVER_AT_MS: at})
    assert await append_all(store, timed) == [None]
    await second.topology.put_topic(Topic("t", queues=1))
    await second.timers.recall("t", timed.message_id, at)
    clock.advance(120_000)
    assert await pop(store, "t") == []
    assert await refusal_of(second.timers.recall("t", timed.message_id, at)) == Code.OFFSET_NOT_FOUND


def half(body: str) -> Message:
    return replace(message("t", body), system={SystemProperty.TRANSACTION_ID: f"tx-{body}"})


async def test_a_transaction_is_committed_or_rolled_back(store: SettledStore):
    await known(store)
    assert await settled(store.transactions.append_half([half("a"), half("b")])) is None
    ends = [TransactionEnd("t", "tx-a", True), TransactionEnd("t", "tx-b", False)]
    assert codes(await store.transactions.end_transactions(ends)) == [None, None]
    assert bodies(await pop(store, "t")) == ["a"]


async def test_a_commit_whose_answer_is_lost_is_not_repeated(store: SettledStore, cluster: RocketMqServer):
    """RocketMQ would deliver the message twice."""
    await known(store)
    assert await settled(store.transactions.append_half([half("a")])) is None
    cluster.faults[asked_for.END_TRANSACTION] = ["break"]
    end = TransactionEnd("t", "tx-a", True)
    assert codes(await store.transactions.end_transactions([end])) == [Code.OUTCOME_UNKNOWN]
    assert codes(await store.transactions.end_transactions([end])) == [Code.INVALID_TRANSACTION_ID]
    assert len(cluster.asked(asked_for.END_TRANSACTION)) == 1


async def test_any_gateway_is_asked_after_a_transaction(
    store: SettledStore, second: RocketMqStore, cluster: RocketMqServer, clock: ManualClock
):
    await known(store)
    assert await settled(store.transactions.append_half([half("a")])) is None
    await second.transactions.take_checks([], 0)
    await until(lambda: len(cluster.asked(asked_for.HEARTBEAT)) >= 2, "both are known as producers")
    clock.advance(600_000)
    await cluster.check_transactions()
    [asked] = await _checks(second)
    assert (asked.body, asked.system_text(SystemProperty.TRANSACTION_ID)) == (b"a", "tx-a")
    assert codes(await second.transactions.end_transactions([TransactionEnd("t", "tx-a", True)])) == [None]
    assert bodies(await pop(store, "t")) == ["a"]


async def _checks(store: RocketMqStore) -> list[Any]:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not (found := await store.transactions.take_checks(["t"], 10)):
            await asyncio.sleep(0.01)
    return list(found)


# -- topics and groups -----------------------------------------------------------------------------------------------


async def test_topics_and_groups_are_made_changed_and_deleted(store: SettledStore, second: RocketMqStore):
    made = await store.topology.put_topic(Topic("t", queues=4, write_queues=2, permission=Permission.READ_WRITE))
    assert (made.queues, made.write_queues) == (4, 2)
    assert [*store.topology.queues(made).writable] == [0, 1]
    await store.topology.put_group(ConsumerGroup("g", max_attempts=5, fifo=True))
    await second._catalog.look()
    assert second.topology.topic("t") == made
    group = second.topology.group("g")
    assert group is not None and (group.max_attempts, group.fifo) == (5, True)
    await second.topology.delete_group("g")
    await second.topology.delete_topic("t")
    await store._catalog.look()
    assert store.topology.topic("t") is None
    assert await refusal_of(store.topology.topic_status("t")) == Code.TOPIC_NOT_FOUND


async def test_a_topic_whose_messages_a_group_waits_for_keeps_its_queues(store: SettledStore):
    await known(store, queues=2)
    assert await append_all(store, message("t", "a", 1)) == [None]
    await store.topology.put_group(ConsumerGroup("g"))
    [taken] = await pop(store, "t")
    assert await refusal_of(store.topology.put_topic(Topic("t", queues=1))) == Code.PRECONDITION_FAILED
    await store.consumption.acknowledge("t", "g", handles([taken]))
    assert (await store.topology.put_topic(Topic("t", queues=1))).queues == 1


async def test_brokers_without_mixed_topics_get_normal_ones(store: SettledStore, cluster: RocketMqServer):
    cluster.takes_mixed = False
    await known(store)
    assert cluster.at["broker-0"].types["t"] == "NORMAL"


async def test_watchers_hear_of_an_operators_topics(store: SettledStore, cluster: RocketMqServer):
    heard: list[str] = []
    stop = store.topology.watch_topics(heard.append)
    await cluster.put_topic(Topic("made", queues=3))
    await store._catalog.look()
    assert heard == ["made"] and store.topology.topic("made") == Topic("made", queues=3)
    stop()


async def test_namespaces_are_before_the_names(store: SettledStore, cluster: RocketMqServer):
    await cluster.brokers["broker-0"].topology.put_namespace("team")
    await known(store, "team/t")
    assert await append_all(store, message("team/t", "a")) == [None]
    assert cluster.asked(asked_for.SEND)[0].fields["b"] == "team%t"
    assert bodies(await pop(store, "team/t", "team/g")) == ["a"]
    assert store.topology.namespaces() == ["default", "team"]
    assert await refusal_of(known(store, "team%t")) == Code.ILLEGAL_TOPIC


async def test_the_default_namespace_may_have_a_name(cluster: RocketMqServer, clock: ManualClock):
    await cluster.brokers["broker-0"].topology.put_namespace("INST")
    store = await opened(cluster, clock, namespace="INST")
    await known(store)
    assert await settled(store.messages.append([message("t", "a", -1)])) is None
    assert cluster.asked(asked_for.SEND)[0].fields["b"] == "INST%t"
    assert bodies(await store.consumption.pop(pop_request(1))) == ["a"]
    await store.close()


# -- who and what ----------------------------------------------------------------------------------------------------


async def test_requests_are_signed(clock: ManualClock):
    cluster = RocketMqServer(clock, accounts={"key": "secret"})
    await cluster.start()
    address = f"127.0.0.1:{cluster.port}"
    store = await open_rocketmq([address], clock, access_key="key", secret="secret")
    await store.topology.put_topic(Topic("t", queues=1))
    assert await settled(store.messages.append([message("t", "ü")])) is None
    await store.close()
    for key in ("key", ""):
        assert await refusal_of(open_rocketmq([address], clock, access_key=key, secret="other")) == Code.FORBIDDEN
    await cluster.close()


async def test_tls_is_spoken_to_servers_that_are_trusted(clock: ManualClock, tmp_path: Path):
    authority, other = TestAuthority(tmp_path), TestAuthority(tmp_path.parent)
    shown = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    shown.load_cert_chain(authority.issue("broker"))
    cluster = RocketMqServer(clock, tls=shown)
    await cluster.start()
    address = f"127.0.0.1:{cluster.port}"
    store = await open_rocketmq([address], clock, tls=authority.client_context())
    await store.topology.put_topic(Topic("t", queues=1))
    assert await settled(store.messages.append([message("t", "a")])) is None
    await store.close()
    for tls in (other.client_context(), None):
        refused = open_rocketmq([address], clock, tls=tls, request_timeout_ms=1_000)
        assert await refusal_of(refused) in AWAY
    await cluster.close()


async def test_messages_are_looked_up(store: SettledStore):
    await known(store)
    sent = [replace(message("t", str(i)), keys=("k",), message_id=bytes([i]) * 16) for i in range(5)]
    assert await append_all(store, *sent) == [None] * 5
    first = await store.finder.query(MessageQuery("t", key="k", limit=3))
    rest = await store.finder.query(MessageQuery("t", key="k", limit=3, cursor=first.next))
    assert [m.body for m in first.messages + rest.messages] == [b"4", b"3", b"2", b"1", b"0"]
    assert rest.next is None
    [found] = await store.finder.messages_by_id(sent[2].message_id)
    assert (await store.finder.message_at(found.commit_log_offset)).body == b"2"
    assert await refusal_of(store.finder.message_at(1 << 60)) == Code.OFFSET_NOT_FOUND
    assert await refusal_of(store.finder.query(MessageQuery("t", cursor="?"))) == Code.BAD_REQUEST


@pytest.mark.parametrize(
    "ask",
    [
        lambda s: s.key_values.get(["k"]),
        lambda s: s.timers.retime("t", b"1", 1, 2),
        lambda s: s.timers.timed_messages(),
        lambda s: s.transactions.half_messages(),
        lambda s: s.finder.message_trace(b"1"),
        lambda s: s.finder.record_origin(0),
        lambda s: s.topology.put_namespace("empty"),
        lambda s: s.topology.put_topic(Topic("c", cleanup=Cleanup.COMPACT)),
    ],
)
async def test_what_a_cluster_cannot_carry_is_refused(cluster: RocketMqServer, clock: ManualClock, ask: Any):
    store = await opened(cluster, clock)
    refused: Awaitable[Any] = ask(store)
    assert await refusal_of(refused) == Code.UNSUPPORTED
    await store.close()


async def test_a_group_is_reset_to_a_position(store: SettledStore, clock: ManualClock):
    await known(store)
    await append(store, "t", "a", "b", "c")
    assert len(await pop(store, "t", invisible_ms=600_000)) == 3
    await store.consumption.reset_group("g", "t", Position(PositionKind.OFFSET, 1))
    assert bodies(await pop(store, "t")) == ["b", "c"]
    with pytest.raises(EntrepotError):
        await store.consumption.reset_group("nobody", "t", Position(PositionKind.EARLIEST, 0))
