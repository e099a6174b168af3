"""Who may come in at the RocketMQ door, and what may be done: signatures, certificates, the authorisation grid."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import grpc
import httpx2
import pytest

from entrepot.protocols.rocketmq import v2_pb2 as v2
from tests.e2e.rocketmq.conftest import LANGUAGES
from tests.support.cases import cases
from tests.support.processes.certificates import TestAuthority
from tests.support.processes.server import ServerProcess
from tests.support.rocketmq.client import GrpcClient, resource
from tests.support.rocketmq.peers.peer import RefusedError, RocketMqPeer
from tests.support.rocketmq.site import EVERYTHING, SECRET, Site
from tests.support.rocketmq.telemetry import producer, telemetry
from tests.support.waiting import PATIENCE_SECONDS, wait_until
from tests.tiers.marks import interop_only

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


def _now(date_format: str = "%Y%m%dT%H%M%SZ") -> str:
    return datetime.now(UTC).strftime(date_format)


@cases("header", ["", "Basic cm9vdDpwdw==", "MQv2-HMAC-SHA1 Credential=", "x" * 5000])
def test_headers_that_are_none(site: Site, header: str) -> None:
    metadata = [("x-mq-client-id", "c"), ("x-mq-date-time", _now()), ("authorization", header)]
    assert heartbeat(GrpcClient(site.server.address("grpc"), metadata=metadata)) == v2.UNAUTHORIZED


@cases("date_format", ["%Y%m%dT%H%M%SZ", "%Y-%m-%dT%H:%M:%S.123456789+00:00"])
def test_a_signature_in_small_letters_with_a_region(site: Site, date_format: str) -> None:
    from entrepot.protocols.rocketmq.headers import signature

    name, date_time = site.user(EVERYTHING), _now(date_format)
    shown = (
        f"Credential={name}/cn/rocketmq, SignedHeaders=x-mq-date-time, Signature={signature(SECRET, date_time).lower()}"
    )
    metadata = [
        ("x-mq-client-id", "c"),
        ("x-mq-date-time", date_time),
        ("authorization", f"MQv2-HMAC-SHA1 {shown}"),
    ]
    assert heartbeat(GrpcClient(site.server.address("grpc"), metadata=metadata)) == v2.OK


def test_guesses_end_soon_also_for_who_guesses_right(site: Site) -> None:
    name, other = site.user(EVERYTHING), site.user(EVERYTHING)
    with site.client(name) as client:
        assert client.send(client.message("t")).status.code == v2.OK
        found = [heartbeat(site.client(name, f"guess-{number}")) for number in range(25)]
        assert found[:20] == [v2.UNAUTHORIZED] * 20 and set(found[20:]) == {v2.TOO_MANY_REQUESTS}
        assert heartbeat(site.client(name)) == v2.TOO_MANY_REQUESTS, "it would tell that it is right"
    assert heartbeat(site.client(other)) == v2.OK, "another name is not touched"


def test_signatures_of_years_ago_are_refused(site: Site) -> None:
    name, now_ms = site.user(EVERYTHING), int(time.time() * 1000)
    assert heartbeat(site.client(name, now_ms=1_000_000_000_000)) == v2.UNAUTHORIZED
    for hours in (-14, 14):
        assert heartbeat(site.client(name, now_ms=now_ms + hours * 3_600_000)) == v2.OK, "local times are taken"


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
    command = [sys.executable, "-m", "entrepot.gateway.cli", "user", "signing-secret", name]
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
        with httpx2.Client(
            base_url=f"http://{server.address('http')}", auth=("root", "pw"), trust_env=False, timeout=PATIENCE_SECONDS
        ) as root:
            site = Site(server, root)
            name, now_ms = site.user(EVERYTHING), int(time.time() * 1000)
            assert heartbeat(site.client(name, now_ms=now_ms)) == v2.OK
            assert heartbeat(site.client(name, now_ms=now_ms - 120_000)) == v2.UNAUTHORIZED
            assert heartbeat(site.client(name, now_ms=now_ms + 120_000)) == v2.UNAUTHORIZED


def test_a_right_that_is_taken_away_counts_at_once(site: Site) -> None:
    name, topic = site.user(EVERYTHING), f"t-{uuid.uuid4().hex[:10]}"
    with site.client(name) as client:
        assert client.send(client.message(topic)).status.code == v2.OK
        site.policy(name)
        wait_until(lambda: client.send(client.message(topic)).status.code == v2.FORBIDDEN, "forbidden")


def test_a_client_id_of_another_user_is_another_client(site: Site) -> None:
    topic, group = f"t-{uuid.uuid4().hex[:10]}", f"g-{uuid.uuid4().hex[:10]}"
    victim = site.user(EVERYTHING)
    at_once = {"retry": {"kind": "immediate"}}
    assert site.root.put(f"/api/v1/groups/{group}", json=at_once).status_code == 201, "what is given back is there"
    with site.client(victim, client_id="one") as client, site.client(site.user(), client_id="one") as stranger:
        client.send(client.message(topic))
        [held] = client.receive(topic, group, auto_renew=True, wait_ms=2000)
        lite = v2.SyncLiteSubscriptionRequest(
            action=v2.COMPLETE_ADD, topic=resource("lite"), group=resource(group), lite_topic_set=["mine"]
        )
        assert client.call("SyncLiteSubscription", lite).status.code == v2.OK
        client.send(client.message("lite", b"theirs", lite_topic="theirs", message_type=v2.LITE))
        assert stranger.call("NotifyClientTermination", v2.NotifyClientTerminationRequest()).status.code == v2.OK
        with site.client(victim, client_id="another") as other:
            assert other.receive(topic, group, wait_ms=500) == []
        assert client.receive("lite", group, wait_ms=500) == []
        assert client.ack(topic, group, held).status.code == v2.OK


def test_a_transaction_is_its_users(site: Site) -> None:
    topic, bodies = f"t-{uuid.uuid4().hex[:10]}", {b"%d" % number for number in range(8)}
    with (
        site.client(site.user(EVERYTHING), client_id="same") as owner,
        site.client(site.user(EVERYTHING), client_id="same") as stranger,
        telemetry(owner, producer(topic)) as asked,
        telemetry(stranger, producer(topic)) as not_asked,
    ):
        soon: dict[str, Any] = {
            "message_type": v2.TRANSACTION,
            "orphaned_transaction_recovery_duration": {"seconds": 1},
        }
        ids = [owner.send(owner.message(topic, body, **soon)).entries[0].transaction_id for body in sorted(bodies)]
        found: set[bytes] = set()
        while found != bodies:
            found.add(asked.next().recover_orphaned_transaction_command.message.body)
        not_asked.end()
        assert not_asked.rest() == []

        def end(client: GrpcClient, resolution: Any) -> Any:
            question = v2.EndTransactionRequest(topic=resource(topic), transaction_id=ids[0], resolution=resolution)
            return client.call("EndTransaction", question).status.code

        assert end(stranger, v2.ROLLBACK) == v2.FORBIDDEN
        assert end(stranger, v2.TRANSACTION_RESOLUTION_UNSPECIFIED) == v2.FORBIDDEN
        assert end(owner, v2.COMMIT) == v2.OK


def test_a_deleted_user_is_told_nothing_any_more(site: Site) -> None:
    name = site.user(EVERYTHING)
    stays = threading.Event()

    def said() -> Iterator[v2.TelemetryCommand]:
        yield v2.TelemetryCommand(settings=v2.Settings(publishing=v2.Publishing(topics=[resource("sold")])))
        stays.wait(PATIENCE_SECONDS)

    with site.client(name) as client:
        told = client.telemetry(*(), said=said())
        assert next(told).status.code == v2.OK
        assert site.root.delete(f"/api/v1/users/{name}").status_code == 204
        assert [command.status.code for command in told] == [v2.UNAUTHORIZED]
        stays.set()


# -- TLS ---------------------------------------------------------------------------------------------------------------


def tls_settings(authority: TestAuthority, mode: str, **others: str) -> dict[str, str]:
    certificate = authority.issue("server")
    return {"grpc.tls": mode, "grpc.tls_certificate": str(certificate), "mqtt.tls_reload_seconds": "0.1", **others}


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("mode", [interop_only("required", name="required"), "optional"])
def test_tls_of_published_clients(tmp_path: Path, mode: str, language: str) -> None:
    authority = TestAuthority(tmp_path)
    with ServerProcess(tmp_path, tls_settings(authority, mode)) as server:
        roots = str(authority.file)
        with RocketMqPeer(server.address("grpc"), language, root_certificates=roots) as peer:
            peer.send(peer.producer("t"), "t", b"secret")
            assert [each.body for each in peer.take(peer.simple("g", "t"), 1)] == [b"secret"]
        assert_plain_is_taken(server, mode == "optional")


def assert_plain_is_taken(server: ServerProcess, is_taken: bool) -> None:
    with GrpcClient(server.address("grpc")) as plain:
        question = v2.HeartbeatRequest(client_type=v2.PRODUCER)
        if is_taken:
            assert plain.call("Heartbeat", question).status.code == v2.OK
        else:
            with pytest.raises(grpc.RpcError):
                plain.call("Heartbeat", question, seconds=1)


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
        assert_plain_is_taken(server, False)
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
