"""One message through all doors, a bridge, a shovel, a webhook that fails, a dead letter, its resend, and Spark: its
journey is that of a model, which has every hop that was, in order, and none that was not."""

from __future__ import annotations

import http.client
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlencode

import pika  # type: ignore[import-untyped]
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from entrepot.domain.url import host_of
from entrepot.spark_ingest.job import run as job_run
from entrepot.spark_ingest.job.run import start, watch
from entrepot.spark_ingest.job.settings import JobSettings
from entrepot.spark_ingest.tables import TableFormat
from entrepot.store_client.blocking import StoreLocation
from tests.support.amqp.load import parameters
from tests.support.gateways.bridges import await_state, bridge_settings, remote
from tests.support.http.pull import http_json, journey_of
from tests.support.http.webhook_receiver import WebhookReceiver
from tests.support.mqtt.client import RawClient
from tests.support.processes.server import ServerProcess
from tests.support.rocketmq.peers.peer import RocketMqPeer
from tests.support.spark.journey_model import UNKNOWN, UNTIMED, Model, Step, hops_of
from tests.support.waiting import PATIENCE_SECONDS, wait_until

TOPIC: Final = "orders"
BODY: Final = b'{"device": "till-0417", "n": 1}'
EVENT: Final = {
    "ce-specversion": "1.0",
    "ce-id": "A-76904",
    "ce-type": "sale",
    "ce-source": "/till/0417",
    "ce-subject": "shop-17",
    "content-type": "application/json",
}
NAME: Final = {"by": "event", "id": "A-76904", "source": "/till/0417", "topic": TOPIC}


def delivered(during: str) -> tuple[Step, Step]:
    """A delivery of a traced topic that was taken at once."""
    return (
        Step("delivered", 1, "acknowledged", during=during, topic=TOPIC),
        Step("acknowledged", 1, "acknowledged", during=during, topic=TOPIC),
    )


# -- the steps -------------------------------------------------------------------------------------------------------


@pytest.fixture
def other(tmp_path: Path) -> Iterator[ServerProcess]:
    """The server at the other end of the bridge and of the shovel."""
    (tmp_path / "other").mkdir()
    with ServerProcess(tmp_path / "other", {"server.name": "gw-2"}) as running:
        http_json(running, "PUT", f"/api/v1/topics/{TOPIC}", {"trace": 1.0})
        yield running


@pytest.fixture
def ours(tmp_path: Path, other: ServerProcess) -> Iterator[ServerProcess]:
    (tmp_path / "ours").mkdir()
    rule = {"direction": "out", "filter": f"{TOPIC}/#"}
    settings = {
        **bridge_settings(remote(f"mqtt://127.0.0.1:{other.port('mqtt')}", rule, name="south")),
        "server.name": "gw-1",
        "broker.enabled": "true",
        "webhooks.allow_http": "true",
        "webhooks.allowed_networks": '["127.0.0.0/8"]',
    }
    with ServerProcess(tmp_path / "ours", settings) as running:
        http_json(running, "PUT", f"/api/v1/topics/{TOPIC}", {"trace": 1.0})
        await_state(running, "connected", "south")
        yield running


@pytest.fixture
def receiver() -> Iterator[WebhookReceiver]:
    running = WebhookReceiver()
    yield running
    running.stop()


def until_in(server: ServerProcess, lane: str, kind: str, **name: str) -> None:
    """Wait until a lane has a step of a kind."""
    wait_until(
        lambda: any(hop["lane"] == lane and hop["kind"] == kind for hop in journey_of(server, **name)["hops"]),
        lambda: f"{kind} in {lane}: {[(hop['lane'], hop['kind']) for hop in journey_of(server, **name)['hops']]}",
    )


def publish(server: ServerProcess) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", server.port("http"), timeout=PATIENCE_SECONDS)
    connection.request("POST", f"/topics/{TOPIC}:publish", BODY, EVENT)
    assert connection.getresponse().status == 200
    connection.close()


@contextmanager
def amqp_channel(server: ServerProcess) -> Iterator[Any]:
    connection = pika.BlockingConnection(parameters(server.port("amqp")))
    yield connection.channel()
    connection.close()


def declare(server: ServerProcess, queue: str, *keys: str) -> None:
    with amqp_channel(server) as channel:
        channel.queue_declare(queue, durable=True)
        for key in keys:
            channel.queue_bind(queue, "amq.topic", key)


def take_from_queue(server: ServerProcess, queue: str) -> None:
    with amqp_channel(server) as channel:

        def got() -> Any:
            method, _, body = channel.basic_get(queue)
            return method if body == BODY else None

        channel.basic_ack(wait_until(got, f"the message in {queue}").delivery_tag)


def shovel(source: ServerProcess, target: ServerProcess, queue: str) -> None:
    """Drain a queue into the one of its name at the other server."""
    urls = [f"amqp://guest:guest@127.0.0.1:{each.port('amqp')}/" for each in (source, target)]
    command = [sys.executable, "-m", "entrepot.gateway.cli", "shovel", "rabbitmq", "--queue", queue]
    asked = [*command, "--from", urls[0], "--to", urls[1], "--server", f"http://{target.address('http')}"]
    done = subprocess.run(asked, capture_output=True, text=True, timeout=2 * PATIENCE_SECONDS, check=False)
    assert done.returncode == 0, done.stderr


def subscribed(server: ServerProcess, receiver: WebhookReceiver) -> str:
    """A webhook that gives up after two attempts, whose sink refuses as many; its id."""
    receiver.behave("billing", steps=[{"status": 503}, {"status": 500}])
    config = {"handshake": "off", "initialbackoffseconds": 0.05, "maxbackoffseconds": 0.2, "maxattempts": 2}
    body = {"source": TOPIC, "sink": receiver.hook("billing"), "protocol": "HTTP", "config": config}
    made: dict[str, str] = http_json(server, "POST", "/subscriptions", body)
    return made["id"]


def ingest(spark: SparkSession, server: ServerProcess, table: Path) -> None:
    location = StoreLocation(brokers=(server.address("broker"),))
    settings = JobSettings(location=location, table=str(table), subscribe=TOPIC, format=TableFormat.DELTA)
    watch(start(spark, settings, job_run.AVAILABLE_NOW, print), lambda progress: None)


# -- the test --------------------------------------------------------------------------------------------------------


@pytest.mark.interop
def test_the_journey_is_that_of_the_model(
    spark: SparkSession, ours: ServerProcess, other: ServerProcess, receiver: WebhookReceiver, tmp_path: Path
) -> None:
    model, table = Model(), tmp_path / "lake" / "orders"
    for queue in ("warehouse", "archive"):
        declare(ours, queue, f"{TOPIC}.#")
    declare(other, "archive")
    webhook = subscribed(ours, receiver)
    group = f"webhook~{webhook}"
    with RawClient(ours.port("mqtt")) as member, model.during("all of it"):
        member.connect("wall-1")
        member.subscribe(f"$share/wall/{TOPIC}/#")
        with model.during("publishing"):
            publish(ours)
        member.expect_deliveries(1)
        take_from_queue(ours, "warehouse")
        take_by_rocketmq(model, ours)
        with model.during("shovel"):
            shovel(ours, other, "archive")
        resend(model, ours, group)
        receiver.wait("billing", 3)
        with model.during("Spark"):
            ingest(spark, ours, table)
    for lane in (f"group/{group}", "group/warehouse", "group/archive"):
        until_in(ours, lane, "acknowledged", **NAME)
    journey = journey_of(ours, **NAME)
    dispatch = next(lane["id"] for lane in journey["lanes"] if lane["name"] == "dispatcher")
    expect_at_home(model, dispatch, webhook)
    model.check(journey)
    check_who(journey, dispatch, webhook, host_of(receiver.hook("billing")))
    [ingested] = hops_of(journey, "tier")
    version = DeltaTable(table).version()
    assert f"Batch 0 of a Spark job wrote version {version} of {table} (delta)" in ingested["detail"]
    check_states(journey, dispatch.removeprefix("group/"), group)
    check_elsewhere(model, other)


def take_by_rocketmq(model: Model, server: ServerProcess) -> None:
    with RocketMqPeer(server.address("grpc")) as peer, model.during("RocketMQ"):
        assert peer.take(peer.simple("ledger", TOPIC), 1)[0].body == BODY
        until_in(server, "group/ledger", "acknowledged", **NAME)


def resend(model: Model, server: ServerProcess, group: str) -> None:
    """Send the group's one dead letter again, once it is there."""
    letters = f"/api/v1/groups/{quote(group, safe='')}/dead-letters"
    [letter] = wait_until(lambda: http_json(server, "GET", letters)["value"], "the dead letter")
    with model.during("resending"):
        answer = http_json(server, "POST", f"{letters}:resend", {"offsets": [letter["offset"]]})
    assert answer["failedOffsets"] == []


def check_elsewhere(model: Model, other: ServerProcess) -> None:
    """Compare the journeys at the other server: of what the bridge carried, and of what the shovel drained."""
    carried, drained = Model(model.spans), Model(model.spans)
    carried.expect("door", Step("takenIn", during="all of it"), Step("confirmed", when=UNKNOWN))
    carried.expect("log", Step("stored", during="all of it", topic=TOPIC))
    found = journey_of(other, id=newest(other, TOPIC))
    carried.check(found)
    assert (found["hops"][0]["door"], found["hops"][0]["gateway"]) == ("mqtt", "gw-2")
    assert found["message"]["subTopic"] == f"{TOPIC}/shop-17"
    door = (Step("takenIn", during="shovel"), Step("takenIn", when=UNKNOWN), Step("confirmed", when=UNKNOWN))
    drained.expect("door", *door)
    drained.expect("log", Step("queued", during="shovel", topic="%AMQP%archive"))
    found = journey_of(other, id=newest(other, "%AMQP%archive"))
    drained.check(found)
    assert (found["hops"][0]["door"], found["hops"][0]["gateway"]) == ("amqp", "gw-2")
    take_from_queue(other, "archive")


def expect_at_home(model: Model, dispatch: str, webhook: str) -> None:
    """Say what the server that took the message must know."""
    feed, lane = f"%SUB%{webhook}", f"group/webhook~{webhook}"
    model.expect("door", Step("takenIn", during="publishing"), Step("confirmed", when=UNKNOWN))
    model.expect(
        "log",
        Step("stored", during="publishing", topic=TOPIC),
        Step("queued", during="publishing", topic="%AMQP%archive"),
        Step("queued", during="publishing", topic="%AMQP%warehouse"),
        Step("queued", during="all of it", topic=feed),
    )
    for each in (dispatch, "group/wall", "group/bridge-south-1"):
        model.expect(each, *delivered("all of it"))
    model.expect("group/ledger", *delivered("RocketMQ"))
    model.expect(
        lane,
        Step("failed", 1, "HTTP 503, next try after", during="all of it", topic=feed),
        Step("delivered", 2, "HTTP 500, after 2 attempts", during="all of it", topic=feed),
        Step("deadLettered", 2, "HTTP 500, after 2 attempts", during="all of it", topic=f"%DLQ%webhook~{webhook}"),
        Step("resent", during="resending", topic=f"%RETRY%webhook~{webhook}+{feed}"),
        Step("acknowledged", outcome="settled", when=UNTIMED, topic=feed),
        Step("delivered", 1, when=UNKNOWN, topic=feed),
    )
    for queue in ("archive", "warehouse"):
        model.expect(f"group/{queue}", Step("acknowledged", outcome="settled", when=UNTIMED, topic=f"%AMQP%{queue}"))
    model.expect("tier", Step("ingested", during="Spark", topic=TOPIC))
    model.order = [
        ("door", "takenIn"),
        ("log", "stored"),
        (dispatch, "delivered"),
        (lane, "failed"),
        (lane, "deadLettered"),
        (lane, "resent"),
        ("tier", "ingested"),
    ]


def check_who(journey: dict[str, Any], dispatch: str, webhook: str, sink: str) -> None:
    """Compare who took the message in and who got it, and what stands for whom."""
    taken = journey["hops"][0]
    assert (taken["door"], taken["gateway"]) == ("http", "gw-1") and taken["client"].endswith("from 127.0.0.1")
    lanes = {lane["id"]: (lane["kind"], lane["name"]) for lane in journey["lanes"]}
    assert lanes == {
        "door": ("door", "Door"),
        "log": ("log", "Log"),
        dispatch: ("webhook", "dispatcher"),
        "group/wall": ("group", "wall"),
        "group/ledger": ("group", "ledger"),
        "group/warehouse": ("amqp", "warehouse"),
        "group/archive": ("amqp", "archive"),
        "group/bridge-south-1": ("bridge", "south"),
        f"group/webhook~{webhook}": ("webhook", webhook),
        "tier": ("tier", "Tier and tables"),
    }
    [hook] = [lane for lane in journey["lanes"] if lane["name"] == webhook]
    assert hook["detail"] == sink
    clients = {hop["lane"]: hop["client"] for hop in journey["hops"] if hop["kind"] == "delivered" and hop["isKnown"]}
    assert clients.pop("group/ledger").startswith("RocketMQ client ")
    assert clients == {
        dispatch: None,
        "group/wall": "members of MQTT share wall at gw-1",
        "group/bridge-south-1": "bridge south",
        f"group/webhook~{webhook}": f"webhook {webhook} at gw-1",
    }


def check_states(journey: dict[str, Any], dispatch: str, webhook: str) -> None:
    """Compare the groups' states at each place, and the places of all records."""
    feed = f"%SUB%{webhook.removeprefix('webhook~')}"
    retry = f"%RETRY%{webhook}+{feed}"
    states = {(each["group"], each["place"]["topic"]): each["state"] for each in journey["groups"]}
    taken = dict.fromkeys(((each, TOPIC) for each in (dispatch, "wall", "ledger", "bridge-south-1")), "consumed")
    queues = {(each, f"%AMQP%{each}"): "consumed" for each in ("archive", "warehouse")}
    assert states == {**taken, **queues, (webhook, feed): "deadLettered", (webhook, retry): "consumed"}
    assert [each["place"]["topic"] for each in journey["storage"]] == [TOPIC, feed, f"%DLQ%{webhook}", retry]


def newest(server: ServerProcess, topic: str) -> str:
    """The id of the one message of a topic."""
    [message] = http_json(server, "GET", f"/api/v1/messages?{urlencode({'topic': topic})}")["value"]
    return str(message["id"])
