"""Messages up to RabbitMQ's limit, by a real client: in one process, and over the wire between gateway and store."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pika  # type: ignore[import-untyped]
import pytest

from tests.support.processes.server import ServerProcess, WorkersProcess
from tests.tiers.marks import soak_only

LARGEST = 128 << 20


def body(size: int) -> bytes:
    """Bytes that differ from place to place."""
    block = b"".join(hashlib.sha256(b"%d" % number).digest() for number in range(1024))
    return (block * (size // len(block) + 1))[:size]


@contextmanager
def channel_of(server: ServerProcess) -> Iterator[pika.adapters.blocking_connection.BlockingChannel]:
    connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", server.port("amqp")))
    try:
        yield connection.channel()
    finally:
        if connection.is_open:
            connection.close()


def returned(channel: pika.adapters.blocking_connection.BlockingChannel, queue: str) -> tuple[int, bytes]:
    """Delivery tag and body of the next message."""
    method, _, found = channel.basic_get(queue)
    assert method is not None
    return method.delivery_tag, found


@pytest.mark.parametrize("size", [33 << 20, soak_only(LARGEST)])
def test_the_largest_message(tmp_path: Path, size: int) -> None:
    """It is confirmed and delivered.  That one byte more is refused is a case of `tests/conformance/amqp`."""
    with ServerProcess(tmp_path) as server, channel_of(server) as channel:
        channel.queue_declare("large", durable=True)
        channel.confirm_delivery()
        sent = body(size)
        channel.basic_publish("", "large", sent)
        assert returned(channel, "large")[1] == sent


def test_a_large_dead_letter_after_a_start(tmp_path: Path) -> None:
    with ServerProcess(tmp_path) as server:
        sent = body(30 << 20)
        with channel_of(server) as channel:
            arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
            channel.queue_declare("large", durable=True, arguments=arguments)
            channel.queue_declare("dead", durable=True)
            channel.confirm_delivery()
            channel.basic_publish("", "large", sent)
            channel.basic_reject(returned(channel, "large")[0], requeue=False)
        assert server.stop() == 0
        server.restart()
        with channel_of(server) as channel:
            assert returned(channel, "dead")[1] == sent


def test_over_the_wire(tmp_path: Path) -> None:
    """Gateways of their own: the message is one frame to the store and back."""
    with WorkersProcess(tmp_path) as server, channel_of(server) as channel:
        channel.queue_declare("large", durable=True)
        channel.confirm_delivery()
        sent = body(60 << 20)
        channel.basic_publish("", "large", sent)
        assert returned(channel, "large")[1] == sent
