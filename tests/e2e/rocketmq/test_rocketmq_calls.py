"""Every call of the service by its stubs: what it answers, and in which words it refuses."""

from __future__ import annotations

import gzip
import threading
import uuid
from collections.abc import Iterator
from hashlib import md5
from pathlib import Path
from typing import Any

import grpc
import pytest

from protocols.rocketmq import v2_pb2 as v2
from tests.e2e.rocketmq.conftest import put_group
from tests.support.http_pull import http_json
from tests.support.rocketmq_client import SERVICE, GrpcClient, resource
from tests.support.server import ServerProcess


@pytest.fixture
def topic() -> str:
    return f"t-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def group() -> str:
    return f"g-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def client(server: ServerProcess) -> Iterator[GrpcClient]:
    with GrpcClient(server.address("grpc")) as connected:
        yield connected


def endpoints(host: str, port: int, scheme: Any = v2.IPv4) -> v2.Endpoints:
    return v2.Endpoints(scheme=scheme, addresses=[v2.Address(host=host, port=port)])


# -- routes ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "used",
    [endpoints("127.0.0.1", 4711), endpoints("broker.example", 80, v2.DOMAIN_NAME), endpoints("::1", 1, v2.IPv6)],
)
def test_a_route_is_where_the_client_came(client: GrpcClient, topic: str, used: v2.Endpoints) -> None:
    answer = client.call("QueryRoute", v2.QueryRouteRequest(topic=resource(topic), endpoints=used))
    assert answer.status.code == v2.OK
    assert len(answer.message_queues) == 4
    for number, queue in enumerate(answer.message_queues):
        assert (queue.id, queue.permission, queue.broker.id) == (number, v2.READ_WRITE, 0)
        assert queue.broker.endpoints == used
        assert set(queue.accept_message_types) == {v2.NORMAL, v2.FIFO, v2.DELAY, v2.TRANSACTION, v2.LITE}
    question = v2.QueryAssignmentRequest(topic=resource(topic), group=resource("g"), endpoints=used)
    [assignment] = client.call("QueryAssignment", question).assignments
    assert (assignment.message_queue.id, assignment.message_queue.broker.endpoints) == (-1, used)


def test_a_route_says_what_may_be_done(client: GrpcClient, server: ServerProcess, topic: str) -> None:
    http_json(server, "PUT", f"/api/v1/topics/{topic}", {"queues": 3, "writeQueues": 2, "permission": "READ_WRITE"})
    answer = client.call("QueryRoute", v2.QueryRouteRequest(topic=resource(topic)))
    assert [queue.permission for queue in answer.message_queues] == [v2.READ_WRITE, v2.READ_WRITE, v2.READ]
    http_json(server, "PUT", f"/api/v1/topics/{topic}", {"permission": "WRITE"})
    answer = client.call("QueryRoute", v2.QueryRouteRequest(topic=resource(topic)))
    assert [queue.permission for queue in answer.message_queues] == [v2.WRITE, v2.WRITE, v2.NONE]
    question = v2.QueryAssignmentRequest(topic=resource(topic), group=resource("g"))
    assert client.call("QueryAssignment", question).status.code == v2.FORBIDDEN


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("", v2.ILLEGAL_TOPIC),
        ("a/b", v2.ILLEGAL_TOPIC),
        ("%DLQ%nobody", v2.TOPIC_NOT_FOUND),
        ("x" * 200, v2.ILLEGAL_TOPIC),
    ],
)
def test_a_route_of_no_topic(client: GrpcClient, name: str, code: Any) -> None:
    assert client.call("QueryRoute", v2.QueryRouteRequest(topic=resource(name))).status.code == code


# -- sending -----------------------------------------------------------------------------------------------------------


def refusals() -> list[tuple[str, dict[str, Any], Any]]:
    many = {f"p{number}": "v" for number in range(129)}
    return [
        ("no body", {"body": b""}, v2.MESSAGE_BODY_EMPTY),
        ("a body that is too large", {"body": b"x" * (4 * 1024 * 1024 + 1)}, v2.MESSAGE_BODY_TOO_LARGE),
        ("too many properties", {"properties": many}, v2.MESSAGE_PROPERTIES_TOO_LARGE),
        ("long properties", {"properties": {"p": "x" * 16384}}, v2.MESSAGE_PROPERTIES_TOO_LARGE),
        ("a name of RocketMQ's own", {"properties": {"KEYS": "k"}}, v2.ILLEGAL_MESSAGE_PROPERTY_KEY),
        ("a system name", {"properties": {"__x": "k"}}, v2.ILLEGAL_MESSAGE_PROPERTY_KEY),
        ("a sub-topic that is none", {"properties": {"entrepot_sub_topic": "a/#"}}, v2.ILLEGAL_MESSAGE_PROPERTY_KEY),
        (
            "a sub-topic of the system",
            {"properties": {"entrepot_sub_topic": "$SYS/x"}},
            v2.ILLEGAL_MESSAGE_PROPERTY_KEY,
        ),
        ("an expiry that is none", {"properties": {"entrepot_expires_at_ms": "x"}}, v2.ILLEGAL_MESSAGE_PROPERTY_KEY),
        ("a tag with a bar", {"tag": "a|b"}, v2.ILLEGAL_MESSAGE_TAG),
        ("a tag with a control character", {"tag": "a\x01"}, v2.ILLEGAL_MESSAGE_TAG),
        ("a blank key", {"keys": [" "]}, v2.ILLEGAL_MESSAGE_KEY),
        ("a long message group", {"message_group": "x" * 64, "message_type": v2.FIFO}, v2.ILLEGAL_MESSAGE_GROUP),
        ("a message id that is none", {"message_id": "x" * 65}, v2.ILLEGAL_MESSAGE_ID),
        ("another type than said", {"message_group": "g"}, v2.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE),
        ("two types", {"message_group": "g", "message_type": v2.TRANSACTION}, v2.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE),
        ("a priority", {"priority": 1, "message_type": v2.PRIORITY}, v2.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE),
        ("a lite topic with levels", {"lite_topic": "a/b", "message_type": v2.LITE}, v2.ILLEGAL_LITE_TOPIC),
        (
            "a wrong digest",
            {"body_digest": v2.Digest(type=v2.MD5, checksum=md5(b"other").hexdigest().upper())},
            v2.MESSAGE_CORRUPTED,
        ),
        ("a body that is not compressed", {"body_encoding": v2.GZIP}, v2.MESSAGE_CORRUPTED),
        (
            "a time that is too far",
            {"message_type": v2.DELAY, "delivery_timestamp": {"seconds": 2**36}},
            v2.ILLEGAL_DELIVERY_TIME,
        ),
    ]


@pytest.mark.parametrize(("what", "fields", "code"), refusals(), ids=[what for what, _, _ in refusals()])
def test_refused_messages(client: GrpcClient, topic: str, what: str, fields: dict[str, Any], code: Any) -> None:
    answer = client.send(client.message(topic, **fields))
    assert v2.Code.Name(answer.status.code) == v2.Code.Name(code), answer.status
    assert answer.entries[0].status.code == code
    assert client.receive(topic, "nobody") == []


def test_each_message_of_a_batch_has_its_own_outcome(client: GrpcClient, topic: str, group: str) -> None:
    answer = client.send(client.message(topic, b"1"), client.message(topic, b"2", tag="|"), client.message(topic, b"3"))
    assert answer.status.code == v2.MULTIPLE_RESULTS
    assert [entry.status.code for entry in answer.entries] == [v2.OK, v2.ILLEGAL_MESSAGE_TAG, v2.OK]
    assert sorted(found.body for found in client.receive(topic, group, 10)) == [b"1", b"3"]


def test_a_batch_is_of_one_topic(client: GrpcClient, topic: str) -> None:
    assert client.send(client.message(topic), client.message(f"{topic}x")).status.code == v2.BAD_REQUEST
    assert client.send().status.code == v2.BAD_REQUEST


def test_a_compressed_body_is_stored_as_it_was(client: GrpcClient, topic: str, group: str) -> None:
    body = b"long " * 1000
    client.send(client.message(topic, gzip.compress(body), body_encoding=v2.GZIP))
    [found] = client.receive(topic, group)
    assert (found.body, found.system_properties.body_encoding) == (body, v2.IDENTITY)
    assert found.system_properties.body_digest.checksum == md5(body).hexdigest().upper()


def test_priorities_go_before_others(client: GrpcClient, server: ServerProcess, topic: str, group: str) -> None:
    http_json(server, "PUT", f"/api/v1/topics/{topic}", {"type": "PRIORITY", "queues": 4})
    route = client.call("QueryRoute", v2.QueryRouteRequest(topic=resource(topic)))
    assert v2.PRIORITY in route.message_queues[0].accept_message_types
    for priority in (0, 3, 1, 2):
        message = client.message(topic, b"%d" % priority, priority=priority, message_type=v2.PRIORITY)
        assert client.send(message).status.code == v2.OK
    found = client.receive(topic, group, 4)
    assert [each.body for each in found] == [b"3", b"2", b"1", b"0"]
    assert [each.system_properties.priority for each in found] == [3, 2, 1, 0]
    ordered = client.message(topic, message_group="g", message_type=v2.FIFO)
    assert client.send(ordered).status.code == v2.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE


def test_a_recall_handle_of_another_topic_or_none(client: GrpcClient, topic: str) -> None:
    question = v2.RecallMessageRequest(topic=resource(topic), recall_handle="nonsense")
    assert client.call("RecallMessage", question).status.code == v2.BAD_REQUEST
    later = v2.SystemProperties().delivery_timestamp
    later.FromMilliseconds(4_000_000_000_000 // 2)
    [entry] = client.send(
        client.message(topic, message_type=v2.DELAY, delivery_timestamp={"seconds": 1_800_000_000})
    ).entries
    question = v2.RecallMessageRequest(topic=resource(f"{topic}x"), recall_handle=entry.recall_handle)
    assert client.call("RecallMessage", question).status.code == v2.BAD_REQUEST
    question = v2.RecallMessageRequest(topic=resource(topic), recall_handle=entry.recall_handle)
    assert client.call("RecallMessage", question).message_id == entry.message_id
    assert client.call("RecallMessage", question).status.code == v2.NOT_FOUND


def test_transactions_end_once(client: GrpcClient, topic: str, group: str) -> None:
    [entry] = client.send(client.message(topic, b"half", message_type=v2.TRANSACTION)).entries
    assert entry.transaction_id
    assert client.receive(topic, group) == []

    def end(resolution: Any, transaction_id: str = entry.transaction_id) -> Any:
        question = v2.EndTransactionRequest(
            topic=resource(topic), message_id=entry.message_id, transaction_id=transaction_id, resolution=resolution
        )
        return client.call("EndTransaction", question).status.code

    assert end(v2.TRANSACTION_RESOLUTION_UNSPECIFIED) == v2.OK
    assert end(v2.COMMIT, "another") == v2.INVALID_TRANSACTION_ID
    assert end(v2.COMMIT, "") == v2.INVALID_TRANSACTION_ID
    assert end(v2.COMMIT) == v2.OK
    assert end(v2.ROLLBACK) == v2.INVALID_TRANSACTION_ID
    assert [found.body for found in client.receive(topic, group)] == [b"half"]


def test_a_producer_may_be_silent_as_long_as_it_says(client: GrpcClient, topic: str) -> None:
    """By default it is asked after a second here."""
    message = client.message(
        topic, message_type=v2.TRANSACTION, orphaned_transaction_recovery_duration={"seconds": 7200}
    )
    assert client.send(message).status.code == v2.BAD_REQUEST
    for seconds in (600, 0):
        message = client.message(
            topic,
            b"%d" % seconds,
            message_type=v2.TRANSACTION,
            orphaned_transaction_recovery_duration={"seconds": seconds},
        )
        assert client.send(message).status.code == v2.OK
    said = v2.Settings(publishing=v2.Publishing(topics=[resource(topic)]))
    stopped = threading.Event()

    def commands() -> Iterator[v2.TelemetryCommand]:
        yield v2.TelemetryCommand(settings=said)
        stopped.wait(3)

    ask = client.channel.stream_stream(
        SERVICE + "Telemetry", v2.TelemetryCommand.SerializeToString, v2.TelemetryCommand.FromString
    )
    asked = [
        command.recover_orphaned_transaction_command.message.body
        for command in ask(commands(), timeout=30, metadata=client.metadata())
        if command.HasField("recover_orphaned_transaction_command")
    ]
    assert set(asked) == {b"0"}


def test_a_full_store_refuses_sends_and_lets_consumers_go_on(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, {"grpc.lease_seconds": "5"}) as server:
        with GrpcClient(server.address("grpc")) as client:
            client.send(client.message("t", b"before"))
        server.settings["store.disk_refuse_free_bytes"] = str(1 << 60)
        assert server.stop() == 0
        server.restart()
        with GrpcClient(server.address("grpc")) as client:
            half = client.message("t", message_type=v2.TRANSACTION)
            assert client.send(client.message("t")).status.code == v2.TOO_MANY_REQUESTS
            assert client.send(half).status.code == v2.TOO_MANY_REQUESTS
            [found] = client.receive("t", "g")
            assert client.ack("t", "g", found).status.code == v2.OK


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
    assert client.ack(topic, group, found).status.code == v2.INVALID_RECEIPT_HANDLE


@pytest.mark.parametrize(
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


def test_forwarded_to_the_dead_letters(client: GrpcClient, topic: str, group: str) -> None:
    client.send(client.message(topic, b"poison"))
    [found] = client.receive(topic, group)
    question = v2.ForwardMessageToDeadLetterQueueRequest(
        group=resource(group), topic=resource(topic), receipt_handle=found.system_properties.receipt_handle
    )
    assert client.call("ForwardMessageToDeadLetterQueue", question).status.code == v2.OK
    assert client.call("ForwardMessageToDeadLetterQueue", question).status.code == v2.INVALID_RECEIPT_HANDLE
    [dead] = client.receive(f"%DLQ%{group}", f"{group}-dead", wait_ms=5000)
    assert dead.body == b"poison"
    letter = dead.system_properties.dead_letter_queue
    assert (letter.topic, letter.message_id) == (topic, found.system_properties.message_id)


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


# -- clients -----------------------------------------------------------------------------------------------------------


def test_settings_of_a_producer(client: GrpcClient, topic: str) -> None:
    said = v2.Settings(client_type=v2.PRODUCER, publishing=v2.Publishing(topics=[resource(topic)]))
    [answer] = client.telemetry(v2.TelemetryCommand(settings=said))
    assert answer.status.code == v2.OK
    assert answer.settings.publishing.max_body_size == 4 * 1024 * 1024
    assert answer.settings.backoff_policy.HasField("exponential_backoff")
    assert not answer.settings.metric.on


def test_settings_of_a_consumer(client: GrpcClient, server: ServerProcess, group: str) -> None:
    put_group(server, group, fifo=True, maxAttempts=7, retry={"kind": "list", "delaysMs": [1000, 2000]})
    said = v2.Settings(client_type=v2.PUSH_CONSUMER, subscription=v2.Subscription(group=resource(group)))
    [answer] = client.telemetry(v2.TelemetryCommand(settings=said))
    assert answer.status.code == v2.OK
    assert answer.settings.subscription.fifo
    assert answer.settings.subscription.long_polling_timeout.seconds == 20
    assert answer.settings.backoff_policy.max_attempts == 7
    assert [delay.seconds for delay in answer.settings.backoff_policy.customized_backoff.next] == [1, 2]


def test_settings_that_are_none(client: GrpcClient) -> None:
    [answer] = client.telemetry(v2.TelemetryCommand(settings=v2.Settings()))
    assert answer.status.code == v2.UNRECOGNIZED_CLIENT_TYPE


def test_a_heartbeat_of_a_client_that_nobody_knows(client: GrpcClient, group: str) -> None:
    question = v2.HeartbeatRequest(group=resource(group), client_type=v2.PUSH_CONSUMER)
    assert client.call("Heartbeat", question).status.code == v2.OK
    assert client.call("Heartbeat", v2.HeartbeatRequest(client_type=v2.PRODUCER)).status.code == v2.OK
    assert client.call("Heartbeat", v2.HeartbeatRequest()).status.code == v2.UNRECOGNIZED_CLIENT_TYPE


def test_a_goodbye_gives_back_what_was_held(client: GrpcClient, topic: str, group: str) -> None:
    client.send(client.message(topic))
    [held] = client.receive(topic, group, auto_renew=True)
    assert client.receive(topic, group) == []
    question = v2.NotifyClientTerminationRequest(group=resource(group))
    assert client.call("NotifyClientTermination", question).status.code == v2.OK
    [found] = client.receive(topic, group, wait_ms=5000)
    assert found.system_properties.message_id == held.system_properties.message_id


def test_a_client_without_an_id(server: ServerProcess, topic: str) -> None:
    with GrpcClient(server.address("grpc"), metadata=()) as client:
        answer = client.call("QueryRoute", v2.QueryRouteRequest(topic=resource(topic)))
        assert answer.status.code == v2.CLIENT_ID_REQUIRED


def test_a_call_that_does_not_exist(client: GrpcClient) -> None:
    ask = client.channel.unary_unary("/apache.rocketmq.v2.MessagingService/Nothing", None, None)
    with pytest.raises(grpc.RpcError) as raised:
        ask(b"", timeout=10, metadata=client.metadata())
    assert raised.value.code() is grpc.StatusCode.UNIMPLEMENTED  # type: ignore[attr-defined]


def test_namespaces_are_apart(server: ServerProcess, topic: str, group: str) -> None:
    http_json(server, "PUT", "/api/v1/namespaces/team", {})
    with GrpcClient(server.address("grpc"), namespace="team") as team, GrpcClient(server.address("grpc")) as other:
        assert team.send(team.message(topic, b"ours")).status.code == v2.OK
        assert other.receive(topic, group) == []
        [found] = team.receive(topic, group)
        assert (found.body, found.topic) == (b"ours", resource(topic, "team"))
        assert team.ack(topic, group, found).status.code == v2.OK


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


def test_lite_subscriptions_have_limits(client: GrpcClient, topic: str, group: str) -> None:
    names = [f"n{number}" for number in range(301)]
    assert sync(client, topic, group, v2.COMPLETE_ADD, *names) == v2.LITE_SUBSCRIPTION_QUOTA_EXCEEDED
    assert sync(client, topic, group, v2.COMPLETE_ADD, "a/b") == v2.ILLEGAL_LITE_TOPIC
    assert sync(client, topic, group, v2.COMPLETE_ADD, "new", version=5) == v2.OK
    assert sync(client, topic, group, v2.COMPLETE_ADD, "old", version=4) == v2.OK
    client.send(client.message(topic, b"o", lite_topic="old", message_type=v2.LITE))
    client.send(client.message(topic, b"n", lite_topic="new", message_type=v2.LITE))
    assert [found.body for found in client.receive(topic, group, wait_ms=2000)] == [b"n"]


def test_a_lite_subscription_may_begin_at_the_end(client: GrpcClient, topic: str, group: str) -> None:
    client.send(client.message(topic, b"before", lite_topic="a", message_type=v2.LITE))
    option = v2.OffsetOption(policy=v2.OffsetOption.MAX)
    assert sync(client, topic, group, v2.COMPLETE_ADD, "a", offset_option=option) == v2.OK
    assert client.receive(topic, group) == []
    client.send(client.message(topic, b"after", lite_topic="a", message_type=v2.LITE))
    assert [found.body for found in client.receive(topic, group, wait_ms=2000)] == [b"after"]
