"""A typo makes no consumer group where `groups.auto_create` is off, at whichever door it is made."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from entrepot.protocols.mqtt.reason_codes import ReasonCode
from entrepot.protocols.rocketmq import v2_pb2 as v2
from tests.support.http.client import http_request
from tests.support.http.pull import http_json
from tests.support.http.websocket_client import WebSocketClient
from tests.support.mqtt.client import RawClient
from tests.support.processes.server import ServerProcess
from tests.support.rocketmq.client import GrpcClient, resource

GROUPS = "/api/v1/groups"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("groups"), {"groups.auto_create": "false"}) as running:
        http_json(running, "PUT", "/api/v1/topics/t", {})
        http_json(running, "PUT", f"{GROUPS}/defined", {})
        yield running


def received(server: ServerProcess, group: str) -> object:
    url = f"http://127.0.0.1:{server.port('http')}/topics/t/eventsubscriptions/{group}:receive?maxWaitTime=0"
    return http_request("POST", url).status_code


def streamed(server: ServerProcess, group: str) -> object:
    path = f"/topics/t/eventsubscriptions/{group}:stream"
    with WebSocketClient(server.port("http"), path, "cloudevents.json") as client:
        return client.status


def joined(server: ServerProcess, group: str) -> object:
    url = f"http://127.0.0.1:{server.port('http')}{GROUPS}/{group}/topics/t/members/m"
    return http_request("POST", url, headers={"content-type": "application/json"}, content=b"{}").status_code


def shared(server: ServerProcess, group: str) -> object:
    with RawClient(server.port("mqtt")) as client:
        client.connect(f"of-{group}")
        return client.subscribe(f"$share/{group}/t/#").reasons[0]


def popped(server: ServerProcess, group: str) -> object:
    with GrpcClient(server.address("grpc")) as client:
        return client.try_receive("t", group)[0].code


def told_of(server: ServerProcess, group: str) -> object:
    """Of the lite topics that a client wants."""
    question = v2.SyncLiteSubscriptionRequest(
        action=v2.COMPLETE_ADD, topic=resource("t"), group=resource(group), lite_topic_set=["a"]
    )
    with GrpcClient(server.address("grpc")) as client:
        return client.call("SyncLiteSubscription", question).status.code


WAYS: list[tuple[Callable[[ServerProcess, str], object], object, object]] = [
    (received, 200, 404),
    (streamed, 101, 404),
    (joined, 200, 404),
    (shared, 1, ReasonCode.UNSPECIFIED_ERROR),
    (told_of, v2.OK, v2.CONSUMER_GROUP_NOT_FOUND),
    (popped, v2.MESSAGE_NOT_FOUND, v2.CONSUMER_GROUP_NOT_FOUND),
]


@pytest.mark.parametrize(("way", "taken", "refused"), WAYS)
def test_a_group_is_defined_or_not_there(
    server: ServerProcess, way: Callable[[ServerProcess, str], object], taken: object, refused: object
) -> None:
    assert way(server, "defined") == taken
    assert way(server, "defind") == refused
    assert [each["name"] for each in http_json(server, "GET", GROUPS)["value"]] == ["defined"]
    assert "Traceback" not in server.log_text()
