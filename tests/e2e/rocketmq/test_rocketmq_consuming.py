"""The calls of consumers by their stubs: receiving and settling, offsets, lite topics."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from entrepot.protocols.rocketmq import v2_pb2 as v2
from tests.e2e.rocketmq.conftest import put_group
from tests.support.cases import cases
from tests.support.processes.server import ServerProcess
from tests.support.rocketmq.client import GrpcClient, resource
from tests.support.waiting import PATIENCE_SECONDS, wait_until

# -- consuming ---------------------------------------------------------------------------------------------------------


def test_what_a_consumer_is_told(client: GrpcClient, topic: str, group: str) -> None:
    sent = client.message(topic, b"body", {"unit": "celsius"}, tag="red", keys=["a", "b"])
    client.send(sent)
    [found] = client.receive(topic, group, invisible_ms=15_000)
    system = found.system_properties
    assert found.topic == resource(topic)
    assert dict(found.user_properties) == {"unit": "celsius"}
    assert (system.tag, list(system.keys), system.message_id) == ("red", ["a", "b"], sent.system_properties.message_id)
    assert (system.delivery_attempt, system.queue_offset, system.message_type) == (1, 0, v2.NORMAL)
    assert system.receipt_handle
    assert system.invisible_duration.seconds == 15
    assert system.store_timestamp.seconds > 1_600_000_000
    assert client.ack(topic, group, found).status.code == v2.OK


@cases(
    ("fields", "code"),
    [
        ({"invisible_ms": 0}, v2.ILLEGAL_INVISIBLE_TIME),
        ({"invisible_ms": 13 * 3600 * 1000}, v2.ILLEGAL_INVISIBLE_TIME),
        ({"wait_ms": -1}, v2.ILLEGAL_POLLING_TIME),
        ({"count": -1}, v2.BAD_REQUEST),
        ({"group": "a b"}, v2.ILLEGAL_CONSUMER_GROUP),
        ({"filter_expression": v2.FilterExpression(type=v2.SQL, expression="a =")}, v2.ILLEGAL_FILTER_EXPRESSION),
        ({"filter_expression": v2.FilterExpression(type=9, expression="a")}, v2.ILLEGAL_FILTER_EXPRESSION),  # type: ignore[arg-type]
    ],
)
def test_receives_that_are_refused(
    client: GrpcClient, topic: str, group: str, fields: dict[str, Any], code: Any
) -> None:
    status, messages = client.try_receive(topic, **{"group": group, **fields})
    assert (v2.Code.Name(status.code), messages) == (v2.Code.Name(code), [])


def test_no_message_in_time(client: GrpcClient, topic: str, group: str) -> None:
    status, messages = client.try_receive(topic, group, wait_ms=100)
    assert (status.code, messages) == (v2.MESSAGE_NOT_FOUND, [])


def test_a_client_that_goes_takes_nothing_with_it(
    server: ServerProcess, client: GrpcClient, topic: str, group: str
) -> None:
    client.call("QueryRoute", v2.QueryRouteRequest(topic=resource(topic)))
    question = v2.ReceiveMessageRequest(
        group=resource(group), message_queue=v2.MessageQueue(topic=resource(topic)), batch_size=10
    )
    question.long_polling_timeout.FromSeconds(20)
    question.invisible_duration.FromSeconds(600)
    with GrpcClient(server.address("grpc")) as other:
        waiting = [other.stream("ReceiveMessage", question) for _ in range(5)]
        client.receive(topic, "another")
        for each in waiting:
            each.cancel()
    for number in range(10):
        client.send(client.message(topic, b"%d" % number))
    found: list[bytes] = []
    while len(found) < 10:
        found += [each.body for each in client.receive(topic, group, 10, wait_ms=5000)]
    assert sorted(found) == sorted(b"%d" % number for number in range(10))


def test_longer_and_shorter_times(client: GrpcClient, topic: str, group: str) -> None:
    client.send(client.message(topic))
    [found] = client.receive(topic, group, invisible_ms=1000)

    def change(milliseconds: int, handle: str) -> Any:
        question = v2.ChangeInvisibleDurationRequest(
            group=resource(group), topic=resource(topic), receipt_handle=handle
        )
        question.invisible_duration.FromMilliseconds(milliseconds)
        return client.call("ChangeInvisibleDuration", question)

    answer = change(60_000, found.system_properties.receipt_handle)
    assert answer.status.code == v2.OK
    assert client.receive(topic, group, wait_ms=1500) == []
    assert change(100, answer.receipt_handle).status.code == v2.OK
    [again] = client.receive(topic, group, wait_ms=5000)
    assert again.system_properties.delivery_attempt == 2
    assert change(100, answer.receipt_handle).status.code == v2.INVALID_RECEIPT_HANDLE
    assert change(0, again.system_properties.receipt_handle).status.code == v2.OK
    [third] = client.receive(topic, group, wait_ms=5000)
    assert third.system_properties.delivery_attempt == 3
    assert change(100, "nonsense").status.code == v2.INVALID_RECEIPT_HANDLE


def test_an_attempt_that_is_made_again_gets_the_same(
    client: GrpcClient, server: ServerProcess, topic: str, group: str
) -> None:
    """Of FIFO groups: whose answer was lost asks with the same attempt id, at whichever gateway."""
    put_group(server, group, fifo=True)
    for number in range(3):
        client.send(client.message(topic, b"%d" % number, message_group="g", message_type=v2.FIFO))
    first = client.receive(topic, group, attempt_id="one")
    assert [found.body for found in first] == [b"0", b"1", b"2"]
    assert client.receive(topic, group, attempt_id="another") == []
    with GrpcClient(server.address("grpc")) as other:
        again = other.receive(topic, group, attempt_id="one")
    assert [found.body for found in again] == [b"0", b"1", b"2"]
    assert client.ack(topic, group, *again).status.code == v2.OK


def test_an_attempt_id_that_is_too_long_takes_nothing(
    client: GrpcClient, server: ServerProcess, topic: str, group: str
) -> None:
    put_group(server, group, fifo=True)
    client.send(client.message(topic, b"one", message_group="g", message_type=v2.FIFO))
    assert client.try_receive(topic, group, attempt_id="x" * 256)[0].code == v2.BAD_REQUEST
    [found] = client.receive(topic, group, attempt_id="x" * 255)
    assert found.system_properties.delivery_attempt == 1


def test_forwarded_to_the_dead_letters(client: GrpcClient, topic: str, group: str) -> None:
    client.send(client.message(topic, b"poison"))
    [found] = client.receive(topic, group)
    question = v2.ForwardMessageToDeadLetterQueueRequest(
        group=resource(group), topic=resource(topic), receipt_handle=found.system_properties.receipt_handle
    )
    assert client.call("ForwardMessageToDeadLetterQueue", question).status.code == v2.OK
    [dead] = client.receive(f"%DLQ%{group}", f"{group}-dead", wait_ms=5000)
    assert dead.body == b"poison"
    letter = dead.system_properties.dead_letter_queue
    assert (letter.topic, letter.message_id) == (topic, found.system_properties.message_id)


def test_a_settlement_whose_answer_was_lost_is_answered_again(client: GrpcClient, topic: str, group: str) -> None:
    client.send(*(client.message(topic, body) for body in (b"old", b"acknowledged", b"dead", b"released")))
    found = {each.body: each for each in client.receive(topic, group, 4)}

    def change(message: v2.Message, seconds: int) -> Any:
        question = v2.ChangeInvisibleDurationRequest(
            topic=resource(topic), group=resource(group), receipt_handle=message.system_properties.receipt_handle
        )
        question.invisible_duration.FromSeconds(seconds)
        return client.call("ChangeInvisibleDuration", question).status.code

    def bury(message: v2.Message) -> Any:
        question = v2.ForwardMessageToDeadLetterQueueRequest(
            topic=resource(topic), group=resource(group), receipt_handle=message.system_properties.receipt_handle
        )
        return client.call("ForwardMessageToDeadLetterQueue", question).status.code

    def acknowledge(message: v2.Message, of: str = "") -> Any:
        return client.ack(topic, of or group, message).entries[0].status.code

    assert [acknowledge(found[b"acknowledged"]) for _ in "ab"] == [v2.OK, v2.OK]
    assert [bury(found[b"dead"]) for _ in "ab"] == [v2.OK, v2.OK]
    assert [change(found[b"old"], 60) for _ in "ab"] == [v2.OK, v2.OK]
    assert [change(found[b"released"], 0) for _ in "ab"] == [v2.OK, v2.OK]
    assert acknowledge(found[b"released"]) == v2.INVALID_RECEIPT_HANDLE, "it is delivered again, and not consumed"
    assert acknowledge(found[b"dead"]) == bury(found[b"acknowledged"]) == v2.INVALID_RECEIPT_HANDLE
    assert acknowledge(found[b"acknowledged"], f"{group}-other") == v2.INVALID_RECEIPT_HANDLE
    assert [each.body for each in client.receive(topic, group, 4)] == [b"released"]


def test_what_comes_again_is_filtered_by_who_receives_it(client: GrpcClient, topic: str, group: str) -> None:
    def tagged(tag: str) -> v2.FilterExpression:
        return v2.FilterExpression(type=v2.TAG, expression=tag)

    client.send(client.message(topic, b"a", tag="a"), client.message(topic, b"b", tag="b"))
    both = client.receive(topic, group, filter_expression=tagged("a || b"), invisible_ms=200)
    assert sorted(each.body for each in both) == [b"a", b"b"]
    again = client.receive(topic, group, filter_expression=tagged("b"), wait_ms=5000)
    assert [(each.body, each.system_properties.delivery_attempt) for each in again] == [(b"b", 2)]


# -- offsets -----------------------------------------------------------------------------------------------------------


def test_reading_by_offset(client: GrpcClient, topic: str, group: str) -> None:
    for number in range(10):
        client.send(
            client.message(topic, b"%d" % number, tag="ab"[number % 2], message_group="g", message_type=v2.FIFO)
        )
    [first, *_] = client.receive(topic, "finder")
    queue = v2.MessageQueue(topic=resource(topic), id=first.system_properties.queue_id)

    def query(policy: Any) -> int:
        question = v2.QueryOffsetRequest(message_queue=queue, query_offset_policy=policy)
        return int(client.call("QueryOffset", question).offset)

    assert (query(v2.BEGINNING), query(v2.END)) == (0, 10)
    question = v2.PullMessageRequest(group=resource(group), message_queue=queue, offset=4, batch_size=3)
    answers = list(client.stream("PullMessage", question))
    assert [answer.message.body for answer in answers if answer.HasField("message")] == [b"4", b"5", b"6"]
    assert answers[-1].next_offset == 7
    question.filter_expression.CopyFrom(v2.FilterExpression(type=v2.TAG, expression="b"))
    question.batch_size = 10
    answers = list(client.stream("PullMessage", question))
    assert [answer.message.body for answer in answers if answer.HasField("message")] == [b"5", b"7", b"9"]
    question.offset = 10
    answers = list(client.stream("PullMessage", question))
    assert [answer.status.code for answer in answers if answer.HasField("status")] == [v2.MESSAGE_NOT_FOUND]
    question.offset = 99
    [refusal] = client.stream("PullMessage", question)
    assert refusal.status.code == v2.ILLEGAL_OFFSET


def test_a_pull_waits_for_what_comes(client: GrpcClient, server: ServerProcess, topic: str, group: str) -> None:
    client.send(client.message(topic, b"0", message_group="g", message_type=v2.FIFO))
    [first] = client.receive(topic, "finder")
    queue = v2.MessageQueue(topic=resource(topic), id=first.system_properties.queue_id)
    question = v2.PullMessageRequest(group=resource(group), message_queue=queue, offset=1, batch_size=3)
    question.long_polling_timeout.FromSeconds(15)
    waiting = client.stream("PullMessage", question)
    client.send(client.message(topic, b"1", message_group="g", message_type=v2.FIFO))
    assert [answer.message.body for answer in waiting if answer.HasField("message")] == [b"1"]


def test_offsets_of_a_group(client: GrpcClient, topic: str, group: str) -> None:
    for number in range(5):
        client.send(client.message(topic, b"%d" % number, message_group="g", message_type=v2.FIFO))
    [first, *_] = client.receive(topic, "finder")
    queue = v2.MessageQueue(topic=resource(topic), id=first.system_properties.queue_id)

    def get() -> Any:
        return client.call("GetOffset", v2.GetOffsetRequest(group=resource(group), message_queue=queue))

    def update(offset: int) -> Any:
        question = v2.UpdateOffsetRequest(group=resource(group), message_queue=queue, offset=offset)
        return client.call("UpdateOffset", question).status.code

    assert get().status.code == v2.OFFSET_NOT_FOUND
    assert update(3) == v2.OK
    assert get().offset == 3
    assert update(6) == v2.ILLEGAL_OFFSET
    assert [found.body for found in client.receive(topic, group)] == [b"3", b"4"]
    queue.id = 77
    assert get().status.code == v2.BAD_REQUEST


# -- lite topics -------------------------------------------------------------------------------------------------------


def sync(client: GrpcClient, topic: str, group: str, action: Any, *names: str, **others: Any) -> Any:
    question = v2.SyncLiteSubscriptionRequest(
        action=action, topic=resource(topic), group=resource(group), lite_topic_set=names, **others
    )
    return client.call("SyncLiteSubscription", question).status.code


def test_lite_topics(server: ServerProcess, client: GrpcClient, topic: str, group: str) -> None:
    for name in ("a", "b", "c"):
        assert (
            client.send(client.message(topic, name.encode(), lite_topic=name, message_type=v2.LITE)).status.code
            == v2.OK
        )
    assert sync(client, topic, group, v2.COMPLETE_ADD, "a", "b") == v2.OK
    with GrpcClient(server.address("grpc")) as other:
        assert sync(other, topic, group, v2.PARTIAL_ADD, "c") == v2.OK
        [theirs] = other.receive(topic, group, wait_ms=2000)
        assert theirs.body == b"c"
    mine = client.receive(topic, group, wait_ms=2000)
    assert sorted(found.system_properties.lite_topic for found in mine) == ["a", "b"]
    for found in mine:
        entry = v2.AckMessageEntry(
            receipt_handle=found.system_properties.receipt_handle, lite_topic=found.system_properties.lite_topic
        )
        question = v2.AckMessageRequest(topic=resource(topic), group=resource(group), entries=[entry])
        assert client.call("AckMessage", question).status.code == v2.OK
    assert client.receive(topic, group) == []
    assert sync(client, topic, group, v2.PARTIAL_REMOVE, "a") == v2.OK
    client.send(client.message(topic, b"a2", lite_topic="a", message_type=v2.LITE))
    client.send(client.message(topic, b"b2", lite_topic="b", message_type=v2.LITE))
    assert [found.body for found in client.receive(topic, group, wait_ms=2000)] == [b"b2"]


def test_lite_topics_that_are_added_at_the_same_time(client: GrpcClient, topic: str, group: str) -> None:
    names = [f"n{number}" for number in range(12)]
    client.send(*(client.message(topic, name.encode(), lite_topic=name, message_type=v2.LITE) for name in names))
    with ThreadPoolExecutor(len(names)) as threads:
        added = [threads.submit(sync, client, topic, group, v2.PARTIAL_ADD, name) for name in names]
        assert [each.result() for each in added] == [v2.OK] * len(names)
    found = client.receive(topic, group, len(names), wait_ms=2000)
    assert sorted(each.system_properties.lite_topic for each in found) == sorted(names)


def test_a_receive_of_lite_topics_that_is_cancelled_takes_nothing_with_it(
    client: GrpcClient, server: ServerProcess, topic: str, group: str
) -> None:
    names = [f"n{number}" for number in range(150)]
    client.send(*(client.message(topic, name.encode(), lite_topic=name, message_type=v2.LITE) for name in names))
    assert sync(client, topic, group, v2.COMPLETE_ADD, *names) == v2.OK
    for pause in range(12):
        question = v2.ReceiveMessageRequest(
            group=resource(group), message_queue=v2.MessageQueue(topic=resource(topic), id=-1), batch_size=len(names)
        )
        question.invisible_duration.FromSeconds(600)
        call = client.stream("ReceiveMessage", question)
        time.sleep(pause / 1000)  # in the midst of it, somewhere
        call.cancel()
    found: set[str] = set()

    def all_are_there() -> bool:
        found.update(each.system_properties.lite_topic for each in client.receive(topic, group, invisible_ms=600_000))
        return found == set(names)

    wait_until(all_are_there, lambda: str(sorted(set(names) - found)))


def test_what_is_due_again_comes_though_other_lite_topics_are_busy(client: GrpcClient, topic: str, group: str) -> None:
    assert sync(client, topic, group, v2.COMPLETE_ADD, "mine") == v2.OK
    client.send(client.message(topic, b"mine", lite_topic="mine", message_type=v2.LITE))
    assert len(client.receive(topic, group, wait_ms=2000, invisible_ms=2000)) == 1
    is_over = threading.Event()

    def others() -> None:
        while not is_over.wait(0.2):
            client.send(client.message(topic, b"theirs", lite_topic="theirs", message_type=v2.LITE))

    busy = threading.Thread(target=others)
    busy.start()
    began = time.monotonic()
    try:
        [again] = client.receive(topic, group, wait_ms=int(PATIENCE_SECONDS * 1000))
    finally:
        is_over.set()
        busy.join()
    assert (again.body, again.system_properties.delivery_attempt) == (b"mine", 2)
    assert time.monotonic() - began < 0.8 * PATIENCE_SECONDS, "it came when the receive was over"


def test_lite_subscriptions_have_limits(client: GrpcClient, topic: str, group: str) -> None:
    names = [f"n{number}" for number in range(301)]
    assert sync(client, topic, group, v2.COMPLETE_ADD, *names) == v2.LITE_SUBSCRIPTION_QUOTA_EXCEEDED
    assert sync(client, topic, group, v2.COMPLETE_ADD, "a/b") == v2.ILLEGAL_LITE_TOPIC
    assert sync(client, topic, group, v2.COMPLETE_ADD, "new", version=5) == v2.OK
    assert sync(client, topic, group, v2.COMPLETE_ADD, "old", version=4) == v2.OK
    client.send(client.message(topic, b"o", lite_topic="old", message_type=v2.LITE))
    client.send(client.message(topic, b"n", lite_topic="new", message_type=v2.LITE))
    assert [found.body for found in client.receive(topic, group, wait_ms=2000)] == [b"n"]


@pytest.mark.parametrize(
    ("option", "expected"),
    [
        ({"policy": v2.OffsetOption.MAX}, []),
        ({"policy": v2.OffsetOption.MIN}, [b"0", b"1", b"2", b"3"]),
        ({"policy": v2.OffsetOption.LAST}, [b"2", b"3"]),
        ({"offset": 1}, [b"1", b"2", b"3"]),
        ({"offset": 9}, []),
        ({"tail_n": 1}, [b"3"]),
        ({"tail_n": 9}, [b"0", b"1", b"2", b"3"]),
        ({"tail_n": 0}, []),
        ({"timestamp": 0}, [b"0", b"1", b"2", b"3"]),
        ({"timestamp": 1 << 42}, []),
    ],
    ids=str,
)
def test_where_a_lite_subscription_begins(
    client: GrpcClient, topic: str, group: str, option: dict[str, Any], expected: list[bytes]
) -> None:
    """Its group has consumed two of the four; others of the parent lie in between."""

    def send(*bodies: bytes) -> None:
        for body in bodies:
            for name in ("a", "b"):
                message = client.message(topic, body, lite_topic=name, message_type=v2.LITE)
                assert client.send(message).status.code == v2.OK

    send(b"0", b"1")
    assert sync(client, topic, group, v2.COMPLETE_ADD, "a") == v2.OK
    for found in client.receive(topic, group, wait_ms=2000):
        entry = v2.AckMessageEntry(receipt_handle=found.system_properties.receipt_handle, lite_topic="a")
        question = v2.AckMessageRequest(topic=resource(topic), group=resource(group), entries=[entry])
        assert client.call("AckMessage", question).status.code == v2.OK
    assert sync(client, topic, group, v2.COMPLETE_REMOVE) == v2.OK
    send(b"2", b"3")
    assert sync(client, topic, group, v2.COMPLETE_ADD, "a", offset_option=v2.OffsetOption(**option)) == v2.OK
    assert [found.body for found in client.receive(topic, group)] == expected
    client.send(client.message(topic, b"after", lite_topic="a", message_type=v2.LITE))
    assert [found.body for found in client.receive(topic, group, wait_ms=2000)] == [b"after"]


@pytest.mark.parametrize("option", [{"offset": -1}, {"tail_n": -1}, {"timestamp": -1}], ids=str)
def test_where_no_lite_subscription_begins(client: GrpcClient, topic: str, group: str, option: dict[str, Any]) -> None:
    assert (
        sync(client, topic, group, v2.COMPLETE_ADD, "a", offset_option=v2.OffsetOption(**option)) == v2.ILLEGAL_OFFSET
    )


def test_a_lite_subscription_may_begin_at_the_end(client: GrpcClient, topic: str, group: str) -> None:
    client.send(client.message(topic, b"before", lite_topic="a", message_type=v2.LITE))
    option = v2.OffsetOption(policy=v2.OffsetOption.MAX)
    assert sync(client, topic, group, v2.COMPLETE_ADD, "a", offset_option=option) == v2.OK
    assert client.receive(topic, group) == []
    client.send(client.message(topic, b"after", lite_topic="a", message_type=v2.LITE))
    assert [found.body for found in client.receive(topic, group, wait_ms=2000)] == [b"after"]
