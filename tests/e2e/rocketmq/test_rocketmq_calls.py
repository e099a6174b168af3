"""Every call of the service by its stubs: what it answers, and in which words it refuses."""

from __future__ import annotations

import gzip
import threading
import time
from collections.abc import Iterator
from hashlib import md5
from pathlib import Path
from typing import Any
from zlib import crc32

import grpc
import pytest

from entrepot.protocols.rocketmq import v2_pb2 as v2
from tests.e2e.rocketmq.conftest import SETTINGS, put_group
from tests.support.cases import cases
from tests.support.http.pull import http_json
from tests.support.processes.server import ServerProcess
from tests.support.rocketmq.client import SERVICE, GrpcClient, resource
from tests.support.waiting import PATIENCE_SECONDS


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


def test_a_route_repeats_no_long_list_of_places(client: GrpcClient, topic: str) -> None:
    many = v2.Endpoints(scheme=v2.IPv4, addresses=[v2.Address(host="127.0.0.1", port=port) for port in range(1, 66)])
    long = v2.Endpoints(scheme=v2.DOMAIN_NAME, addresses=[v2.Address(host="h" * 10_000, port=1)])
    for used in (many, long):
        answer = client.call("QueryRoute", v2.QueryRouteRequest(topic=resource(topic), endpoints=used))
        assert (answer.status.code, len(answer.message_queues)) == (v2.ILLEGAL_ACCESS_POINT, 0)


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
    grown = gzip.compress(bytes(4 * 1024 * 1024 + 1))
    return [
        ("no body", {"body": b""}, v2.MESSAGE_BODY_EMPTY),
        ("a body that is too large", {"body": b"x" * (4 * 1024 * 1024 + 1)}, v2.MESSAGE_BODY_TOO_LARGE),
        ("too many properties", {"properties": many}, v2.MESSAGE_PROPERTIES_TOO_LARGE),
        ("long properties", {"properties": {"p": "x" * 16384}}, v2.MESSAGE_PROPERTIES_TOO_LARGE),
        ("a name of RocketMQ's own", {"properties": {"KEYS": "k"}}, v2.ILLEGAL_MESSAGE_PROPERTY_KEY),
        ("a system name", {"properties": {"__CRC32#": "k"}}, v2.ILLEGAL_MESSAGE_PROPERTY_KEY),
        ("a name that a cluster adds", {"properties": {"__transactionId__": "k"}}, v2.ILLEGAL_MESSAGE_PROPERTY_KEY),
        ("a control character in a name", {"properties": {"a\x01": "k"}}, v2.ILLEGAL_MESSAGE_PROPERTY_KEY),
        ("a control character in a value", {"properties": {"a": "k\n"}}, v2.ILLEGAL_MESSAGE_PROPERTY_KEY),
        ("a control character of C1", {"properties": {"a": "k\x85"}}, v2.ILLEGAL_MESSAGE_PROPERTY_KEY),
        ("a control character in a trace context", {"trace_context": "\x00"}, v2.ILLEGAL_MESSAGE_PROPERTY_KEY),
        ("a sub-topic that is none", {"properties": {"entrepot_sub_topic": "a/#"}}, v2.ILLEGAL_MESSAGE_PROPERTY_KEY),
        (
            "a sub-topic of the system",
            {"properties": {"entrepot_sub_topic": "$SYS/x"}},
            v2.ILLEGAL_MESSAGE_PROPERTY_KEY,
        ),
        ("an expiry that is none", {"properties": {"entrepot_expires_at_ms": "x"}}, v2.ILLEGAL_MESSAGE_PROPERTY_KEY),
        ("a tag with a bar", {"tag": "a|b"}, v2.ILLEGAL_MESSAGE_TAG),
        ("a tag with a control character", {"tag": "a\x01"}, v2.ILLEGAL_MESSAGE_TAG),
        ("a long tag", {"tag": "€" * 86}, v2.ILLEGAL_MESSAGE_TAG),
        ("a long tag of ours", {"properties": {"entrepot_tag": "x" * 256}}, v2.ILLEGAL_MESSAGE_TAG),
        ("a blank key", {"keys": [" "]}, v2.ILLEGAL_MESSAGE_KEY),
        ("a long key", {"keys": ["x" * 65_536]}, v2.ILLEGAL_MESSAGE_KEY),
        ("many keys", {"keys": ["k"] * 32_769}, v2.ILLEGAL_MESSAGE_KEY),
        ("a long message group", {"message_group": "x" * 64, "message_type": v2.FIFO}, v2.ILLEGAL_MESSAGE_GROUP),
        ("a message id that is none", {"message_id": "x" * 65}, v2.ILLEGAL_MESSAGE_ID),
        ("two types", {"message_group": "g", "lite_topic": "l"}, v2.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE),
        ("a priority", {"priority": 1, "message_type": v2.PRIORITY}, v2.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE),
        ("a lite topic with levels", {"lite_topic": "a/b", "message_type": v2.LITE}, v2.ILLEGAL_LITE_TOPIC),
        ("all lite topics", {"lite_topic": "*", "message_type": v2.LITE}, v2.ILLEGAL_LITE_TOPIC),
        (
            "a wrong digest",
            {"body_digest": v2.Digest(type=v2.MD5, checksum=md5(b"other").hexdigest().upper())},
            v2.MESSAGE_CORRUPTED,
        ),
        (
            "a wrong CRC32",
            {"body_digest": v2.Digest(type=v2.CRC32, checksum=f"{crc32(b'other'):08X}")},
            v2.MESSAGE_CORRUPTED,
        ),
        ("a digest of no type", {"body_digest": v2.Digest(type=9, checksum="A")}, v2.BAD_REQUEST),  # type: ignore[arg-type]
        ("an encoding that there is not", {"body_encoding": 9}, v2.BAD_REQUEST),
        ("a body that is not compressed", {"body_encoding": v2.GZIP}, v2.MESSAGE_CORRUPTED),
        ("a body that grows too large", {"body": grown, "body_encoding": v2.GZIP}, v2.MESSAGE_BODY_TOO_LARGE),
        (
            "a time that is too far",
            {"message_type": v2.DELAY, "delivery_timestamp": {"seconds": 2**36}},
            v2.ILLEGAL_DELIVERY_TIME,
        ),
    ]


@cases(("what", "fields", "code"), refusals(), ids=[what for what, _, _ in refusals()])
def test_refused_messages(client: GrpcClient, topic: str, what: str, fields: dict[str, Any], code: Any) -> None:
    answer = client.send(client.message(topic, **fields))
    assert v2.Code.Name(answer.status.code) == v2.Code.Name(code), answer.status
    assert {entry.status.code for entry in answer.entries} <= {code}
    assert client.receive(topic, "nobody") == []


def test_limits_are_taken_and_said(client: GrpcClient, topic: str, group: str) -> None:
    for fields in ({"tag": "€" * 85}, {"keys": ["x" * 65_535]}, {"keys": ["k"] * 32_768 + [""]}):
        assert client.send(client.message(topic, **fields)).status.code == v2.OK
    assert sorted(len(found.system_properties.keys) for found in client.receive(topic, group, 10)) == [0, 1, 32_768]
    said = [
        client.send(client.message(topic, **fields)).status.message
        for fields in ({"tag": "x" * 300}, {"keys": ["ab", "c" * 70_000]})
    ]
    assert said == ["the tag has 300 bytes, the limit is 255", "the keys have 70003 bytes together, the limit is 65535"]


@cases("written", ["{:08X}", "{:X}", "{:x}", "{:d}"])
def test_digests_as_clients_write_them(client: GrpcClient, topic: str, written: str) -> None:
    body = b"7"  # whose checksum would begin with 0
    while crc32(body) >> 28:
        body += b"7"
    digest = v2.Digest(type=v2.CRC32, checksum=written.format(crc32(body)))
    assert client.send(client.message(topic, body, body_digest=digest)).status.code == v2.OK
    assert client.send(client.message(topic, body, body_digest=v2.Digest())).status.code == v2.OK


def test_a_bad_message_refuses_its_batch(client: GrpcClient, topic: str, group: str) -> None:
    answer = client.send(client.message(topic, b"1"), client.message(topic, b"2", tag="|"), client.message(topic, b"3"))
    assert (answer.status.code, list(answer.entries)) == (v2.ILLEGAL_MESSAGE_TAG, [])
    half = client.message(topic, b"half", message_type=v2.TRANSACTION)
    assert client.send(half, client.message(topic, b"")).status.code == v2.MESSAGE_BODY_EMPTY
    assert [entry.status.code for entry in client.send(*(client.message(topic, b"4") for _ in "ab")).entries] == [
        v2.OK,
        v2.OK,
    ]
    assert [found.body for found in client.receive(topic, group, 10)] == [b"4", b"4"]


def test_what_is_no_unicode_is_left_out_of_a_message(client: GrpcClient, topic: str, group: str) -> None:
    """JSON may say half a character, which no record can hold."""
    facts = (
        {"entrepot_more": r'{"content_type":"\ud800"}'},
        {"entrepot_keys": r'["\ud800"]'},
        {"entrepot_properties": r'[["\ud800","x"]]'},
    )
    answer = client.send(*(client.message(topic, b"%d" % at, properties=fact) for at, fact in enumerate((*facts, {}))))
    assert [entry.status.code for entry in answer.entries] == [v2.OK] * 4
    assert sorted(found.body for found in client.receive(topic, group, 10)) == [b"0", b"1", b"2", b"3"]


def test_a_batch_is_of_one_topic(client: GrpcClient, topic: str) -> None:
    assert client.send(client.message(topic), client.message(f"{topic}x")).status.code == v2.MESSAGE_CORRUPTED
    assert client.send().status.code == v2.MESSAGE_CORRUPTED


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
    for _ in "ab":  # the first answer may have been lost
        assert client.call("RecallMessage", question).message_id == entry.message_id
    [gone] = client.send(client.message(topic, message_type=v2.DELAY, delivery_timestamp={"seconds": 1})).entries
    question = v2.RecallMessageRequest(topic=resource(topic), recall_handle=gone.recall_handle)
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
    assert end(7) == v2.BAD_REQUEST
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
    is_asked = threading.Event()

    def commands() -> Iterator[v2.TelemetryCommand]:
        yield v2.TelemetryCommand(settings=said)
        is_asked.wait(PATIENCE_SECONDS)
        time.sleep(1.5)  # in which it would be asked about the other one too

    ask = client.channel.stream_stream(
        SERVICE + "Telemetry", v2.TelemetryCommand.SerializeToString, v2.TelemetryCommand.FromString
    )
    asked: set[bytes] = set()
    for command in ask(commands(), timeout=2 * PATIENCE_SECONDS, metadata=client.metadata()):
        if command.HasField("recover_orphaned_transaction_command"):
            asked.add(command.recover_orphaned_transaction_command.message.body)
            is_asked.set()
    assert asked == {b"0"}


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
    assert answer.settings.subscription.long_polling_timeout.seconds == int(SETTINGS["grpc.long_polling_seconds"])
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
        ask(b"", timeout=PATIENCE_SECONDS, metadata=client.metadata())
    assert raised.value.code() is grpc.StatusCode.UNIMPLEMENTED  # type: ignore[attr-defined]


def test_namespaces_are_apart(server: ServerProcess, topic: str, group: str) -> None:
    http_json(server, "PUT", "/api/v1/namespaces/team", {})
    with GrpcClient(server.address("grpc"), namespace="team") as team, GrpcClient(server.address("grpc")) as other:
        assert team.send(team.message(topic, b"ours")).status.code == v2.OK
        assert other.receive(topic, group) == []
        [found] = team.receive(topic, group)
        assert (found.body, found.topic) == (b"ours", resource(topic, "team"))
        assert team.ack(topic, group, found).status.code == v2.OK
