"""Publishers are told that they are blocked, and that they are not any more; who only consumes is told nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pika  # type: ignore[import-untyped]
import pytest

from tests.support.amqp.peers import pika_words
from tests.support.amqp.peers.peer import Arrival
from tests.support.amqp.rabbitmq import RabbitMQ
from tests.support.amqp.servers import USERS
from tests.support.processes.server import ServerProcess
from tests.support.waiting import wait_until
from tests.tiers.marks import interop_only

MORE_THAN_ANY_DISK = str(1 << 60)


@contextmanager
def _full_entrepot(directory: Path) -> Iterator[int]:
    """Our server, which refuses to publish for want of room on its disk."""
    with ServerProcess(directory, {**USERS, "store.disk_refuse_free_bytes": MORE_THAN_ANY_DISK}) as server:
        yield server.port("amqp")


@contextmanager
def _full_rabbitmq(directory: Path) -> Iterator[int]:
    """RabbitMQ above its watermark of memory."""
    with RabbitMQ(directory, lines=("vm_memory_high_watermark.absolute = 1",)) as node:
        yield node.port


class Client:
    """pika, and what it was told."""

    def __init__(self, port: int) -> None:
        self.connection = pika.BlockingConnection(pika_words.parameters(port, Arrival()))
        self.told: list[str] = []
        self.connection.add_on_connection_blocked_callback(lambda _, frame: self.told.append(frame.method.reason))
        self.connection.add_on_connection_unblocked_callback(lambda _, frame: self.told.append("unblocked"))
        self.channel = self.connection.channel()

    def pumped(self) -> list[str]:
        self.connection.process_data_events(0.01)
        return self.told


@pytest.mark.parametrize(
    ("full", "reason"),
    [
        pytest.param(_full_entrepot, "low on disk", id="serve"),
        interop_only(_full_rabbitmq, "low on memory", name="rabbitmq"),
    ],
)
def test_a_publisher_is_told(full: object, reason: str, tmp_path: Path) -> None:
    with full(tmp_path) as port:  # type: ignore[operator]
        publisher, consumer = Client(port), Client(port)
        queue = consumer.channel.queue_declare("", exclusive=True).method.queue
        consumer.channel.basic_consume(queue, lambda *_: None)
        publisher.channel.basic_publish("amq.direct", "nowhere", b"x")
        publisher.channel.basic_publish("", queue, b"x")
        wait_until(lambda: publisher.pumped()[:1] == [reason], lambda: f"{publisher.told}")
        assert consumer.channel.queue_declare(queue, passive=True).method.consumer_count == 1
        assert consumer.pumped() == []


def test_a_publisher_may_go_on(tmp_path: Path) -> None:
    """Ours lets publishers try again after a while, since nobody tells it that there is room."""
    with _full_entrepot(tmp_path) as port:
        publisher = Client(port)
        queue = publisher.channel.queue_declare("q", durable=True).method.queue
        publisher.channel.basic_publish("", queue, b"x")
        wait_until(lambda: publisher.pumped()[:2] == ["low on disk", "unblocked"], lambda: f"{publisher.told}")
