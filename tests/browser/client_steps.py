"""Real clients of all doors for the pages that show them, and steps of their tests."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, Final

import grpc
import paho.mqtt.client as paho
import pika  # type: ignore[import-untyped]
import pika.exceptions  # type: ignore[import-untyped]
from axe_playwright_python.sync_playwright import Axe
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.subscribeoptions import SubscribeOptions
from playwright.sync_api import Locator, Page, expect

from entrepot.protocols.rocketmq import v2_pb2 as v2
from entrepot.protocols.rocketmq.headers import Credentials
from tests.support.amqp.load import parameters
from tests.support.http.client import http_client
from tests.support.processes.deployment import ClusterProcesses
from tests.support.processes.server import Process
from tests.support.rocketmq.client import GrpcClient
from tests.support.rocketmq.telemetry import OpenTelemetry, push_consumer, telemetry
from tests.support.waiting import wait_until

ROOT: Final = ("root", "rootpw")
ADMIN: Final = {"security.initial_admin": ROOT[0], "security.initial_admin_password": ROOT[1]}
SIGNER: Final = ("signer", "a-signing-secret")
"""A user whose signing secret RocketMQ clients have."""
V1: Final = "/api/v1"
HEARTBEAT_SECONDS: Final = 5.0
"""Interval between heartbeats of RocketMQ clients."""
WINDOW: Final = 4
"""Messages in flight that the slow client allows."""
WHOLE: Final = 10
"""Messages published for it."""


class MqttClient:
    """A client of paho's library.  `ended`: reason codes of the ends of its connections."""

    def __init__(
        self,
        server: Process | ClusterProcesses,
        client_id: str,
        *filters: str,
        user: tuple[str, str] | None = ROOT,
        expiry: int = 1000,
        window: int = 100,
        acknowledges: bool = True,
    ) -> None:
        self.ended: list[int] = []
        self.id = client_id
        self.client = paho.Client(
            CallbackAPIVersion.VERSION2, client_id, protocol=paho.MQTTv5, manual_ack=not acknowledges,
            reconnect_on_failure=False,
        )  # fmt: skip
        if user is not None:
            self.client.username_pw_set(*user)
        asked = Properties(PacketTypes.CONNECT)
        asked.SessionExpiryInterval, asked.ReceiveMaximum = expiry, window
        subscribed: list[Any] = []
        self.client.on_subscribe = lambda *told: subscribed.append(told)
        self.client.on_disconnect = lambda client, data, flags, reason, properties: self.ended.append(reason.value)
        self.client.connect("127.0.0.1", server.port("mqtt"), clean_start=True, properties=asked)
        self.client.loop_start()
        wait_until(self.client.is_connected, "connected")
        if filters:
            self.client.subscribe([(each, SubscribeOptions(qos=1)) for each in filters])
            wait_until(lambda: bool(subscribed), "subscribed")

    def publish(self, topic: str, amount: int) -> None:
        for number in range(amount):
            self.client.publish(topic, str(number), 1).wait_for_publish(10)

    def leave(self) -> None:
        self.client.disconnect()
        self.client.loop_stop()


@contextmanager
def mqtt(server: Process | ClusterProcesses, client_id: str, *filters: str, **options: Any) -> Iterator[MqttClient]:
    client = MqttClient(server, client_id, *filters, **options)
    try:
        yield client
    finally:
        client.leave()


@contextmanager
def amqp(
    server: Process | ClusterProcesses, queue: str, user: tuple[str, str] | None = ROOT
) -> Iterator[pika.BlockingConnection]:
    """A connection with a consumer of a queue."""
    asked = parameters(server.port("amqp"))
    if user is not None:
        asked.credentials = pika.PlainCredentials(*user)
    asked.client_properties = {"connection_name": f"<i>{queue}\u202e"}
    connection = pika.BlockingConnection(asked)
    try:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare(queue)
        channel.basic_qos(prefetch_count=20)
        channel.basic_consume(queue, lambda *_: None, consumer_tag=f"tag-{queue}")
        yield connection
    finally:
        with suppress(pika.exceptions.AMQPError):
            connection.close()


@contextmanager
def rocketmq(
    server: Process | ClusterProcesses, client_id: str, user: tuple[str, str] | None = SIGNER
) -> Iterator[OpenTelemetry]:
    """A push consumer with its stream, which says that it lives."""
    credentials = None if user is None else Credentials(*user)
    with (
        GrpcClient(server.address("grpc"), credentials, client_id=client_id, now_ms=int(time.time() * 1000)) as client,
        telemetry(client, push_consumer("workers", "rockets")) as stream,
        _heartbeats(client),
    ):
        yield stream


@contextmanager
def _heartbeats(client: GrpcClient) -> Iterator[None]:
    ended = threading.Event()

    def beat() -> None:
        while not ended.wait(HEARTBEAT_SECONDS):
            with suppress(grpc.RpcError):  # the server may have disconnected it
                client.call("Heartbeat", v2.HeartbeatRequest(client_type=v2.PUSH_CONSUMER))

    thread = threading.Thread(target=beat)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def ask(server: Process | ClusterProcesses, method: str, path: str, body: Any = None, auth: Any = ROOT) -> Any:
    """The answer of the server itself."""
    with http_client(f"http://{server.address('http')}", auth=auth) as client:
        answer = client.request(method, f"{V1}/{path}", json=body)
    assert answer.is_success, answer.text
    return answer.json() if answer.content else None


def audited(server: Process | ClusterProcesses, auth: Any = ROOT) -> set[tuple[str, str]]:
    return {(each["event"], each["resource"]) for each in ask(server, "GET", "audit?limit=50", auth=auth)["value"]}


def fill(stack: ExitStack, server: Process | ClusterProcesses) -> None:
    """Clients that all lists and pages have something to tell of."""
    stack.enter_context(mqtt(server, "line-1", "orders/#", "prices/+/shop", window=WINDOW, acknowledges=False))
    stack.enter_context(mqtt(server, HOSTILE, "<b>x</b>/\u202egnp/#"))
    away = MqttClient(server, "away-1", "orders/#")
    away.leave()
    stack.enter_context(mqtt(server, "sender")).publish("orders/a", WHOLE)
    stack.enter_context(amqp(server, "work"))
    stack.enter_context(rocketmq(server, "rocket-1"))
    wait_until(lambda: not ask(server, "GET", "sessions/away-1")["connected"], "it is away")
    wait_until(lambda: ask(server, "GET", "clients/line-1")["inFlight"] == WINDOW, "its window is full")


HOSTILE: Final = "<img src=x>\u202egnp"
HOSTILE_SHOWN: Final = "<img src=x>U+202Egnp"


def log_in(page: Page, user: tuple[str, str] = ROOT) -> Page:
    page.get_by_label("User").fill(user[0])
    page.get_by_label("Password").fill(user[1])
    page.get_by_role("button", name="Log in", exact=True).last.click()
    expect(page.locator(".foot")).to_contain_text(user[0])
    return page


def go(page: Page, address: str) -> None:
    """Show another page, and wait until it is there."""
    page.evaluate("(address) => { location.hash = `#/${address}`; }", address)
    settled(page)


def settled(page: Page) -> None:
    """Wait until the page has its data, or says why it has none."""
    data = ".facts, .list tbody tr, .list .empty, .banner, [role=alert]"
    expect(page.locator(".place").locator(data).filter(visible=True).first).to_be_visible()
    expect(page.locator("[aria-busy=true]")).to_have_count(0)


def row(page: Page, region: str, text: str) -> Locator:
    return page.get_by_role("group", name=region, exact=True).get_by_role("row").filter(has_text=text)


def same_from_outside(dialog: Locator, label: str) -> str:
    """The command or call that a dialog shows."""
    return dialog.get_by_role("group", name=label, exact=True).inner_text()


def press_danger(dialog: Locator, label: str | re.Pattern[str]) -> None:
    dialog.get_by_role("button", name=label, exact=True).click()
    expect(dialog).to_have_count(0)


def assert_accessible(page: Page) -> None:
    found = Axe().run(page, options={"resultTypes": ["violations"]}).response["violations"]
    assert [(each["id"], [node["target"] for node in each["nodes"]]) for each in found] == []
