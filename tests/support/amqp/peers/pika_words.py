"""What pika's two connections have in common: their parameters, messages and errors in our words."""

from __future__ import annotations

import re
from typing import Any

import pika  # type: ignore[import-untyped]
from pika.exceptions import (  # type: ignore[import-untyped]
    AMQPConnectionError,
    ChannelClosedByBroker,
    ConnectionClosedByBroker,
)

from tests.support.amqp.peers.peer import Arrival, Message, Properties, Refused, Returned
from tests.support.waiting import PATIENCE_SECONDS

_CODE = re.compile(r"\((\d{3})\)")


def parameters(port: int, arrival: Arrival) -> pika.ConnectionParameters:
    return pika.ConnectionParameters(
        "127.0.0.1",
        port,
        arrival.vhost,
        pika.PlainCredentials(arrival.user, arrival.password),
        heartbeat=arrival.heartbeat_seconds,
        socket_timeout=PATIENCE_SECONDS,
        stack_timeout=PATIENCE_SECONDS,
        blocked_connection_timeout=PATIENCE_SECONDS,
    )


def written(properties: Properties) -> pika.BasicProperties:
    return pika.BasicProperties(**properties.given())


def read(properties: pika.BasicProperties) -> Properties:
    names = Properties.__dataclass_fields__
    return Properties(**{name: getattr(properties, name) for name in names})


def delivered(method: Any, properties: pika.BasicProperties, body: bytes) -> Message:
    return Message(
        body,
        method.exchange,
        method.routing_key,
        method.redelivered,
        method.delivery_tag,
        read(properties),
        getattr(method, "consumer_tag", ""),
        getattr(method, "message_count", 0),
    )


def returned(method: Any, body: bytes) -> Returned:
    return Returned(method.reply_code, method.reply_text, method.exchange, method.routing_key, body)


def refusal(error: BaseException) -> Refused | None:
    """What the server said, if the error is its refusal."""
    if isinstance(error, ChannelClosedByBroker):
        return Refused("channel", error.reply_code, error.reply_text)
    if isinstance(error, ConnectionClosedByBroker):
        return Refused("connection", error.reply_code, error.reply_text)
    if isinstance(error, AMQPConnectionError) and (found := _CODE.search(repr(error))):
        return Refused("connection", int(found[1]), repr(error))
    return None
