"""The grid's rows of the RocketMQ door: the operations of its own grid, and names in a namespace."""

from __future__ import annotations

from typing import Any

from entrepot.protocols.rocketmq import v2_pb2 as v2
from entrepot.protocols.rocketmq.headers import Credentials
from tests.e2e.rights.grid import Doors, Need, Row
from tests.e2e.rocketmq.test_rocketmq_access_grid import OPERATIONS, Operation
from tests.support.rocketmq.client import GrpcClient
from tests.support.rocketmq.site import SECRET

TOPIC, GROUP = "rocket", "rockets"
HELPER = "helper"
"""A super user with a signing secret, who sends and receives what is settled."""
OF_ANY_RIGHT = ("QueryRoute to send", "QueryRoute to receive", "QueryAssignment")
"""They tell who may send or receive: a right is enough, and is not taken away by the denial of the other."""


def denied(code: Any) -> bool:
    assert code in (v2.OK, v2.FORBIDDEN), v2.Code.Name(code)
    return bool(code == v2.FORBIDDEN)


def of_operation(operation: Operation) -> Row:
    def is_denied(doors: Doors, user: str) -> bool:
        with doors.client(user) as client, doors.client(HELPER) as helper:
            return denied(operation.attempt(client, helper, TOPIC, GROUP))

    verb, _, form = operation.name.partition(" ")
    return Row("RocketMQ", verb, form or "a topic", operation.needs(TOPIC, GROUP), is_denied, frozenset((verb,)))


def of_plant(doors: Doors, user: str) -> GrpcClient:
    return GrpcClient(doors.server.address("grpc"), Credentials(user, SECRET), namespace="plant")


def send(doors: Doors, user: str) -> bool:
    with of_plant(doors, user) as client:
        return denied(client.send(client.message(TOPIC)).status.code)


def receive(doors: Doors, user: str) -> bool:
    with of_plant(doors, user) as client:
        code = client.try_receive(TOPIC, GROUP)[0].code
    return denied(v2.OK if code == v2.MESSAGE_NOT_FOUND else code)


CONSUMING: tuple[Need, ...] = (("SUB", f"Topic:$ns/plant/{TOPIC}/#"), ("SUB", f"Group:$ns/plant/{GROUP}"))
ROWS = [
    *(of_operation(each) for each in OPERATIONS if each.name not in OF_ANY_RIGHT),
    Row("RocketMQ", "SendMessage", "namespace", (("PUB", f"Topic:$ns/plant/{TOPIC}"),), send),
    Row("RocketMQ", "ReceiveMessage", "namespace", CONSUMING, receive),
]


def prepare(doors: Doors) -> None:
    doors.user(name=HELPER)
    assert doors.root.put(f"/api/v1/users/{HELPER}", json={"super": True}).status_code == 200
    for below in ("", "/namespaces/plant"):
        answer = doors.root.put(f"/api/v1{below}/topics/{TOPIC}", json={"queues": 1})
        assert answer.status_code == 201, answer.text
