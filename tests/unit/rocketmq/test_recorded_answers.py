"""Answers that Apache RocketMQ 5.5.0 gave, byte for byte: one of each kind that a gateway's store asks for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from entrepot.protocols.rocketmq.remoting import codes, dialect
from entrepot.protocols.rocketmq.remoting.frames import SUCCESS, Frame, FrameReader
from entrepot.protocols.rocketmq.remoting.message_ids import place_of
from entrepot.protocols.rocketmq.remoting.messages import stored_message
from entrepot.protocols.rocketmq.remoting.names import Names
from entrepot.protocols.rocketmq.remoting.receipts import PopReceipt, receipts_of
from entrepot.protocols.rocketmq.remoting.records import decode_records, encode_record
from entrepot.store_client.rocketmq.routes import broker_of_topic

FILE = Path(__file__).parents[2] / "fixtures" / "rocketmq" / "answers.jsonl"
WITH_RECORDS = (codes.PULL, codes.QUERY, codes.VIEW, codes.POP, codes.CHECK_TRANSACTION)
WITH_JSON = (
    *(codes.ROUTE, codes.CLUSTER_INFO, codes.ALL_TOPIC_CONFIG, codes.ALL_GROUPS, codes.CONSUME_STATS),
    *(codes.GROUPS_OF_TOPIC, codes.RESET_OFFSET),
)


class Answer(NamedTuple):
    """`asked`: the code of the request; of a request of the broker itself its own."""

    asked: int
    raw: bytes

    def frame(self) -> Frame:
        [found] = FrameReader().receive(self.raw)
        return found


def answers() -> list[Answer]:
    lines = map(json.loads, FILE.read_text().splitlines())
    return [Answer(each["asked"], bytes.fromhex(each["frame"])) for each in lines]


def answered(asked: int, code: int = SUCCESS) -> Frame:
    [found] = [each.frame() for each in answers() if each.asked == asked and each.frame().code == code]
    return found


@pytest.mark.parametrize("answer", answers(), ids=lambda answer: str(answer.asked))
def test_each_is_read(answer: Answer) -> None:
    frame = answer.frame()
    if answer.asked in WITH_RECORDS:
        records = decode_records(frame.body)
        assert not [record.fault for record in records if record.fault]
        assert [decode_records(encode_record(record)) for record in records] == [[record] for record in records]
    elif answer.asked in WITH_JSON and frame.code == SUCCESS:
        assert dialect.read(frame.body)


def test_messages_are_what_was_sent() -> None:
    pulled = [stored_message(each, Names(), 0) for each in decode_records(answered(codes.PULL).body)]
    assert [each.body for each in pulled] == [b"hello %d" % number for number in range(5)]
    first = pulled[0]
    assert (first.topic, first.sub_topic, first.tag, first.keys) == ("recorded", "recorded/x", "red", ("k1", "u0"))
    assert first.properties == (("price", "10"), ("b", b"\0"))


def test_a_pop_tells_receipts() -> None:
    frame = answered(codes.POP)
    records = decode_records(frame.body)
    for receipt, attempt in receipts_of(frame, records, "broker-0"):
        assert PopReceipt.parse(receipt.text) == receipt and attempt == 1 and receipt.broker == "broker-0"


def test_a_send_tells_its_place() -> None:
    place = place_of(answered(codes.SEND).fields["msgId"])
    assert place is not None and place.host == "127.0.0.1"


def test_a_broker_tells_its_topics() -> None:
    told = dialect.table(answered(codes.ALL_TOPIC_CONFIG).body, "topicConfigTable")["recorded"]
    broker = broker_of_topic("broker-0", "127.0.0.1:1", told)
    assert (broker.reads, broker.writes) == (2, 2)
    [place] = dialect.table(answered(codes.CLUSTER_INFO).body, "brokerAddrTable", "broker-0", "brokerAddrs").values()
    assert place.startswith("127.0.0.1:")


def test_refusals_have_meanings() -> None:
    """Each answer that is no success means one of our refusals, or is an outcome of its request."""
    outcomes: set[Any] = {codes.POLLING_TIMEOUT, codes.PULL_NOT_FOUND, codes.NOT_FOUND, codes.PULL_MOVED}
    refused = [each.frame() for each in answers() if each.frame().is_answer and each.frame().code != SUCCESS]
    assert {each.code for each in refused} & outcomes
    assert all(codes.refusal_of(each, "do it").message for each in refused)
