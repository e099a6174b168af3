"""kombu over py-amqp, as celery uses them."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from kombu.connection import Connection  # type: ignore[import-untyped]
from kombu.entity import Exchange, Queue  # type: ignore[import-untyped]

from amqp import exceptions  # type: ignore[import-untyped]
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


@contextmanager
def _refusals() -> Iterator[None]:
    try:
        yield
    except exceptions.AMQPError as error:
        if not error.reply_code:
            raise
        scope = "connection" if isinstance(error, exceptions.ConnectionError) else "channel"
        raise Refused(scope, error.reply_code, error.reply_text) from error


def _message(found: Any) -> Message:
    """py-amqp's message, or kombu's, in our words."""
    properties = dict(found.properties)
    headers = properties.pop("application_headers", None)
    info = found.delivery_info
    return Message(
        found.body if isinstance(found.body, bytes) else found.body.encode(),
        info["exchange"],
        info["routing_key"],
        bool(info["redelivered"]),
        info["delivery_tag"],
        Properties(headers=headers, **properties),
        info.get("consumer_tag", ""),
        info.get("message_count", 0),
    )


class KombuChannel(Channel):
    def __init__(self, connection: Connection, confirms: bool) -> None:
        super().__init__()
        self._connection = connection
        self._channel = connection.channel()
        self._channel.events["basic_return"].add(self._on_return)
        if confirms:
            self._channel.basic_publish = self._channel.basic_publish_confirm  # as `confirm_publish` does

    def _on_return(self, error: Any, exchange: str, key: str, message: Any) -> None:
        self.seen.returned.append(Returned(error.reply_code, error.reply_text, exchange, key, message.body))

    def pump(self) -> None:
        with _refusals(), suppress(TimeoutError):
            self._connection.drain_events(timeout=0.01)

    def publish(
        self, exchange: str, key: str, body: bytes = b"", properties: Properties = NOTHING, mandatory: bool = False
    ) -> bool:
        given = properties.given()
        written = self._channel.prepare_message(
            body,
            given.pop("priority", None),
            given.pop("content_type", None),
            given.pop("content_encoding", None),
            given.pop("headers", None),
            given,
        )
        try:
            with _refusals():
                self._channel.basic_publish(written, exchange, key, mandatory)
        except exceptions.MessageNacked:
            return False
        return True

    def get(self, queue: str, no_ack: bool = False) -> Message | None:
        with _refusals():
            found = self._channel.basic_get(queue, no_ack)
        return _message(found) if found is not None else None

    def consume(
        self, queue: str, *, tag: str = "", no_ack: bool = False, exclusive: bool = False, arguments: Arguments = None
    ) -> str:
        with _refusals():
            return self._channel.basic_consume(
                queue,
                tag,
                no_ack=no_ack,
                exclusive=exclusive,
                callback=lambda message: self.seen.deliveries.append(_message(message)),
                arguments=arguments,
                on_cancel=self.seen.cancelled.append,
            )

    def cancel(self, tag: str) -> None:
        with _refusals():
            self._channel.basic_cancel(tag)

    def ack(self, delivery_tag: int, multiple: bool = False) -> None:
        with _refusals():
            self._channel.basic_ack(delivery_tag, multiple)

    def nack(self, delivery_tag: int, multiple: bool = False, requeue: bool = True) -> None:
        raise NotImplementedError("py-amqp has no basic.nack")

    def reject(self, delivery_tag: int, requeue: bool = True) -> None:
        with _refusals():
            self._channel.basic_reject(delivery_tag, requeue)

    def qos(self, count: int, whole_channel: bool = False) -> None:
        with _refusals():
            self._channel.basic_qos(0, count, whole_channel)

    def recover(self) -> None:
        with _refusals():
            self._channel.basic_recover(True)

    def exchange_declare(
        self,
        name: str,
        kind: str = "direct",
        *,
        passive: bool = False,
        durable: bool = False,
        auto_delete: bool = False,
        internal: bool = False,
        arguments: Arguments = None,
    ) -> None:
        assert not internal, "py-amqp has no internal exchanges"
        exchange = Exchange(
            name, kind, self._channel, durable=durable, auto_delete=auto_delete, arguments=arguments, passive=passive
        )
        with _refusals():
            exchange.declare()

    def exchange_delete(self, name: str, if_unused: bool = False) -> None:
        with _refusals():
            Exchange(name, channel=self._channel).delete(if_unused=if_unused)

    def exchange_bind(self, destination: str, source: str, key: str, arguments: Arguments = None) -> None:
        with _refusals():
            Exchange(destination, channel=self._channel).bind_to(source, key, arguments)

    def exchange_unbind(self, destination: str, source: str, key: str, arguments: Arguments = None) -> None:
        with _refusals():
            Exchange(destination, channel=self._channel).unbind_from(source, key, arguments=arguments)

    def queue_declare(
        self,
        name: str = "",
        *,
        passive: bool = False,
        durable: bool = False,
        exclusive: bool = False,
        auto_delete: bool = False,
        arguments: Arguments = None,
    ) -> Declared:
        with _refusals():
            found = self._channel.queue_declare(name, passive, durable, exclusive, auto_delete, arguments=arguments)
        return Declared(found.queue, found.message_count, found.consumer_count)

    def queue_bind(self, queue: str, exchange: str, key: str = "", arguments: Arguments = None) -> None:
        with _refusals():
            Queue(queue, channel=self._channel).bind_to(exchange, key, arguments)

    def queue_unbind(self, queue: str, exchange: str, key: str = "", arguments: Arguments = None) -> None:
        with _refusals():
            self._channel.queue_unbind(queue, exchange, key, arguments)

    def queue_purge(self, queue: str) -> int:
        with _refusals():
            return Queue(queue, channel=self._channel).purge()

    def queue_delete(self, queue: str, if_unused: bool = False, if_empty: bool = False) -> int:
        with _refusals():
            return Queue(queue, channel=self._channel).delete(if_unused, if_empty)

    def tx_select(self) -> None:
        self._channel.tx_select()

    def tx_commit(self) -> None:
        self._channel.tx_commit()

    def tx_rollback(self) -> None:
        self._channel.tx_rollback()

    def close(self) -> None:
        self._channel.close()


class KombuPeer(Peer):
    def __init__(self, port: int, arrival: Arrival) -> None:
        self._connection = Connection(
            hostname="127.0.0.1",
            port=port,
            userid=arrival.user,
            password=arrival.password,
            virtual_host=arrival.vhost,
            heartbeat=arrival.heartbeat_seconds,
            transport="pyamqp",
            connect_timeout=15,
        )
        with _refusals():
            self._connection.connect()

    def channel(self, confirms: bool = False) -> Channel:
        return KombuChannel(self._connection, confirms)

    def close(self) -> None:
        self._connection.close()

    def cut(self) -> None:
        self._connection.connection.transport.sock.shutdown(socket.SHUT_RDWR)
        self._connection.collect(socket_timeout=0.1)
