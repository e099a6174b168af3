"""amqplib: all connections of a test run in one process of node."""

from __future__ import annotations

import base64
import itertools
from pathlib import Path
from typing import Any

from tests.support.amqp.peers.peer import (
    NOTHING,
    Arguments,
    Arrival,
    Channel,
    Declared,
    Message,
    Peer,
    Properties,
    Refused,
    Returned,
)
from tests.support.processes.node_host import NodeHost


class Host(NodeHost):
    """`channels`: by their handles."""

    def __init__(self) -> None:
        super().__init__(Path(__file__).with_name("amqplib_host.js"))
        self.handles = itertools.count(1)
        self.channels: dict[int, AmqplibChannel] = {}

    def heard(self, said: dict[str, Any]) -> None:
        self.channels[said["channel"]].take(said)

    def refusal(self, said: dict[str, Any]) -> Exception:
        return Refused(**said["refused"]) if said.get("refused") else super().refusal(said)


HOST = Host()

_OPTIONS = {
    "content_type": "contentType",
    "content_encoding": "contentEncoding",
    "delivery_mode": "deliveryMode",
    "correlation_id": "correlationId",
    "reply_to": "replyTo",
    "message_id": "messageId",
    "user_id": "userId",
    "app_id": "appId",
    "auto_delete": "autoDelete",
}


def _options(given: dict[str, Any]) -> dict[str, Any]:
    return {_OPTIONS.get(name, name): value for name, value in given.items() if value is not None}


def _message(said: dict[str, Any]) -> Message:
    return Message(
        base64.b64decode(said["body"]),
        said["exchange"],
        said["routingKey"],
        said["redelivered"],
        said["deliveryTag"],
        Properties(**said["properties"]),
        said.get("consumerTag", ""),
        said.get("messageCount", 0),
    )


class AmqplibChannel(Channel):
    def __init__(self, connection: int, confirms: bool) -> None:
        super().__init__()
        self._handle = next(HOST.handles)
        HOST.channels[self._handle] = self
        HOST.ask(self._handle, "open", {"connection": connection, "confirms": confirms})

    def take(self, said: dict[str, Any]) -> None:
        """What came unasked."""
        if "delivered" in said:
            self.seen.deliveries.append(_message(said["delivered"]))
        elif "returned" in said:
            back = said["returned"]
            self.seen.returned.append(
                Returned(
                    back["replyCode"],
                    back["replyText"],
                    back["exchange"],
                    back["routingKey"],
                    base64.b64decode(back["body"]),
                )
            )
        else:
            self.seen.cancelled.append(said["cancelled"])

    def _ask(self, verb: str, **given: Any) -> Any:
        return HOST.ask(self._handle, verb, given)

    def _call(self, name: str, *given: Any) -> Any:
        return HOST.ask(self._handle, "call", [name, *given])

    def publish(
        self, exchange: str, key: str, body: bytes = b"", properties: Properties = NOTHING, mandatory: bool = False
    ) -> bool:
        options = {**_options(properties.given()), "mandatory": mandatory}
        return self._ask("publish", exchange=exchange, key=key, body=base64.b64encode(body).decode(), options=options)

    def get(self, queue: str, no_ack: bool = False) -> Message | None:
        found = self._ask("get", queue=queue, noAck=no_ack)
        return _message(found) if found is not None else None

    def consume(
        self, queue: str, *, tag: str = "", no_ack: bool = False, exclusive: bool = False, arguments: Arguments = None
    ) -> str:
        options = {"consumerTag": tag, "noAck": no_ack, "exclusive": exclusive, "arguments": arguments}
        return self._ask("consume", queue=queue, options=options)

    def cancel(self, tag: str) -> None:
        self._call("cancel", tag)

    def ack(self, delivery_tag: int, multiple: bool = False) -> None:
        self._ask("ack", tag=delivery_tag, multiple=multiple)

    def nack(self, delivery_tag: int, multiple: bool = False, requeue: bool = True) -> None:
        self._ask("nack", tag=delivery_tag, multiple=multiple, requeue=requeue)

    def reject(self, delivery_tag: int, requeue: bool = True) -> None:
        self._ask("reject", tag=delivery_tag, requeue=requeue)

    def qos(self, count: int, whole_channel: bool = False) -> None:
        self._call("prefetch", count, whole_channel)

    def recover(self) -> None:
        self._call("recover")

    def exchange_declare(self, name: str, kind: str = "direct", *, passive: bool = False, **how: Any) -> None:
        if passive:
            self._call("checkExchange", name)
        else:
            self._call("assertExchange", name, kind, {"durable": False, **_options(how)})

    def exchange_delete(self, name: str, if_unused: bool = False) -> None:
        self._call("deleteExchange", name, {"ifUnused": if_unused})

    def exchange_bind(self, destination: str, source: str, key: str, arguments: Arguments = None) -> None:
        self._call("bindExchange", destination, source, key, arguments or {})

    def exchange_unbind(self, destination: str, source: str, key: str, arguments: Arguments = None) -> None:
        self._call("unbindExchange", destination, source, key, arguments or {})

    def queue_declare(self, name: str = "", *, passive: bool = False, **how: Any) -> Declared:
        if passive:
            found = self._call("checkQueue", name)
        else:
            found = self._call("assertQueue", name, {"durable": False, **_options(how)})
        return Declared(found["queue"], found["messageCount"], found["consumerCount"])

    def queue_bind(self, queue: str, exchange: str, key: str = "", arguments: Arguments = None) -> None:
        self._call("bindQueue", queue, exchange, key, arguments or {})

    def queue_unbind(self, queue: str, exchange: str, key: str = "", arguments: Arguments = None) -> None:
        self._call("unbindQueue", queue, exchange, key, arguments or {})

    def queue_purge(self, queue: str) -> int:
        return self._call("purgeQueue", queue)["messageCount"]

    def queue_delete(self, queue: str, if_unused: bool = False, if_empty: bool = False) -> int:
        return self._call("deleteQueue", queue, {"ifUnused": if_unused, "ifEmpty": if_empty})["messageCount"]

    def tx_select(self) -> None:
        raise NotImplementedError("amqplib has no transactions")

    def tx_commit(self) -> None:
        raise NotImplementedError("amqplib has no transactions")

    def tx_rollback(self) -> None:
        raise NotImplementedError("amqplib has no transactions")

    def close(self) -> None:
        self._call("close")


class AmqplibPeer(Peer):
    def __init__(self, port: int, arrival: Arrival) -> None:
        self._handle = next(HOST.handles)
        options = {
            "port": port,
            "username": arrival.user,
            "password": arrival.password,
            "vhost": arrival.vhost,
            "heartbeat": arrival.heartbeat_seconds,
        }
        HOST.ask(self._handle, "connect", {"options": options})
        self._is_cut = False

    def channel(self, confirms: bool = False) -> Channel:
        return AmqplibChannel(self._handle, confirms)

    def close(self) -> None:
        if not self._is_cut:  # it would wait for an answer
            HOST.ask(self._handle, "leave")

    def cut(self) -> None:
        self._is_cut = True
        HOST.ask(self._handle, "cut")
