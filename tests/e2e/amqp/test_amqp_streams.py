"""Queues of type stream: read by offset, by as many as like, and nothing is taken out."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pika  # type: ignore[import-untyped]
import pytest

from tests.support.amqp.load import parameters
from tests.support.processes.deployment import Deploy, Deployment
from tests.support.waiting import wait_until


@pytest.fixture(scope="module")
def server(deploy: Deploy, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    with deploy(tmp_path_factory.mktemp("streams")) as running:
        yield running


@pytest.fixture
def connection(server: Deployment) -> Iterator[pika.BlockingConnection]:
    connection = pika.BlockingConnection(parameters(server.port("amqp")))
    yield connection
    if connection.is_open:
        connection.close()


def stream(connection: pika.BlockingConnection, name: str, count: int = 10, **arguments: object) -> Any:
    channel = connection.channel()
    channel.queue_declare(name, durable=True, arguments={"x-queue-type": "stream", **arguments})
    channel.confirm_delivery()
    for number in range(count):
        channel.basic_publish("", name, b"%d" % number)
    return channel


def read(connection: pika.BlockingConnection, name: str, count: int, start: object = None) -> list[tuple[int, bytes]]:
    """Offsets and bodies of so many messages."""
    channel = connection.channel()
    channel.basic_qos(prefetch_count=4)
    found: list[tuple[int, bytes]] = []

    def take(channel: Any, method: Any, properties: pika.BasicProperties, body: bytes) -> None:
        found.append((properties.headers["x-stream-offset"], body))
        channel.basic_ack(method.delivery_tag)

    arguments = {} if start is None else {"x-stream-offset": start}
    channel.basic_consume(name, take, arguments=arguments)
    wait_until(lambda: connection.process_data_events(0.01) or len(found) >= count, lambda: str(found))
    channel.close()
    return found


@pytest.mark.parametrize(("start", "first"), [("first", 0), (7, 7), ("last", 9), ("1h", 0)])
def test_where_a_consumer_begins(connection: pika.BlockingConnection, start: object, first: int) -> None:
    name = f"begin-{start}"
    stream(connection, name)
    expected = [(number, b"%d" % number) for number in range(first, 10)]
    assert read(connection, name, len(expected), start) == expected
    assert read(connection, name, len(expected), start) == expected  # it is all there still


def test_a_stream_is_read_from_a_time_on(connection: pika.BlockingConnection) -> None:
    import datetime

    channel = stream(connection, "timed", 3)
    published = int(time.time())
    wait_until(lambda: int(time.time()) > published, "a new second")  # AMQP's times are whole seconds
    now = datetime.datetime.fromtimestamp(int(time.time()), datetime.UTC)
    channel.basic_publish("", "timed", b"later")
    assert read(connection, "timed", 1, now) == [(3, b"later")]


def test_what_comes_next(connection: pika.BlockingConnection) -> None:
    channel = stream(connection, "next")
    reader = connection.channel()
    reader.basic_qos(prefetch_count=1)
    found: list[bytes] = []
    reader.basic_consume("next", lambda channel, method, properties, body: found.append(body))
    for body in (b"a", b"b"):
        channel.basic_publish("", "next", body)
    wait_until(lambda: connection.process_data_events(0.01) or found, "the first")
    channel.queue_declare("next", passive=True)  # what the server had to say before is here with its answer
    connection.process_data_events(0)
    assert found == [b"a"], "the second waits for credit"
    reader.basic_ack(0, multiple=True)
    wait_until(lambda: connection.process_data_events(0.01) or len(found) == 2, "the second")
    assert found == [b"a", b"b"]


def test_what_a_stream_cannot(connection: pika.BlockingConnection, server: Deployment) -> None:
    stream(connection, "cannot", 1)
    with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="prefetch count is not set"):
        connection.channel().basic_consume("cannot", lambda *given: None)
    channel = connection.channel()
    channel.basic_qos(prefetch_count=1)
    with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="x-stream-offset"):
        channel.basic_consume("cannot", lambda *given: None, arguments={"x-stream-offset": "yesterday"})
    for ask in (
        lambda channel: channel.basic_get("cannot"),
        lambda channel: channel.queue_purge("cannot"),
        lambda channel: channel.basic_consume("cannot", lambda *given: None, auto_ack=True),
    ):
        other = pika.BlockingConnection(parameters(server.port("amqp")))
        channel = other.channel()
        channel.basic_qos(prefetch_count=1)
        with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match="NOT_IMPLEMENTED"):
            ask(channel)


def test_counts_and_readers_of_a_deleted_stream(connection: pika.BlockingConnection) -> None:
    channel = stream(connection, "counted", 5, **{"x-max-length-bytes": 1_000_000})
    assert channel.queue_declare("counted", passive=True).method.message_count == 5
    reader = connection.channel()
    reader.basic_qos(prefetch_count=10)
    cancelled: list[object] = []
    reader.add_on_cancel_callback(cancelled.append)
    reader.basic_consume("counted", lambda *given: None)
    assert channel.queue_declare("counted", passive=True).method.consumer_count == 1
    channel.queue_delete("counted")
    wait_until(lambda: connection.process_data_events(0.01) or cancelled, "the reader is told")
