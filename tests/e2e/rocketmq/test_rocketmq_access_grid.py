"""The authorisation grid at the RocketMQ door (contract row 19): operation x decision."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from entrepot.protocols.rocketmq import v2_pb2 as v2
from tests.support.cases import cases
from tests.support.rocketmq.client import GrpcClient, resource
from tests.support.rocketmq.site import EVERYTHING, Needs, Site, allow, statements

# -- what: the grid --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Operation:
    """What it is called, what it needs, and how it is tried: with a client, a topic and a group, giving the code."""

    name: str
    needs: Callable[[str, str], Needs]
    attempt: Callable[[GrpcClient, GrpcClient, str, str], Any]


def _receive(client: GrpcClient, root: GrpcClient, topic: str, group: str) -> Any:
    status, _ = client.try_receive(topic, group)
    return v2.OK if status.code == v2.MESSAGE_NOT_FOUND else status.code


def _popped(root: GrpcClient, topic: str, group: str) -> v2.Message:
    root.send(root.message(topic))
    [found] = root.receive(topic, group, 1)
    return found


def _ack(client: GrpcClient, root: GrpcClient, topic: str, group: str) -> Any:
    return client.ack(topic, group, _popped(root, topic, group)).status.code


def _change(client: GrpcClient, root: GrpcClient, topic: str, group: str) -> Any:
    handle = _popped(root, topic, group).system_properties.receipt_handle
    question = v2.ChangeInvisibleDurationRequest(topic=resource(topic), group=resource(group), receipt_handle=handle)
    question.invisible_duration.FromSeconds(60)
    return client.call("ChangeInvisibleDuration", question).status.code


def _forward(client: GrpcClient, root: GrpcClient, topic: str, group: str) -> Any:
    handle = _popped(root, topic, group).system_properties.receipt_handle
    question = v2.ForwardMessageToDeadLetterQueueRequest(
        topic=resource(topic), group=resource(group), receipt_handle=handle
    )
    return client.call("ForwardMessageToDeadLetterQueue", question).status.code


def _send(client: GrpcClient, root: GrpcClient, topic: str, group: str) -> Any:
    return client.send(client.message(topic)).status.code


def _send_below(client: GrpcClient, root: GrpcClient, topic: str, group: str) -> Any:
    return client.send(client.message(topic, properties={"entrepot_sub_topic": f"{topic}/line"})).status.code


def _send_lite(client: GrpcClient, root: GrpcClient, topic: str, group: str) -> Any:
    return client.send(client.message(topic, lite_topic="line", message_type=v2.LITE)).status.code


def _recall(client: GrpcClient, root: GrpcClient, topic: str, group: str) -> Any:
    later = {"seconds": int(time.time()) + 600}
    [entry] = root.send(root.message(topic, message_type=v2.DELAY, delivery_timestamp=later)).entries
    question = v2.RecallMessageRequest(topic=resource(topic), recall_handle=entry.recall_handle)
    return client.call("RecallMessage", question).status.code


def _half(client: GrpcClient, root: GrpcClient, topic: str, **about: Any) -> Any:
    """A transaction of the client, or of root where the client may not begin one."""
    message = root.message(topic, message_type=v2.TRANSACTION, **about)
    for sender in (client, root):
        if (sent := sender.send(message)).status.code == v2.OK:
            break
    return sent.entries[0]


def _end(client: GrpcClient, root: GrpcClient, topic: str, group: str) -> Any:
    entry = _half(client, root, topic)
    question = v2.EndTransactionRequest(
        topic=resource(topic), transaction_id=entry.transaction_id, resolution=v2.COMMIT
    )
    return client.call("EndTransaction", question).status.code


def _end_below(client: GrpcClient, root: GrpcClient, topic: str, group: str) -> Any:
    below = {"entrepot_sub_topic": f"{topic}/line"}
    entry = _half(client, root, topic, properties=below)
    question = v2.EndTransactionRequest(
        topic=resource(topic), transaction_id=entry.transaction_id, resolution=v2.COMMIT
    )
    return client.call("EndTransaction", question).status.code


def _route(client: GrpcClient, root: GrpcClient, topic: str, group: str) -> Any:
    return client.call("QueryRoute", v2.QueryRouteRequest(topic=resource(topic))).status.code


def _assignment(client: GrpcClient, root: GrpcClient, topic: str, group: str) -> Any:
    question = v2.QueryAssignmentRequest(topic=resource(topic), group=resource(group))
    return client.call("QueryAssignment", question).status.code


def _heartbeat(client: GrpcClient, root: GrpcClient, topic: str, group: str) -> Any:
    question = v2.HeartbeatRequest(group=resource(group), client_type=v2.SIMPLE_CONSUMER)
    return client.call("Heartbeat", question).status.code


def _settings(client: GrpcClient, root: GrpcClient, topic: str, group: str) -> Any:
    said = v2.Settings(publishing=v2.Publishing(topics=[resource(topic)]))
    [answer] = client.telemetry(v2.TelemetryCommand(settings=said))
    return answer.status.code


def _consumer_settings(client: GrpcClient, root: GrpcClient, topic: str, group: str) -> Any:
    said = v2.Settings(subscription=v2.Subscription(group=resource(group)))
    [answer] = client.telemetry(v2.TelemetryCommand(settings=said))
    return answer.status.code


def _queue(topic: str) -> v2.MessageQueue:
    return v2.MessageQueue(topic=resource(topic), id=0)


def _pull(client: GrpcClient, root: GrpcClient, topic: str, group: str) -> Any:
    question = v2.PullMessageRequest(message_queue=_queue(topic), batch_size=1, group=resource(group))
    code = next(iter(client.stream("PullMessage", question))).status.code
    return v2.OK if code == v2.MESSAGE_NOT_FOUND else code


def _query_offset(client: GrpcClient, root: GrpcClient, topic: str, group: str) -> Any:
    return client.call("QueryOffset", v2.QueryOffsetRequest(message_queue=_queue(topic))).status.code


def _get_offset(client: GrpcClient, root: GrpcClient, topic: str, group: str) -> Any:
    root.call("UpdateOffset", v2.UpdateOffsetRequest(message_queue=_queue(topic), group=resource(group)))
    return client.call("GetOffset", v2.GetOffsetRequest(message_queue=_queue(topic), group=resource(group))).status.code


def _update_offset(client: GrpcClient, root: GrpcClient, topic: str, group: str) -> Any:
    question = v2.UpdateOffsetRequest(message_queue=_queue(topic), group=resource(group))
    return client.call("UpdateOffset", question).status.code


def _lite(client: GrpcClient, root: GrpcClient, topic: str, group: str) -> Any:
    question = v2.SyncLiteSubscriptionRequest(topic=resource(topic), group=resource(group), lite_topic_set=["a"])
    return client.call("SyncLiteSubscription", question).status.code


def consuming(topic: str, group: str) -> Needs:
    return (("SUB", f"Topic:{topic}/#"), ("SUB", f"Group:{group}"))


def publishing(topic: str, group: str) -> Needs:
    return (("PUB", f"Topic:{topic}"),)


def publishing_below(topic: str, group: str) -> Needs:
    return (("PUB", f"Topic:{topic}"), ("PUB", f"Topic:{topic}/line"))


def moving(topic: str, group: str) -> Needs:
    return (("PUB", f"Topic:{topic}/#"),)


def reading(topic: str, group: str) -> Needs:
    return (("SUB", f"Topic:{topic}/#"),)


def belonging(topic: str, group: str) -> Needs:
    return (("SUB", f"Group:{group}"),)


OPERATIONS = [
    Operation("ReceiveMessage", consuming, _receive),
    Operation("AckMessage", consuming, _ack),
    Operation("ChangeInvisibleDuration", consuming, _change),
    Operation("ForwardMessageToDeadLetterQueue", consuming, _forward),
    Operation("SyncLiteSubscription", consuming, _lite),
    Operation("PullMessage", consuming, _pull),
    Operation("GetOffset", consuming, _get_offset),
    Operation("UpdateOffset", consuming, _update_offset),
    Operation("QueryOffset", reading, _query_offset),
    Operation("SendMessage", publishing, _send),
    Operation("SendMessage below", publishing_below, _send_below),
    Operation("SendMessage lite", publishing_below, _send_lite),
    Operation("EndTransaction", publishing, _end),
    Operation("EndTransaction below", publishing_below, _end_below),
    Operation("RecallMessage", moving, _recall),
    Operation("Telemetry of a producer", publishing, _settings),
    Operation("Telemetry of a consumer", belonging, _consumer_settings),
    Operation("Heartbeat", belonging, _heartbeat),
    Operation("QueryRoute to send", publishing, _route),
    Operation("QueryRoute to receive", reading, _route),
    Operation("QueryAssignment", reading, _assignment),
]
DECISIONS = ["exactly", "nothing", "all but one", "denied besides", "super"]


@pytest.fixture(scope="module")
def helper(site: Site) -> str:
    """A user who may do everything."""
    return site.user(EVERYTHING)


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
@cases("decision", DECISIONS)
def test_the_grid(site: Site, helper: str, operation: Operation, decision: str) -> None:
    topic, group = f"t-{uuid.uuid4().hex[:10]}", f"g-{uuid.uuid4().hex[:10]}"
    assert site.root.put(f"/api/v1/topics/{topic}", json={"queues": 1}).status_code == 201
    needs = operation.needs(topic, group)
    if decision == "exactly":
        name = site.user(*statements(needs))
    elif decision == "nothing":
        name = site.user()
    elif decision == "all but one":
        name = site.user(*statements(needs[1:]))
    elif decision == "denied besides":
        name = site.user(EVERYTHING, allow(needs[-1], effect="DENY"))
        if operation.name.startswith("Query") and operation.name != "QueryOffset":
            site.policy(name, *statements(needs), allow(needs[-1], effect="DENY"))
    else:
        name = site.user()
        assert site.root.put(f"/api/v1/users/{name}", json={"super": True}).status_code == 200
    with site.client(name) as client, site.client(helper) as root:
        code = operation.attempt(client, root, topic, group)
    expected = v2.OK if decision in ("exactly", "super") else v2.FORBIDDEN
    assert v2.Code.Name(code) == v2.Code.Name(expected)
