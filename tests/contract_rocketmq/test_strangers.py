"""Others in the same cluster: their producers' facts, their names, and RocketMQ's own topics."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from entrepot.domain.errors import Code, CorruptedError, EntrepotError
from entrepot.domain.message import SystemProperty
from entrepot.domain.query import MessageQuery
from entrepot.domain.topic import Topic
from entrepot.protocols.rocketmq.remoting import codes as asked_for
from entrepot.protocols.rocketmq.remoting.frames import Frame
from entrepot.protocols.rocketmq.remoting.messages import RECEIPT, properties_for, stored_message
from entrepot.protocols.rocketmq.remoting.names import Names
from entrepot.protocols.rocketmq.remoting.property_text import decode
from entrepot.protocols.rocketmq.remoting.receipts import PopReceipt, receipts_of
from entrepot.protocols.rocketmq.remoting.records import Record
from entrepot.store_client.rocketmq import RocketMqStore, reading
from tests.contract_rocketmq.conftest import settings_of
from tests.contract_rocketmq.operated import SettledStore
from tests.support.clock import ManualClock
from tests.support.rocketmq.server import RocketMqServer
from tests.support.stores.steps import append_all, bodies, message, pop, refusal_of

PLACED = {"startOffsetInfo": "0 1 7", "popTime": "100", "invisibleTime": "5000", "reviveQid": "3"}
PLANTED = {
    SystemProperty.RETRY_TOPIC: "others",
    SystemProperty.DEAD_LETTER_QUEUE: "3",
    SystemProperty.SENT_TO: "other-namespace/t",
    SystemProperty.CONTENT_TYPE: "text/plain",
}


@pytest.fixture
def engine() -> str:
    return "model"


@pytest.fixture
async def gateway(cluster: RocketMqServer, clock: ManualClock) -> AsyncIterator[RocketMqStore]:
    opened = RocketMqStore(settings_of(cluster), clock)
    await opened.start()
    yield opened
    await opened.close()


# -- facts that a producer plants ------------------------------------------------------------------------------------


def test_facts_of_our_own_store_are_not_taken_from_a_producer():
    sent = decode(properties_for(replace(message("t", "a"), system=PLANTED, message_id=b"i" * 16)))
    found = stored_message(Record("t", 0, 0, 0, b"a", sent), Names(), 0)
    assert found.system == {SystemProperty.CONTENT_TYPE: "text/plain"}


def test_each_message_of_a_batch_keeps_its_born_time():
    sent = decode(properties_for(replace(message("t", "a"), born_time_ms=17, properties=(("BORN_TIMESTAMP", "mine"),))))
    found = stored_message(Record("t", 0, 0, 0, b"a", sent, born_time_ms=99), Names(), 0)
    assert (found.born_time_ms, found.properties) == (17, (("BORN_TIMESTAMP", "mine"),))
    for odd in ("-1", "", "1" * 30, "soon"):
        record = Record("t", 0, 0, 0, b"a", {"BORN_TIMESTAMP": odd}, born_time_ms=99)
        assert stored_message(record, Names(), 0).born_time_ms == 99


@pytest.mark.parametrize(
    "planted",
    [
        "0 90 5000 7 0 broker-a 1 2",  # of no retry topic
        "0 90 5000 7 1 broker-a 1 9",  # another message's
        "0 90 5000 7 1 broker-b 1 2",
        "rubbish",
    ],
)
def test_a_planted_receipt_is_not_taken(planted: str):
    record = Record("t", 1, 2, 3, b"a", {RECEIPT: planted})
    [(receipt, attempt)] = receipts_of(Frame(0, 1, dict(PLACED)), [record], "broker-a")
    assert (receipt.text, attempt) == ("7 100 5000 3 0 broker-a 1 2 3", 1)


@pytest.mark.parametrize("text", ["0 90 5000 7 5 b 1 2", f"0 90 5000 7 0 b 1 {1 << 70}"])
def test_a_receipt_that_no_broker_makes_is_refused(text: str):
    with pytest.raises(EntrepotError) as refused:
        PopReceipt.parse(text)
    assert refused.value.code is Code.INVALID_RECEIPT_HANDLE


# -- names -----------------------------------------------------------------------------------------------------------


async def test_rocketmqs_own_topics_are_nobodys(store: SettledStore, cluster: RocketMqServer):
    """Half messages of all producers lie in one of them."""
    for name in ("RMQ_SYS_TRANS_HALF_TOPIC", "TBW102", "SCHEDULE_TOPIC_XXXX"):
        await cluster.put_topic(Topic(name, queues=1))
        assert await refusal_of(store.messages.read(name, 0, 0, 1)) is Code.TOPIC_NOT_FOUND
        assert await refusal_of(pop(store, name)) is Code.TOPIC_NOT_FOUND
    assert [topic.name for topic in store.topology.topics()] == []


async def test_a_record_of_rocketmqs_own_topics_is_not_shown(store: SettledStore, cluster: RocketMqServer):
    await store.topology.put_topic(Topic("t", queues=1))
    assert await append_all(store, message("t", "a")) == [None]
    [found] = await store.messages.read("t", 0, 0, 1)
    assert (await store.finder.message_at(found.commit_log_offset)).body == b"a"
    store._cluster.own_names.add(store._cluster.names.resource("t"))
    assert await refusal_of(store.finder.message_at(found.commit_log_offset)) is Code.OFFSET_NOT_FOUND


def test_a_name_has_one_resource():
    names = Names("INST")
    assert names.is_ours("INST%t") and names.is_ours("other%t") and names.is_ours("%DLQ%INST%g")
    assert not names.is_ours("t"), "our own t is INST%t"
    with pytest.raises(EntrepotError) as refused:
        names.resource("INST/t")
    assert refused.value.code is Code.ILLEGAL_TOPIC


# -- a look at a cluster takes a while -------------------------------------------------------------------------------


async def test_a_topic_that_was_deleted_during_a_look_is_not_back(
    gateway: RocketMqStore, cluster: RocketMqServer, monkeypatch: pytest.MonkeyPatch
):
    await gateway.topology.put_topic(Topic("t", queues=1))
    catalog = gateway._catalog
    asked = catalog.topics_of

    async def asked_before_it_was_deleted(address: str) -> dict[str, object]:
        told = await asked(address)
        await gateway.topology.delete_topic("t")
        return told

    monkeypatch.setattr(catalog, "topics_of", asked_before_it_was_deleted)
    await catalog.look()
    assert gateway.topology.topics() == []
    monkeypatch.undo()
    await catalog.look()
    assert gateway.topology.topics() == []


async def test_a_listing_steps_over_a_message_that_cannot_be_read(store: SettledStore, monkeypatch: pytest.MonkeyPatch):
    await store.topology.put_topic(Topic("t", queues=1))
    assert await append_all(store, *(message("t", str(i)) for i in range(4))) == [None] * 4

    def stored(record: Record, *others: object, **more: object) -> object:
        if record.queue_offset in (0, 2):
            raise CorruptedError("its body is damaged")
        return stored_message(record, *others, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(reading, "stored_message", stored)
    page = await store.finder.query(MessageQuery("t", limit=10))
    assert bodies(page.messages) == ["3", "1"]


async def test_a_broker_that_holds_no_more_polls_is_not_asked_at_full_speed(
    store: SettledStore, cluster: RocketMqServer
):
    await store.topology.put_topic(Topic("t", queues=1))
    cluster.faults[asked_for.POP] = [asked_for.POLLING_FULL] * 1000
    assert bodies(await pop(store, "t", wait_ms=900)) == []
    assert 0 < len(cluster.asked(asked_for.POP)) < 10
