"""Each delivery case is played: a real server sends to a real receiver, which is a process of its own."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator
from email.utils import formatdate
from typing import Any

import httpx2
import pytest

from entrepot.gateway.settings import Settings
from tests.conformance.cloudevents.case import BINARY
from tests.conformance.cloudevents.deliveries import DELIVERIES, DeliveryCase
from tests.support.http.client import http_client
from tests.support.http.server import HttpServer, serving
from tests.support.http.webhook_receiver import WebhookReceiver, body_of
from tests.support.waiting import wait_until

WEBHOOKS = {"allow_http": True, "allowed_networks": ["127.0.0.0/8"], "origin": "events.example"}


@pytest.fixture(scope="module")
def receiver() -> Iterator[WebhookReceiver]:
    running = WebhookReceiver()
    yield running
    running.stop()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    with serving("embedded", tmp_path_factory.mktemp("data"), Settings(webhooks=WEBHOOKS)) as running:
        yield running


@pytest.fixture
def client(server: HttpServer) -> Iterator[httpx2.Client]:
    with http_client(server.url) as running:
        yield running


@pytest.fixture
def topic() -> str:
    return f"t{uuid.uuid4().hex[:12]}"


def subscribe(client: httpx2.Client, receiver: WebhookReceiver, topic: str, **config: Any) -> dict[str, Any]:
    config = {"handshake": "off", "initialbackoffseconds": 0.05, "maxbackoffseconds": 0.2, **config}
    body = {"source": topic, "sink": receiver.hook(topic), "protocol": "HTTP", "config": config}
    answer = client.post("/subscriptions", json=body)
    assert answer.status_code == 201, answer.text
    made: dict[str, Any] = answer.json()
    return made


def publish(client: httpx2.Client, topic: str, headers: dict[str, str] = BINARY, body: bytes = b"") -> None:
    answer = client.post(f"/topics/{topic}:publish", headers=headers, content=body)
    assert answer.status_code == 200, answer.text


@pytest.mark.parametrize("case", DELIVERIES, ids=lambda case: case.name)
def test_delivery(client: httpx2.Client, receiver: WebhookReceiver, topic: str, case: DeliveryCase) -> None:
    subscribe(client, receiver, topic, mode=case.mode)
    publish(client, topic, case.headers, case.body)
    [request] = receiver.wait(topic, 1)
    assert request["method"] == "POST" and request["headers"]["webhook-request-origin"] == "events.example"
    for name, value in case.sent.items():
        assert request["headers"].get(name) == value
    if case.data is not None:
        assert body_of(request) == case.data
    if case.event is not None:
        assert request["headers"]["content-type"] == "application/cloudevents+json; charset=utf-8"
        assert json.loads(body_of(request)) == case.event


@pytest.mark.parametrize("status", [200, 201, 202, 204])
def test_successes_are_not_sent_again(
    client: httpx2.Client, receiver: WebhookReceiver, topic: str, status: int
) -> None:
    receiver.behave(topic, steps=[{"status": status}])
    subscribe(client, receiver, topic)
    publish(client, topic, {**BINARY, "ce-id": "1"})
    receiver.wait(topic, 1)
    publish(client, topic, {**BINARY, "ce-id": "2"})
    assert [one["headers"]["ce-id"] for one in receiver.wait(topic, 2)] == ["1", "2"]


def test_a_challenge_is_not_answered(client: httpx2.Client, receiver: WebhookReceiver, topic: str) -> None:
    receiver.behave(topic, then={"status": 401, "headers": {"www-authenticate": 'Digest realm="x", nonce="y"'}})
    made = subscribe(client, receiver, topic)
    publish(client, topic)
    path = f"/api/v1/groups/webhook~{made['id']}/dead-letters"
    wait_until(
        lambda: (answer := client.get(path)).status_code == 200 and len(answer.json()["value"]) == 1, "the dead letter"
    )
    [request] = receiver.seen(topic)
    assert "authorization" not in request["headers"]


def test_retry_after_is_a_date_too(client: httpx2.Client, receiver: WebhookReceiver, topic: str) -> None:
    moment = int(time.time()) + 2
    receiver.behave(topic, steps=[{"status": 429, "headers": {"retry-after": formatdate(moment, usegmt=True)}}])
    subscribe(client, receiver, topic)
    publish(client, topic)
    receiver.wait(topic, 2)
    assert time.time() >= moment


def test_the_rate_allowed_is_kept_to(client: httpx2.Client, receiver: WebhookReceiver, topic: str) -> None:
    receiver.behave(topic, rate=300)
    made = subscribe(client, receiver, topic, handshake="required")
    wait_until(
        lambda: client.get(f"/subscriptions/{made['id']}").json()["status"]["consent"] == "granted", "the consent"
    )
    began = time.monotonic()
    for number in range(5):
        publish(client, topic, {**BINARY, "ce-id": str(number)})
    receiver.wait(topic, 5)
    assert time.monotonic() - began >= 0.55  # five a second, and one ahead


def test_headers_of_consent_without_a_rate_allow_any(
    client: httpx2.Client, receiver: WebhookReceiver, topic: str
) -> None:
    made = subscribe(client, receiver, topic, handshake="required", ratelimit=6000)
    publish(client, topic)
    receiver.wait(topic, 1)
    [asked] = receiver.seen(topic + ":options")
    assert asked["headers"]["webhook-request-rate"] == "6000"
    status = client.get(f"/subscriptions/{made['id']}").json()["status"]
    assert (status["consent"], status["allowedrate"]) == ("granted", "*")
