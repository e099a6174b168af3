"""Abuses of its neighbours by one ordinary client: twelve of them, each until the process is stopped.

`python -m benchmarks.neighbour_abuses NAME PORTS` with the ports as JSON.  Each waits for answers as a client does,
with a window of some dozens: it does not need to be faster than a server to be in the way.
"""

from __future__ import annotations

import http.client
import json
import socket
import sys
import threading
import time
from collections.abc import Callable
from itertools import count
from typing import Any, Final

import pika  # type: ignore[import-untyped]

from entrepot.protocols.mqtt.decoder import Decoder
from entrepot.protocols.mqtt.encoder import encode
from entrepot.protocols.mqtt.packets import (
    Connect,
    Disconnect,
    Packet,
    Publish,
    Subscribe,
    Subscription,
    Unsubscribe,
    Will,
)
from entrepot.protocols.mqtt.properties import Properties, PropertyId

Ports = dict[str, int]
WINDOW: Final = 50
BODY: Final = b"x" * 1000
BUSY: Final = "busy/topic"
FEED_PAUSE_SECONDS: Final = 0.002
"""Pause between two messages that small receivers and slow readers are sent."""


class Client:
    """An MQTT 5 client of the least kind."""

    def __init__(self, ports: Ports, client_id: str, *, receive_buffer: int = 0, **connect: Any) -> None:
        self._decoder = Decoder(1 << 28, 5)
        self._socket = socket.socket()
        if receive_buffer:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self._socket.settimeout(20)
        self._socket.connect(("127.0.0.1", ports["mqtt"]))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._there: list[Packet] = []
        self.say(Connect(client_id, version=5, **connect))
        self.hear()

    def say(self, *packets: Packet) -> None:
        """Send packets at once."""
        self._socket.sendall(b"".join(encode(each, 5) for each in packets))

    def hear(self) -> Packet:
        """Return the next packet."""
        while not self._there:
            data = self._socket.recv(65_536)
            if not data:
                raise ConnectionError("the server has closed the connection")
            self._there += self._decoder.feed(data)
        return self._there.pop(0)

    def close(self, *, rudely: bool = False) -> None:
        """End, with or without a goodbye."""
        if not rudely:
            self.say(Disconnect())
        self._socket.close()


def _publishes(ports: Ports, publish: Callable[[int, int], Publish]) -> None:
    """Publish with a window; the function gets a number and a packet identifier."""
    client, number = Client(ports, "abuser"), 0
    for _ in range(WINDOW):
        number += 1
        client.say(publish(number, number))
    while True:
        client.hear()
        number += 1
        client.say(publish(number, number % 60_000 + 1))


def new_names(ports: Ports) -> None:
    """Publishes to a new first level each."""
    _publishes(ports, lambda number, packet_id: Publish(f"new{number}/x", BODY[:50], 1, packet_id))


def retained(ports: Ports) -> None:
    """Retained messages of 10 kB on new names."""
    _publishes(ports, lambda number, packet_id: Publish(f"kept/{number}", BODY * 10, 1, packet_id, retain=True))


def wildcards(ports: Ports) -> None:
    """Subscriptions with wildcards on every level, and their end."""
    client = Client(ports, "abuser")
    for number in count(1):
        filters = [f"+/{number}/+/{each}/#" for each in range(WINDOW)]
        client.say(Subscribe(number % 60_000 + 1, [Subscription(each, 1) for each in filters]))
        client.hear()
        client.say(Unsubscribe(number % 60_000 + 1, filters))
        client.hear()


def groups(ports: Ports) -> None:
    """Consumer groups, made by receives of events."""
    connection = http.client.HTTPConnection("127.0.0.1", ports["http"], timeout=20)
    for number in count():
        connection.request("POST", f"/topics/neighbours/eventsubscriptions/g{number}:receive?maxWaitTime=0")
        connection.getresponse().read()


def queues(ports: Ports) -> None:
    """AMQP queues with bindings, declared and left."""
    channel = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", ports["amqp"])).channel()
    for number in count():
        channel.queue_declare(f"q{number}")
        channel.queue_bind(f"q{number}", "amq.topic", f"bound.{number}.#")


def sessions(ports: Ports) -> None:
    """Sessions that last, with a subscription each."""
    for number in count():
        client = Client(ports, f"session-{number}", properties={PropertyId.SESSION_EXPIRY_INTERVAL: 3600})
        client.say(Subscribe(1, [Subscription(f"for/{number}/#", 1)]))
        client.hear()
        client.close()


def wills(ports: Ports) -> None:
    """Connections that end without a goodbye, and have a will."""
    for number in count():
        Client(ports, f"willing-{number}", will=Will(f"wills/{number % 100}", BODY, 1)).close(rudely=True)


def small_receivers(ports: Ports) -> None:
    """Subscribers that take no packet of the size that comes."""
    most: Properties = {PropertyId.MAXIMUM_PACKET_SIZE: 200}
    for number in range(WINDOW):
        small = Client(ports, f"small-{number}", properties=most)
        small.say(Subscribe(1, [Subscription(BUSY, 1)]))
        small.hear()
        threading.Thread(target=_read_on, args=(small,), daemon=True).start()
    _feed(ports)


def slow_readers(ports: Ports) -> None:
    """Subscribers that do not read."""
    for number in range(WINDOW):
        slow = Client(ports, f"slow-{number}", receive_buffer=4096)
        slow.say(Subscribe(1, [Subscription(BUSY, number % 2)]))
        _KEPT.append(slow)
    _feed(ports)


_KEPT: Final[list[Client]] = []


def _read_on(client: Client) -> None:
    while True:
        client.hear()


def _feed(ports: Ports) -> None:
    client = Client(ports, "feeder")
    for number in count(1):
        client.say(Publish(BUSY, BODY, 1, number % 60_000 + 1))
        client.hear()
        time.sleep(FEED_PAUSE_SECONDS)


def connects(ports: Ports) -> None:
    """Connections, one after the other."""
    for number in count():
        Client(ports, f"storm-{number}").close()


def refused(ports: Ports) -> None:
    """Publishes to new topics beyond the limit of topics."""
    connection = http.client.HTTPConnection("127.0.0.1", ports["http"], timeout=20)
    headers = {"ce-specversion": "1.0", "ce-id": "1", "ce-type": "t", "ce-source": "/s"}
    for number in count():
        connection.request("POST", f"/topics/beyond{number}:publish", BODY, headers)
        connection.getresponse().read()


def deep_headers(ports: Ports) -> None:
    """AMQP messages with deep and large headers."""
    deep: dict[str, Any] = {"end": 1}
    for _ in range(28):
        deep = {"below": deep}
    properties = pika.BasicProperties(headers={"deep": deep, **{f"h{number}": "x" * 400 for number in range(200)}})
    channel = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", ports["amqp"])).channel()
    channel.queue_declare("deep")
    channel.confirm_delivery()
    while True:
        channel.basic_publish("", "deep", BODY, properties)


ABUSES: Final[dict[str, Callable[[Ports], None]]] = {
    "new names": new_names,
    "wildcards": wildcards,
    "groups": groups,
    "queues": queues,
    "retained": retained,
    "sessions": sessions,
    "wills": wills,
    "small receivers": small_receivers,
    "slow readers": slow_readers,
    "storm of connects": connects,
    "refused publishes": refused,
    "deep headers": deep_headers,
}


if __name__ == "__main__":
    ABUSES[sys.argv[1]](json.loads(sys.argv[2]))
