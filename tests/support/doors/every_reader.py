"""Readers of one topic by every door, that stay: each tells the bodies that it was given, in its order."""

from __future__ import annotations

import base64
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import httpx2
import pika  # type: ignore[import-untyped]
from websockets.exceptions import WebSocketException

from entrepot.protocols.mqtt.packets import Subscribe, Subscription
from entrepot.protocols.mqtt.properties import PropertyId
from tests.support.amqp.load import parameters
from tests.support.http.client import http_client
from tests.support.http.event_streams import consumer_at, source
from tests.support.http.pull import http_json
from tests.support.http.webhook_receiver import WebhookReceiver, events_of
from tests.support.mqtt.client import RawClient
from tests.support.processes.deployment import Deployment
from tests.support.rocketmq.peers.peer import RocketMqPeer

Bodies = list[bytes]
LATEST = 2000
"""Bodies that are searched for those of a run: thousands of runs are not to cost their square."""
ENDS = (OSError, AssertionError, httpx2.HTTPError, pika.exceptions.AMQPError, WebSocketException)


class Reader:
    """One reader: `bodies` grows, in a thread of its own or by `look`."""

    def __init__(
        self, name: str, look: Callable[[Bodies], None] = lambda bodies: None, *, in_order: bool = True
    ) -> None:
        self.name, self.in_order = name, in_order
        self.bodies: Bodies = []
        self._look = look

    def of(self, run: str) -> list[str]:
        """What came of a run, in order, each once."""
        self._look(self.bodies)
        mark = f"{run}:".encode()
        latest = self.bodies[-LATEST:]
        found = [body.decode().partition(":")[2] for body in latest if body.startswith(mark)]
        return list(dict.fromkeys(found))


class Readers:
    """All readers of a topic at one server."""

    def __init__(self, server: Deployment, topic: str, stack: ExitStack) -> None:
        self.server, self.topic, self._stack = server, topic, stack
        self.all: list[Reader] = []
        self._mqtt("mqtt 5", f"{topic}/#", 5)
        self._mqtt("mqtt 3.1.1", f"{topic}/#", 4)
        self._mqtt("share", f"$share/members/{topic}/#", 5)
        self._mqtt("replay", f"$replay/earliest/{topic}/#", 5)
        self._amqp("amqp classic", {})
        self._amqp("amqp quorum", {"x-queue-type": "quorum"})
        self._amqp("amqp stream", {"x-queue-type": "stream"})
        self._pull()
        self._stream()
        self._socket()
        self._webhook()
        self._rocketmq()

    def _in_thread(self, reader: Reader, read: Callable[[], None]) -> None:
        def run() -> None:
            try:
                read()
            except (
                OSError,
                AssertionError,
                httpx2.HTTPError,
                pika.exceptions.AMQPError,
                WebSocketException,
                TimeoutError,
            ):
                pass  # closed at the end; what is missing then is missed

        self.all.append(reader)
        threading.Thread(target=run, name=reader.name, daemon=True).start()

    def _mqtt(self, name: str, topic_filter: str, version: int) -> None:
        client = self._stack.enter_context(RawClient(self.server.port("mqtt"), version))
        client.connect(f"reader-{name}".replace(" ", "-").replace(".", "-"))
        client.subscribe(topic_filter, qos=1)
        reader = Reader(name)

        def read() -> None:
            while client.read(3600):
                reader.bodies += [publish.payload for publish in client.deliveries]
                client.deliveries.clear()

        self._in_thread(reader, read)

    def _amqp(self, name: str, arguments: dict[str, Any]) -> None:
        connection = pika.BlockingConnection(parameters(self.server.port("amqp")))
        channel = connection.channel()
        queue = name.replace(" ", "-")
        channel.queue_declare(queue, durable=True, arguments=arguments)
        channel.queue_bind(queue, "amq.topic", f"{self.topic}.#")
        channel.basic_qos(prefetch_count=500)
        reader = Reader(name)

        def take(_: Any, method: Any, __: Any, body: bytes) -> None:
            reader.bodies.append(body)
            channel.basic_ack(method.delivery_tag)

        channel.basic_consume(queue, take)
        self._in_thread(reader, channel.start_consuming)

    def _pull(self) -> None:
        path = f"/topics/{self.topic}/eventsubscriptions/pullers"
        http_json(self.server, "POST", f"{path}:receive?maxWaitTime=0")

        def look(bodies: Bodies) -> None:
            while value := http_json(self.server, "POST", f"{path}:receive?maxEvents=100&maxWaitTime=0")["value"]:
                bodies += [body_of(item["event"]) for item in value]
                tokens = [item["brokerProperties"]["lockToken"] for item in value]
                http_json(self.server, "POST", f"{path}:acknowledge", {"lockTokens": tokens})

        self.all.append(Reader("pull", look))

    def _stream(self) -> None:
        client = self._stack.enter_context(http_client(f"http://127.0.0.1:{self.server.port('http')}"))
        opened = self._stack.enter_context(source(client, self.topic))
        reader = Reader("server-sent events")

        def read() -> None:
            while True:
                reader.bodies.append(body_of(opened.next()))

        self._in_thread(reader, read)

    def _socket(self) -> None:
        address = f"127.0.0.1:{self.server.port('http')}"
        path = f"/topics/{self.topic}/eventsubscriptions/sockets:stream?credit=500"
        consumer = self._stack.enter_context(consumer_at(address, path))
        reader = Reader("websocket")

        def read() -> None:
            while True:
                said = consumer.next(3600)
                if "locktoken" in said:
                    reader.bodies.append(body_of(said))
                    consumer.say("acknowledge", lockTokens=[said["locktoken"]])
                    consumer.say("credit", credit=1)

        self._in_thread(reader, read)

    def bridged(self, other: Deployment) -> None:
        """A subscriber at the broker that the server's bridge publishes to."""
        client = self._stack.enter_context(RawClient(other.port("mqtt")))
        client.connect("reader-bridged")
        client.subscribe(f"{self.topic}/#", qos=1)
        reader = Reader("bridge")

        def read() -> None:
            while client.read(3600):
                reader.bodies += [publish.payload for publish in client.deliveries]
                client.deliveries.clear()

        self._in_thread(reader, read)

    def _webhook(self) -> None:
        receiver = WebhookReceiver()
        self._stack.callback(receiver.stop)
        config = {
            "handshake": "off",
            "initialbackoffseconds": 0.05,
            "maxbackoffseconds": 0.2,
            "mode": "structured",
        }
        sink = receiver.hook("any")
        body = {"source": self.topic, "sink": sink, "protocol": "HTTP", "config": config}
        http_json(self.server, "POST", "/subscriptions", body)

        def look(bodies: Bodies) -> None:
            seen = receiver.seen("any")
            bodies[:] = [body_of(event) for request in seen for event in events_of(request)]

        self.all.append(Reader("webhook", look, in_order=False))  # requests go side by side

    def _rocketmq(self) -> None:
        peer = self._stack.enter_context(RocketMqPeer(self.server.address("grpc")))
        consumer = peer.push("pushed", self.topic)

        def look(bodies: Bodies) -> None:
            bodies[:] = [message.body for message in peer.pushed[consumer]]

        self.all.append(Reader("rocketmq", look, in_order=False))  # its client works in several threads


def body_of(event: dict[str, Any]) -> bytes:
    """The data of an event as bytes."""
    if "data_base64" in event:
        return base64.b64decode(event["data_base64"])
    data = event.get("data", "")
    return data.encode() if isinstance(data, str) else str(data).encode()


@contextmanager
def readers(server: Deployment, topic: str) -> Iterator[Readers]:
    """All readers, for the length of a block."""
    with ExitStack() as stack:
        yield Readers(server, topic, stack)


class Absent:
    """A lasting MQTT session that is away during a run, and reads afterwards."""

    def __init__(self, server: Deployment, topic: str) -> None:
        self._port, self._topic = server.port("mqtt"), topic
        self._lasting = {PropertyId.SESSION_EXPIRY_INTERVAL: 3600}
        with RawClient(self._port) as client:
            client.connect("absent", properties=self._lasting)
            client.say(Subscribe(1, [Subscription(f"{topic}/#", 1)]))
            client.read_some()

    def read(self, is_enough: Callable[[list[bytes]], bool]) -> list[bytes]:
        """Come back, read until it is enough, and go again."""
        bodies: list[bytes] = []
        with RawClient(self._port) as client:
            client.connect("absent", clean_start=False, properties=self._lasting)
            while True:  # some may have come with the CONNACK
                bodies += [publish.payload for publish in client.deliveries]
                client.deliveries.clear()
                if is_enough(bodies):
                    break
                assert client.read(), "closed"
        return bodies
