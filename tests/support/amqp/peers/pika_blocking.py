"""pika's BlockingConnection."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pika  # type: ignore[import-untyped]
from pika.exceptions import AMQPError, NackError, UnroutableError  # type: ignore[import-untyped]

from tests.support.amqp.peers import pika_words as words
from tests.support.amqp.peers.peer import NOTHING, Arguments, Arrival, Channel, Declared, Message, Peer, Properties


@contextmanager
def _refusals() -> Iterator[None]:
    try:
        yield
    except AMQPError as error:
        raise (words.refusal(error) or error) from error


class PikaBlockingChannel(Channel):
    def __init__(self, connection: pika.BlockingConnection, confirms: bool) -> None:
        super().__init__()
        self._connection = connection
        self._channel = connection.channel()
        self._channel.add_on_return_callback(
            lambda channel, method, properties, body: self.seen.returned.append(words.returned(method, body))
        )
        self._channel.add_on_cancel_callback(lambda frame: self.seen.cancelled.append(frame.method.consumer_tag))
        if confirms:
            self._channel.confirm_delivery()

    def pump(self) -> None:
        with _refusals():
            self._connection.process_data_events(0.01)

    def publish(
        self, exchange: str, key: str, body: bytes = b"", properties: Properties = NOTHING, mandatory: bool = False
    ) -> bool:
        try:
            with _refusals():
                self._channel.basic_publish(exchange, key, body, words.written(properties), mandatory)
        except UnroutableError:
            return True  # confirmed; the callback of what is returned has the message
        except NackError:
            return False
        return True

    def get(self, queue: str, no_ack: bool = False) -> Message | None:
        with _refusals():
            method, properties, body = self._channel.basic_get(queue, no_ack)
        if method is None:
            return None
        return words.delivered(method, properties, body)

    def consume(
        self, queue: str, *, tag: str = "", no_ack: bool = False, exclusive: bool = False, arguments: Arguments = None
    ) -> str:
        def take(channel: Any, method: Any, properties: Any, body: bytes) -> None:
            self.seen.deliveries.append(words.delivered(method, properties, body))

        with _refusals():
            return self._channel.basic_consume(queue, take, no_ack, exclusive, tag or None, arguments)

    def cancel(self, tag: str) -> None:
        with _refusals():
            self._channel.basic_cancel(tag)

    def ack(self, delivery_tag: int, multiple: bool = False) -> None:
        with _refusals():
            self._channel.basic_ack(delivery_tag, multiple)

    def nack(self, delivery_tag: int, multiple: bool = False, requeue: bool = True) -> None:
        with _refusals():
            self._channel.basic_nack(delivery_tag, multiple, requeue)

    def reject(self, delivery_tag: int, requeue: bool = True) -> None:
        with _refusals():
            self._channel.basic_reject(delivery_tag, requeue)

    def qos(self, count: int, whole_channel: bool = False) -> None:
        with _refusals():
            self._channel.basic_qos(0, count, whole_channel)

    def recover(self) -> None:
        with _refusals():
            self._channel.basic_recover(True)

    def exchange_declare(self, name: str, kind: str = "direct", **how: Any) -> None:
        with _refusals():
            self._channel.exchange_declare(name, kind, **how)

    def exchange_delete(self, name: str, if_unused: bool = False) -> None:
        with _refusals():
            self._channel.exchange_delete(name, if_unused)

    def exchange_bind(self, destination: str, source: str, key: str, arguments: Arguments = None) -> None:
        with _refusals():
            self._channel.exchange_bind(destination, source, key, arguments)

    def exchange_unbind(self, destination: str, source: str, key: str, arguments: Arguments = None) -> None:
        with _refusals():
            self._channel.exchange_unbind(destination, source, key, arguments)

    def queue_declare(self, name: str = "", **how: Any) -> Declared:
        with _refusals():
            method = self._channel.queue_declare(name, **how).method
        return Declared(method.queue, method.message_count, method.consumer_count)

    def queue_bind(self, queue: str, exchange: str, key: str = "", arguments: Arguments = None) -> None:
        with _refusals():
            self._channel.queue_bind(queue, exchange, key, arguments)

    def queue_unbind(self, queue: str, exchange: str, key: str = "", arguments: Arguments = None) -> None:
        with _refusals():
            self._channel.queue_unbind(queue, exchange, key, arguments)

    def queue_purge(self, queue: str) -> int:
        with _refusals():
            return self._channel.queue_purge(queue).method.message_count

    def queue_delete(self, queue: str, if_unused: bool = False, if_empty: bool = False) -> int:
        with _refusals():
            return self._channel.queue_delete(queue, if_unused, if_empty).method.message_count

    def tx_select(self) -> None:
        with _refusals():
            self._channel.tx_select()

    def tx_commit(self) -> None:
        with _refusals():
            self._channel.tx_commit()

    def tx_rollback(self) -> None:
        with _refusals():
            self._channel.tx_rollback()

    def close(self) -> None:
        with _refusals():
            self._channel.close()


class PikaBlockingPeer(Peer):
    def __init__(self, port: int, arrival: Arrival) -> None:
        with _refusals():
            self._connection = pika.BlockingConnection(words.parameters(port, arrival))

    def channel(self, confirms: bool = False) -> Channel:
        with _refusals():
            return PikaBlockingChannel(self._connection, confirms)

    def close(self) -> None:
        if self._connection.is_open:
            self._connection.close()

    def cut(self) -> None:
        self._connection._impl._transport._sock.shutdown(socket.SHUT_RDWR)
        with suppress(AMQPError):
            while self._connection.is_open:
                self._connection.process_data_events(0.01)
