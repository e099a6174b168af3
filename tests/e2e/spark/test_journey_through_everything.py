"""One message through all doors, a bridge, a shovel, a webhook that fails, a dead letter, its resend, and Spark: its
journey is that of a model, which has every hop that was, in order, and none that was not."""

from __future__ import annotations

import http.client
import itertools
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlencode

import pika  # type: ignore[import-untyped]
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from entrepot.spark_ingest.job import run as job_run
from entrepot.spark_ingest.job.run import start, watch
from entrepot.spark_ingest.job.settings import JobSettings
from entrepot.spark_ingest.tables import TableFormat
from entrepot.store_client.blocking import StoreLocation
from tests.support.amqp_load import parameters
from tests.support.bridges import await_state, bridge_settings, remote
from tests.support.http_pull import http_json
from tests.support.mqtt_client import RawClient
from tests.support.rocketmq_peers.peer import RocketMqPeer
from tests.support.server import ServerProcess
from tests.support.waiting import PATIENCE_SECONDS, wait_until
from tests.support.webhook_receiver import WebhookReceiver

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
TIMED, UNTIMED, UNKNOWN = "with a time", "at a time that is not kept", "not known"
MARGIN_MS: Final = 5
"""Times are cut to milliseconds, and a trace is written down a little after what it tells of."""


# -- the model -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Step:
    """One expected hop.  `when`: how much of its time is known; `during`: what was done meanwhile."""

    kind: str
    attempt: int | None = None
    outcome: str | None = None
    when: str = TIMED
    during: str | None = None
    topic: str | None = None


@dataclass
class Model:
    """What was done to a message, and the hops that this must have made: for each lane its steps in order."""

    spans: dict[str, tuple[float, float]] = field(default_factory=dict)
    lanes: dict[str, list[Step]] = field(default_factory=dict)
    order: list[tuple[str, str]] = field(default_factory=list)
    """Steps, by lane and kind, each of which was over before the next began."""

    @contextmanager
    def during(self, what: str) -> Iterator[None]:
        """Note when something was done, in epoch milliseconds."""
        begun = time.time() * 1000
        yield
        self.spans[what] = begun, time.time() * 1000

    def expect(self, lane: str, *steps: Step) -> None:
        self.lanes[lane] = list(steps)

    def check(self, journey: dict[str, Any]) -> None:
        """Compare a journey: its lanes, their hops, the times of these, and the order of all."""
        hops = journey["hops"]
        assert {lane["id"] for lane in journey["lanes"]} == set(self.lanes)
        for lane, steps in self.lanes.items():
            found = hops_of(journey, lane)
            assert [_step_of(hop, step) for hop, step in zip(found, steps, strict=False)] == steps, lane
            assert len(found) == len(steps), (lane, found[len(steps) :])
            for hop, step in zip(found, steps, strict=True):
                self._check_time(hop, step)
        ranks = [(not hop["isKnown"], hop["time"] is None, hop["time"] or "") for hop in hops]
        assert ranks == sorted(ranks)
        told = [(hop["lane"], hop["kind"]) for hop in hops]
        assert sorted(self.order, key=told.index) == self.order
        assert journey["known"] == sum(step.when != UNKNOWN for steps in self.lanes.values() for step in steps)
        assert journey["unknown"] == sum(step.when == UNKNOWN for steps in self.lanes.values() for step in steps)
        assert (journey["hidden"]["hops"], journey["cutCopies"], journey["missing"]) == (0, 0, [])

    def _check_time(self, hop: dict[str, Any], step: Step) -> None:
        if step.during is None:
            return
        begun, ended = self.spans[step.during]
        assert begun - MARGIN_MS <= ms_of(hop) <= ended + MARGIN_MS, (hop, step, begun, ended)


def _step_of(hop: dict[str, Any], like: Step) -> Step:
    """A hop as a step, as far as the expected one says."""
    when = UNKNOWN if not hop["isKnown"] else UNTIMED if hop["time"] is None else TIMED
    outcome, topic = hop["outcome"], (hop["place"] or {}).get("topic")
    if like.outcome is not None and (outcome or "").startswith(like.outcome):
        outcome = like.outcome
    return Step(
        hop["kind"],
        hop["attempt"] if like.attempt is not None else None,
        outcome if like.outcome is not None else None,
        when,
        like.during,
        topic if like.topic is not None else None,
    )


def ms_of(hop: dict[str, Any]) -> float:
    return datetime.fromisoformat(hop["time"]).timestamp() * 1000


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


def journey_of(server: ServerProcess, **name: str) -> dict[str, Any]:
    found: dict[str, Any] = http_json(server, "GET", f"/api/v1/journeys?{urlencode(name)}")
    return found


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


def hops_of(journey: dict[str, Any], lane: str) -> list[dict[str, Any]]:
    """The hops of a lane; those of one kind that came at once, such as copies into queues, by topic."""
    found = [hop for hop in journey["hops"] if hop["lane"] == lane]
    at_once = itertools.groupby(found, lambda hop: (hop["kind"], hop["time"], hop["isKnown"]))
    return [hop for _, same in at_once for hop in sorted(same, key=lambda hop: (hop["place"] or {}).get("topic", ""))]


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
    with RawClient(ours.port("mqtt")) as member:
        member.connect("wall-1")
        member.subscribe(f"$share/wall/{TOPIC}/#")
        with model.during("all of it"):
            with model.during("publishing"):
                publish(ours)
            member.expect_deliveries(1)
            letters = f"/api/v1/groups/{quote(group, safe='')}/dead-letters"
            [letter] = wait_until(lambda: http_json(ours, "GET", letters)["value"], "the dead letter")
            take_from_queue(ours, "warehouse")
            with RocketMqPeer(ours.address("grpc")) as peer, model.during("RocketMQ"):
                assert peer.take(peer.simple("ledger", TOPIC), 1)[0].body == BODY
                until_in(ours, "group/ledger", "acknowledged", **NAME)
            with model.during("shovel"):
                shovel(ours, other, "archive")
            with model.during("resending"):
                answer = http_json(ours, "POST", f"{letters}:resend", {"offsets": [letter["offset"]]})
            assert answer["failedOffsets"] == []
            receiver.wait("billing", 3)
            with model.during("Spark"):
                ingest(spark, ours, table)
    for lane in (f"group/{group}", "group/warehouse", "group/archive"):
        until_in(ours, lane, "acknowledged", **NAME)
    journey = journey_of(ours, **NAME)
    dispatch = next(lane["id"] for lane in journey["lanes"] if lane["name"] == "dispatcher")
    expect_at_home(model, dispatch, webhook)
    model.check(journey)
    check_who(journey, dispatch, webhook, receiver.hook("billing"))
    [ingested] = hops_of(journey, "tier")
    assert (
        f"Batch 0 of a Spark job wrote version {DeltaTable(table).version()} of {table} (delta)" in ingested["detail"]
    )
    check_states(journey, dispatch.removeprefix("group/"), group)

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
        ("group/ledger", "delivered"),
        ("group/ledger", "acknowledged"),
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
