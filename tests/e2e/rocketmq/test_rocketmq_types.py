"""Types of messages and topics as RocketMQ's proxy has them, and what a route tells to which SDK."""

from __future__ import annotations

from typing import Any

import pytest

from entrepot.protocols.rocketmq import v2_pb2 as v2
from tests.support.cases import cases
from tests.support.http.pull import http_json
from tests.support.processes.server import ServerProcess
from tests.support.rocketmq.client import GrpcClient, resource
from tests.support.waiting import wait_until

USUAL = [v2.NORMAL, v2.FIFO, v2.DELAY, v2.TRANSACTION]


@cases(
    ("language", "version", "lite", "priority"),
    [
        ("JAVA", "5.0.8", False, False),
        ("JAVA", "5.1.0", True, False),
        ("JAVA", "5.2.1", True, True),
        ("JAVA", "", False, False),
        ("DOTNET", "5.1.0", False, False),
        ("PYTHON", "5.0.1", True, True),
        ("", "", True, True),
    ],
)
def test_a_route_tells_a_client_the_types_that_it_knows(
    client: GrpcClient, server: ServerProcess, topic: str, language: str, version: str, lite: bool, priority: bool
) -> None:
    client.replaced = {"x-mq-language": language, "x-mq-client-version": version}
    http_json(server, "PUT", f"/api/v1/topics/{topic}", {"queues": 1})
    http_json(server, "PUT", f"/api/v1/topics/{topic}-p", {"queues": 1, "type": "PRIORITY"})
    assert _types(client, topic) == USUAL + [v2.LITE] * lite
    assert _types(client, f"{topic}-p") == [v2.NORMAL, v2.DELAY, v2.TRANSACTION] + [v2.PRIORITY] * priority


def _types(client: GrpcClient, topic: str) -> list[Any]:
    [queue] = client.call("QueryRoute", v2.QueryRouteRequest(topic=resource(topic))).message_queues
    return list(queue.accept_message_types)


def test_an_assignment_tells_no_types(client: GrpcClient, topic: str) -> None:
    question = v2.QueryAssignmentRequest(topic=resource(topic), group=resource("g"))
    [assigned] = client.call("QueryAssignment", question).assignments
    assert list(assigned.message_queue.accept_message_types) == []


@cases(
    ("fields", "kind", "message_group"),
    [
        ({"message_group": "g"}, v2.FIFO, "g"),
        ({"message_type": v2.FIFO}, v2.NORMAL, ""),
        ({"message_type": v2.DELAY}, v2.NORMAL, ""),
        ({"message_type": v2.PRIORITY}, v2.NORMAL, ""),
        ({"message_type": v2.LITE}, v2.NORMAL, ""),
        ({"message_type": 99}, v2.NORMAL, ""),
        ({"delivery_timestamp": {"seconds": 1}}, v2.DELAY, ""),
        ({"delivery_timestamp": {"seconds": 1}, "message_group": "g"}, v2.DELAY, "g"),
        ({"properties": {"__SHARDINGKEY": "s"}}, v2.FIFO, "s"),
        ({"properties": {"__SHARDINGKEY": "s"}, "message_group": "g"}, v2.FIFO, "g"),
    ],
)
def test_the_properties_tell_the_type(
    client: GrpcClient, topic: str, group: str, fields: dict[str, Any], kind: Any, message_group: str
) -> None:
    assert client.send(client.message(topic, **fields)).status.code == v2.OK
    [found] = client.receive(topic, group, wait_ms=5000)
    system = found.system_properties
    assert (system.message_type, system.message_group) == (kind, message_group)
    assert dict(found.user_properties) == {}


def test_a_transaction_has_a_message_group(client: GrpcClient, topic: str, group: str) -> None:
    sent = client.send(client.message(topic, message_group="g", message_type=v2.TRANSACTION))
    end = v2.EndTransactionRequest(
        topic=resource(topic), transaction_id=sent.entries[0].transaction_id, resolution=v2.COMMIT
    )
    assert client.call("EndTransaction", end).status.code == v2.OK
    [found] = client.receive(topic, group, wait_ms=5000)
    assert (found.system_properties.message_type, found.system_properties.message_group) == (v2.TRANSACTION, "g")


def test_names_that_rocketmq_does_not_refuse_are_user_properties(client: GrpcClient, topic: str, group: str) -> None:
    said = {"__x": "1", "REDIRECT": "2", "CHECK_IMMUNITY_TIME_IN_SECONDS": "3", "INNER_NUM": "4"}
    assert client.send(client.message(topic, properties=said)).status.code == v2.OK
    [found] = client.receive(topic, group)
    assert dict(found.user_properties) == said


def test_a_trace_context_goes_along(client: GrpcClient, topic: str, group: str) -> None:
    client.send(client.message(topic, trace_context="00-a-b-01"))
    [found] = client.receive(topic, group)
    assert found.system_properties.trace_context == "00-a-b-01"
    assert dict(found.user_properties) == {"TRACE_CONTEXT": "00-a-b-01"}


@pytest.mark.parametrize(
    "name", ["TBW102", "SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_HALF_TOPIC", "rmq_sys_x", "BenchmarkTest"]
)
def test_rocketmqs_own_topics_are_nobodys(client: GrpcClient, group: str, name: str) -> None:
    assert client.send(client.message(name)).status.code == v2.ILLEGAL_TOPIC
    assert client.call("QueryRoute", v2.QueryRouteRequest(topic=resource(name))).status.code == v2.ILLEGAL_TOPIC
    assert client.try_receive(name, group)[0].code == v2.ILLEGAL_TOPIC


def test_rocketmqs_own_groups_are_nobodys(client: GrpcClient, topic: str) -> None:
    assert client.try_receive(topic, "CID_RMQ_SYS_TRANS")[0].code == v2.ILLEGAL_CONSUMER_GROUP


def test_all_lite_topics_are_no_lite_topic(client: GrpcClient, topic: str, group: str) -> None:
    question = v2.SyncLiteSubscriptionRequest(topic=resource(topic), group=resource(group), lite_topic_set=["a", "*"])
    assert client.call("SyncLiteSubscription", question).status.code == v2.ILLEGAL_LITE_TOPIC
    assert client.send(client.message(topic, lite_topic="*")).status.code == v2.ILLEGAL_LITE_TOPIC


def test_a_check_shows_a_first_attempt_and_its_store(client: GrpcClient, topic: str) -> None:
    said = v2.Settings(client_type=v2.PRODUCER, publishing=v2.Publishing(topics=[resource(topic)]))
    asked: list[v2.SystemProperties] = []

    def said_for_ever() -> Any:
        yield v2.TelemetryCommand(settings=said)
        wait_until(lambda: bool(asked), "a check")

    client.send(client.message(topic, message_type=v2.TRANSACTION))
    for command in client.telemetry(said=said_for_ever()):
        if command.HasField("recover_orphaned_transaction_command"):
            asked.append(command.recover_orphaned_transaction_command.message.system_properties)
            break
    assert asked[0].delivery_attempt == 1
    assert asked[0].store_host.rpartition(":")[2].isdecimal()


def test_an_empty_receive_ends_with_its_time(client: GrpcClient, topic: str, group: str) -> None:
    question = v2.ReceiveMessageRequest(
        group=resource(group), message_queue=v2.MessageQueue(topic=resource(topic), id=-1), batch_size=1
    )
    question.long_polling_timeout.FromMilliseconds(0)
    answers = [answer.WhichOneof("content") for answer in client.stream("ReceiveMessage", question)]
    assert answers == ["status", "delivery_timestamp"]
