"""Who may come in at the RocketMQ door, and what may be done: signatures, certificates, the authorisation grid."""

from __future__ import annotations

import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import httpx2
import pytest

from protocols.rocketmq import v2_pb2 as v2
from protocols.rocketmq.headers import Credentials
from tests.e2e.rocketmq.conftest import LANGUAGES
from tests.support.certificates import TestAuthority
from tests.support.rocketmq_client import GrpcClient, resource
from tests.support.rocketmq_peers.peer import RefusedError, RocketMqPeer
from tests.support.server import ServerProcess
from tests.support.waiting import wait_until

SECRET = "a-signing-secret"
Needs = tuple[tuple[str, str], ...]


@dataclass
class Site:
    """A running server with users, and its super user."""

    server: ServerProcess
    root: httpx2.Client

    def user(self, *statements: dict[str, Any], name: str = "", secret: str = SECRET) -> str:
        name = name or f"u{uuid.uuid4().hex[:10]}"
        assert self.root.put(f"/api/v1/users/{name}", json={"signingSecret": secret}).status_code in (200, 201)
        self.policy(name, *statements)
        return name

    def policy(self, name: str, *statements: dict[str, Any]) -> None:
        assert self.root.put(f"/api/v1/acls/{name}", json={"statements": list(statements)}).status_code in (200, 201)

    def client(self, name: str, secret: str = SECRET, **others: Any) -> GrpcClient:
        return GrpcClient(self.server.address("grpc"), Credentials(name, secret), **others)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    settings = {"security.initial_admin": "root", "security.initial_admin_password": "pw"}
    with ServerProcess(tmp_path_factory.mktemp("site"), settings) as server:  # noqa: SIM117
        with httpx2.Client(base_url=f"http://{server.address('http')}", auth=("root", "pw"), trust_env=False) as root:
            yield Site(server, root)


def allow(*needs: tuple[str, str], effect: str = "ALLOW") -> dict[str, Any]:
    return {
        "effect": effect,
        "actions": sorted({action for action, _ in needs}),
        "resources": sorted({place for _, place in needs}),
    }


def statements(needs: Needs) -> list[dict[str, Any]]:
    return [allow(need) for need in needs]


EVERYTHING = {"effect": "ALLOW", "actions": ["ALL"], "resources": ["Topic:*", "Group:*"]}


# -- who ---------------------------------------------------------------------------------------------------------------


def heartbeat(client: GrpcClient) -> Any:
    with client:
        return client.call("Heartbeat", v2.HeartbeatRequest(client_type=v2.PRODUCER)).status.code


def test_signatures(site: Site) -> None:
    name = site.user(EVERYTHING)
    assert heartbeat(site.client(name)) == v2.OK
    assert heartbeat(site.client(name, "another secret")) == v2.UNAUTHORIZED
    assert heartbeat(site.client(name, "")) == v2.UNAUTHORIZED
    assert heartbeat(site.client("nobody")) == v2.UNAUTHORIZED
    assert heartbeat(GrpcClient(site.server.address("grpc"))) == v2.UNAUTHORIZED
    assert heartbeat(site.client("root", "pw")) == v2.UNAUTHORIZED  # a password is no signing secret
    assert site.root.put(f"/api/v1/users/{name}", json={"enabled": False}).status_code == 200
    assert heartbeat(site.client(name)) == v2.FORBIDDEN


@pytest.mark.parametrize("header", ["", "Basic cm9vdDpwdw==", "MQv2-HMAC-SHA1 Credential=", "x" * 5000])
def test_headers_that_are_none(site: Site, header: str) -> None:
    metadata = [("x-mq-client-id", "c"), ("x-mq-date-time", "20260101T000000Z"), ("authorization", header)]
    assert heartbeat(GrpcClient(site.server.address("grpc"), metadata=metadata)) == v2.UNAUTHORIZED


def test_a_signature_in_small_letters_with_a_region(site: Site) -> None:
    from protocols.rocketmq.headers import signature

    name, date_time = site.user(EVERYTHING), "20260101T000000Z"
    shown = (
        f"Credential={name}/cn/rocketmq, SignedHeaders=x-mq-date-time, Signature={signature(SECRET, date_time).lower()}"
    )
    metadata = [
        ("x-mq-client-id", "c"),
        ("x-mq-date-time", date_time),
        ("authorization", f"MQv2-HMAC-SHA1 {shown}"),
    ]
    assert heartbeat(GrpcClient(site.server.address("grpc"), metadata=metadata)) == v2.OK


def test_another_secret_ends_the_first_one(site: Site) -> None:
    name = site.user(EVERYTHING)
    with site.client(name) as client:
        client.send(client.message("t"))
        assert site.root.put(f"/api/v1/users/{name}", json={"signingSecret": "another-secret"}).status_code == 200
        assert client.send(client.message("t")).status.code == v2.UNAUTHORIZED
    with site.client(name, "another-secret") as client:
        assert client.send(client.message("t")).status.code == v2.OK
    assert site.root.put(f"/api/v1/users/{name}", json={"signingSecret": ""}).status_code == 200
    assert heartbeat(site.client(name, "another-secret")) == v2.UNAUTHORIZED
    shown = site.root.get(f"/api/v1/users/{name}").json()
    assert shown["hasSigningSecret"] is False and "another-secret" not in str(shown)


def test_failures_are_audited(site: Site) -> None:
    heartbeat(site.client("intruder"))
    entries = site.root.get("/api/v1/audit").json()["value"]
    assert any(entry["subject"] == "intruder" and entry["protocol"] == "rocketmq" for entry in entries)


@pytest.mark.parametrize("language", LANGUAGES)
def test_published_clients_with_credentials(site: Site, language: str) -> None:
    name, topic = site.user(EVERYTHING), f"t-{uuid.uuid4().hex[:8]}"
    with RocketMqPeer(site.server.address("grpc"), language, access_key=name, secret=SECRET) as peer:
        peer.send(peer.producer(topic), topic, b"signed")
        assert [each.body for each in peer.take(peer.simple("g", topic), 1)] == [b"signed"]
    with RocketMqPeer(site.server.address("grpc"), language, access_key=name, secret="wrong-secret") as peer:  # noqa: SIM117
        with pytest.raises((RefusedError, TimeoutError)):
            peer.send(peer.producer(topic), topic, b"signed")


def test_the_command_makes_a_secret(site: Site, tmp_path: Path) -> None:
    name = site.user(EVERYTHING)
    environment = {"ENTREPOT_USER": "root", "ENTREPOT_PASSWORD": "pw", "PATH": "/usr/bin:/bin"}
    command = [sys.executable, "-m", "gateway.cli", "user", "signing-secret", name]
    server = ["--server", f"http://{site.server.address('http')}"]
    made = subprocess.run(
        [*command, *server], env=environment, capture_output=True, text=True, check=True
    ).stdout.strip()
    assert len(made) >= 24
    assert heartbeat(site.client(name, made)) == v2.OK
    subprocess.run([*command, "--remove", *server], env=environment, capture_output=True, check=True)
    assert heartbeat(site.client(name, made)) == v2.UNAUTHORIZED


def test_old_signatures_where_they_are_not_taken(tmp_path: Path) -> None:
    settings = {
        "security.initial_admin": "root",
        "security.initial_admin_password": "pw",
        "grpc.signature_tolerance_seconds": "60",
    }
    with ServerProcess(tmp_path, settings) as server:  # noqa: SIM117 - one line would be too long
        with httpx2.Client(base_url=f"http://{server.address('http')}", auth=("root", "pw"), trust_env=False) as root:
            site = Site(server, root)
            name, now_ms = site.user(EVERYTHING), int(time.time() * 1000)
            assert heartbeat(site.client(name, now_ms=now_ms)) == v2.OK
            assert heartbeat(site.client(name, now_ms=now_ms - 120_000)) == v2.UNAUTHORIZED
            assert heartbeat(site.client(name, now_ms=now_ms + 120_000)) == v2.UNAUTHORIZED


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


def _end(client: GrpcClient, root: GrpcClient, topic: str, group: str) -> Any:
    [entry] = root.send(root.message(topic, message_type=v2.TRANSACTION)).entries
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
    Operation("RecallMessage", moving, _recall),
    Operation("Telemetry of a producer", publishing, _settings),
    Operation("Telemetry of a consumer", belonging, _consumer_settings),
    Operation("Heartbeat", belonging, _heartbeat),
    Operation("QueryRoute to send", publishing, _route),
    Operation("QueryRoute to receive", reading, _route),
    Operation("QueryAssignment", reading, _assignment),
]
DECISIONS = ["exactly", "nothing", "all but one", "denied besides", "super"]


@pytest.mark.parametrize("decision", DECISIONS)
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_the_grid(site: Site, operation: Operation, decision: str) -> None:
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
    helper = site.user(EVERYTHING)
    with site.client(name) as client, site.client(helper) as root:
        code = operation.attempt(client, root, topic, group)
    expected = v2.OK if decision in ("exactly", "super") else v2.FORBIDDEN
    assert v2.Code.Name(code) == v2.Code.Name(expected)


def test_a_right_that_is_taken_away_counts_at_once(site: Site) -> None:
    name, topic = site.user(EVERYTHING), f"t-{uuid.uuid4().hex[:10]}"
    with site.client(name) as client:
        assert client.send(client.message(topic)).status.code == v2.OK
        site.policy(name)
        wait_until(lambda: client.send(client.message(topic)).status.code == v2.FORBIDDEN, "forbidden")


# -- TLS ---------------------------------------------------------------------------------------------------------------


def tls_settings(authority: TestAuthority, mode: str, **others: str) -> dict[str, str]:
    certificate = authority.issue("server")
    return {"grpc.tls": mode, "grpc.tls_certificate": str(certificate), "mqtt.tls_reload_seconds": "0.1", **others}


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("mode", ["required", "optional"])
def test_tls(tmp_path: Path, mode: str, language: str) -> None:
    authority = TestAuthority(tmp_path)
    with ServerProcess(tmp_path, tls_settings(authority, mode)) as server:
        roots = str(authority.file)
        with RocketMqPeer(server.address("grpc"), language, root_certificates=roots) as peer:
            peer.send(peer.producer("t"), "t", b"secret")
            assert [each.body for each in peer.take(peer.simple("g", "t"), 1)] == [b"secret"]
        with GrpcClient(server.address("grpc")) as plain:
            question = v2.HeartbeatRequest(client_type=v2.PRODUCER)
            if mode == "optional":
                assert plain.call("Heartbeat", question).status.code == v2.OK
            else:
                with pytest.raises(grpc.RpcError):
                    plain.call("Heartbeat", question, seconds=2)


def test_both_on_one_port_know_where_clients_are(tmp_path: Path) -> None:
    """Without users only clients of this machine come in: the relay is not taken for the client."""
    authority = TestAuthority(tmp_path)
    with ServerProcess(tmp_path, tls_settings(authority, "optional")) as server:
        with GrpcClient(server.address("grpc"), roots=authority.file.read_bytes()) as client:
            assert client.send(client.message("t", b"x" * 3_000_000)).status.code == v2.OK
            [found] = client.receive("t", "g")
            assert len(found.body) == 3_000_000
        assert server.stop() == 0


def test_certificates_are_swapped(tmp_path: Path) -> None:
    authority = TestAuthority(tmp_path)
    with ServerProcess(tmp_path, tls_settings(authority, "required")) as server:
        roots = authority.file.read_bytes()
        with GrpcClient(server.address("grpc"), roots=roots) as client:
            assert heartbeat(client) == v2.OK
        other = TestAuthority(tmp_path)
        other.issue("server")

        def is_swapped() -> bool:
            try:
                with GrpcClient(server.address("grpc"), roots=other.file.read_bytes()) as client:
                    question = v2.HeartbeatRequest(client_type=v2.PRODUCER)
                    return bool(client.call("Heartbeat", question, seconds=2).status.code == v2.OK)
            except grpc.RpcError:
                return False

        wait_until(is_swapped, "the new certificate")
