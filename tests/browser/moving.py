"""Queues, webhooks, event rules, bridges and jobs of a running server, filled through its doors."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import httpx2
import pika  # type: ignore[import-untyped]

from entrepot.spark_ingest.job.reporting import JobReports
from entrepot.spark_ingest.job.settings import JobSettings
from entrepot.spark_ingest.job.watching import JobProgress
from entrepot.store_client.blocking import StoreLocation
from tests.support.cheap_hashes import CHEAP_FLAGS
from tests.support.gateways.bridges import bridge_settings, remote
from tests.support.gateways.rocketmq_bridges import rocketmq_bridge_settings, rocketmq_remote
from tests.support.http.client import http_client
from tests.support.processes.server import Process

ADMIN: Final = ("root", "correct horse battery")
SETTINGS: Final = {
    "security.initial_admin": ADMIN[0],
    "security.initial_admin_password": ADMIN[1],
    **CHEAP_FLAGS,
    "webhooks.allow_http": "true",
    "webhooks.allowed_networks": '["127.0.0.0/8"]',
    "webhooks.circuit_failures": "2",
    "broker.enabled": "true",
    **bridge_settings(
        remote("mqtt://127.0.0.1:9", {"direction": "both", "filter": "plant/#"}, name="plant-west"),
    ),
    **rocketmq_bridge_settings(rocketmq_remote(9, {"direction": "in", "topics": ["orders"]}, name="old-cluster")),
}
HOSTILE: Final = "a<b>\u202egnp\x01"


def root_of(server: Process) -> httpx2.Client:
    """A client of the first user."""
    return http_client(f"http://127.0.0.1:{server.port('http')}", auth=ADMIN)


@contextmanager
def amqp(server: Process) -> Iterator[Any]:
    """A channel of pika."""
    credentials = pika.PlainCredentials(*ADMIN)
    parameters = pika.ConnectionParameters("127.0.0.1", server.port("amqp"), credentials=credentials)
    connection = pika.BlockingConnection(parameters)
    try:
        yield connection.channel()
    finally:
        connection.close()


def declare_shop(channel: Any) -> None:
    """Exchanges and queues of a shop, with messages."""
    channel.exchange_declare("orders", "topic", durable=True)
    channel.exchange_declare("audit", "fanout", durable=True)
    channel.exchange_bind("audit", "orders", routing_key="#")
    for queue, *keys in (("billing", "*.paid"), ("stock", "*.placed", "*.paid"), ("archive",)):
        channel.queue_declare(queue, durable=True)
        for key in keys:
            channel.queue_bind(queue, "orders", key)
    channel.queue_bind("archive", "audit", "")
    channel.confirm_delivery()
    for number in range(6):
        channel.basic_publish("orders", "eu.paid" if number % 2 else "eu.placed", b"%d" % number)


def subscribe(root: httpx2.Client, sink: str, topic: str = "orders-out", **config: Any) -> str:
    """A subscription; its id."""
    body = {"source": topic, "sink": sink, "protocol": "HTTP", "config": {"initialbackoffseconds": 1, **config}}
    made = root.post("/subscriptions", json=body)
    assert made.status_code == 201, made.text
    return str(made.json()["id"])


def publish(root: httpx2.Client, topic: str, number: int) -> None:
    event = {"specversion": "1.0", "id": str(number), "source": "/shop", "type": "order", "data": {"n": number}}
    answer = root.post(
        f"/topics/{topic}:publish", content=json.dumps(event), headers={"content-type": "application/cloudevents+json"}
    )
    assert answer.status_code < 300, answer.text


def report_job(location: StoreLocation, folder: Path, topic: str, *, failure: str = "") -> None:
    """What a job tells the store of itself, by its own code."""
    checkpoint = folder / "checkpoint"
    checkpoint.mkdir(parents=True)
    (checkpoint / "metadata").write_text(json.dumps({"id": f"job-{folder.name}"}))
    reports = JobReports(JobSettings(location, str(folder / "lake"), subscribe=topic, checkpoint=str(checkpoint)))
    reports.progressed(JobProgress(7, 20, 10.0, 2.0, "", {topic: {0: 0, 1: 0, 2: 0, 3: 0}}))
    if failure:
        reports.ended(failure)
