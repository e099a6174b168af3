"""A door whose webhooks may go to loopback addresses, and a receiver that is a process of its own."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator

import httpx2
import pytest

from entrepot.gateway.settings import Settings
from tests.support.http.client import http_client
from tests.support.http.server import STORES, HttpServer, serving_of
from tests.support.http.webhook_receiver import WebhookReceiver
from tests.support.processes.one_worker import keep_file_together

CIRCUIT_SECONDS = 0.15
MAX_WAITING = 10
WEBHOOKS = {
    "allow_http": True,
    "allowed_networks": ["127.0.0.0/8"],
    "origin": "events.example",
    "max_waiting_events": MAX_WAITING,
    "circuit_failures": 3,
    "circuit_seconds": CIRCUIT_SECONDS,
    "public_url": "https://events.example",
}


def pytest_itemcollected(item: pytest.Item) -> None:
    keep_file_together(item)


@pytest.fixture(scope="session")
def receiver() -> Iterator[WebhookReceiver]:
    running = WebhookReceiver()
    yield running
    running.stop()


@pytest.fixture(scope="module", params=STORES)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    with serving_of(request, tmp_path_factory.mktemp("data"), Settings(webhooks=WEBHOOKS)) as running:
        yield running


@pytest.fixture
def client(server: HttpServer) -> Iterator[httpx2.Client]:
    with http_client(server.url) as running:
        yield running


@pytest.fixture
def topic() -> str:
    """A name that no other test has."""
    return f"t{uuid.uuid4().hex[:12]}"


Subscribe = Callable[..., dict]


@pytest.fixture
def subscribe(client: httpx2.Client, receiver: WebhookReceiver, topic: str) -> Iterator[Subscribe]:
    """Subscribes the receiver's hook of the topic's name; all of it is ended with the test."""
    made: list[str] = []

    def subscribe(**fields: object) -> dict:
        config: dict = {"handshake": "off", "initialbackoffseconds": 0.05, "maxbackoffseconds": 0.2}
        config |= fields.pop("config", {})  # type: ignore[arg-type, call-overload]
        body = {"source": topic, "sink": receiver.hook(topic), "protocol": "HTTP", "config": config, **fields}
        answer = client.post("/subscriptions", json=body)
        assert answer.status_code == 201, answer.text
        made.append(answer.json()["id"])
        return answer.json()

    yield subscribe
    for each in made:
        assert client.delete(f"/subscriptions/{each}").status_code in (204, 404)
