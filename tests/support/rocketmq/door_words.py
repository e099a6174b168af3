"""Answers of each door of a gateway to a publish, in its own words."""

from __future__ import annotations

import asyncio
import http.client
import itertools
import json
from typing import Any, Final

import pika  # type: ignore[import-untyped]
import pika.exceptions  # type: ignore[import-untyped]

from entrepot.protocols.mqtt.packets import Disconnect, Puback, Publish
from entrepot.protocols.rocketmq import v2_pb2 as v2
from tests.support.amqp import load as amqp_load
from tests.support.mqtt.load import Wire
from tests.support.processes.deployment import GatewayProcess
from tests.support.rocketmq.client import GrpcClient
from tests.support.waiting import PATIENCE_SECONDS, wait_until

Words = dict[str, tuple[Any, ...]]
_numbers: Final = itertools.count()
TAKEN: Final[Words] = {"mqtt": (0x00,), "amqp": ("ack",), "http": (200, ""), "grpc": (v2.OK,)}
AWAY: Final[Words] = {
    "mqtt": (0x80,),
    "amqp": ("nack",),
    "http": (503, "unavailable"),
    "grpc": (v2.HA_NOT_AVAILABLE,),
}
FULL: Final[Words] = {
    "mqtt": (0x97,),
    "amqp": ("nack",),
    "http": (507, "storage-full"),
    "grpc": (v2.TOO_MANY_REQUESTS,),
}
BUSY: Final[Words] = {**FULL, "http": (429, "too-many-requests")}
UNKNOWN: Final[Words] = {
    "mqtt": ("disconnect", 0x80),
    "amqp": ("nack",),
    "http": (504, "outcome-unknown"),
    "grpc": (v2.PROXY_TIMEOUT,),
}
LATE: Final[Words] = {**UNKNOWN, "http": (504, "request-timeout"), "grpc": (v2.REQUEST_TIMEOUT,)}


async def words(gateway: GatewayProcess, topic: str, *doors: str) -> Words:
    """Publish one message by each door at once, and return the answers."""
    asked = {name: ask for name, ask in _DOORS.items() if not doors or name in doors}
    answers = await asyncio.gather(*(asyncio.to_thread(ask, gateway, topic) for ask in asked.values()))
    return dict(zip(asked, answers, strict=True))


def _mqtt(gateway: GatewayProcess, topic: str) -> tuple[Any, ...]:
    wire = Wire(gateway.port("mqtt"), f"words-{next(_numbers)}")
    try:
        wire.say(Publish(topic, b"mqtt", 1, 1))
        [answer] = wait_until(wire.read, "an answer")
    finally:
        wire.close()
    if isinstance(answer, Disconnect):  # MQTT has no PUBACK that leaves the outcome open
        return "disconnect", answer.reason
    assert isinstance(answer, Puback), answer
    return (answer.reason,)


def _amqp(gateway: GatewayProcess, topic: str) -> tuple[Any, ...]:
    """To a queue: its messages are in the topic of that name."""
    with amqp_load.closing_softly(pika.BlockingConnection(amqp_load.parameters(gateway.port("amqp")))) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        try:
            channel.basic_publish("amq.topic", f"{topic}.words", b"amqp")
        except pika.exceptions.NackError:
            return ("nack",)
    return ("ack",)


def _http(gateway: GatewayProcess, topic: str) -> tuple[Any, ...]:
    headers = {"ce-specversion": "1.0", "ce-id": f"{next(_numbers)}", "ce-source": "/s", "ce-type": "t"}
    connection = http.client.HTTPConnection(gateway.address("http"), timeout=PATIENCE_SECONDS)
    try:
        connection.request("POST", f"/topics/{topic}:publish", b"http", {**headers, "content-type": "text/plain"})
        answer = connection.getresponse()
        content = answer.read()
    finally:
        connection.close()
    if answer.status == 200:
        return 200, ""
    return answer.status, json.loads(content)["type"].rpartition("/")[2].rpartition(":")[2]


def _grpc(gateway: GatewayProcess, topic: str) -> tuple[Any, ...]:
    with GrpcClient(gateway.address("grpc")) as client:
        answer = client.send(client.message(topic, b"grpc"))
    return (answer.status.code,)


_DOORS: Final = {"mqtt": _mqtt, "amqp": _amqp, "http": _http, "grpc": _grpc}
