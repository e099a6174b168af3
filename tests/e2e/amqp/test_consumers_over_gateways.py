"""Consumers of one queue at two gateways: their priorities, and their order as single active consumers."""

from __future__ import annotations

from collections.abc import Iterator

import pika  # type: ignore[import-untyped]
import pytest

from tests.support.processes.deployment import ClusterProcesses
from tests.support.waiting import wait_until

IN_A_ROW = 10
PACE_SECONDS = 0.02
"""Time between messages: consumers that get one right after the other are taken for busy."""


class Reader:
    """A consumer on a connection of its own; `log` has its name for each message of any reader."""

    def __init__(self, port: int, name: str, queue: str, log: list[str], *, priority: int = 0) -> None:
        self.name, self.log = name, log
        self.connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port, heartbeat=0))
        self.channel = self.connection.channel()
        self.channel.basic_qos(prefetch_count=1)
        self.channel.basic_consume(queue, self._take, arguments={"x-priority": priority})

    def _take(self, channel: pika.channel.Channel, method: pika.spec.Basic.Deliver, *_: object) -> None:
        self.log.append(self.name)
        channel.basic_ack(method.delivery_tag)

    def pump(self) -> None:
        self.connection.process_data_events(0)


class Queue:
    """A queue, its publisher, and what its readers got."""

    def __init__(self, port: int, name: str, **arguments: object) -> None:
        self.name, self.log, self.readers = name, list[str](), list[Reader]()
        self.connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port, heartbeat=0))
        self.channel = self.connection.channel()
        self.channel.confirm_delivery()
        self.channel.queue_declare(name, durable=True, arguments=arguments)

    def read_at(self, port: int, name: str, *, priority: int = 0) -> Reader:
        self.readers.append(Reader(port, name, self.name, self.log, priority=priority))
        return self.readers[-1]

    def leave(self, reader: Reader) -> None:
        self.readers.remove(reader)
        reader.connection.close()

    def got(self) -> str:
        """Publish a message; the name of the reader that got it."""
        count = len(self.log)
        self.connection.process_data_events(PACE_SECONDS)
        self.channel.basic_publish("", self.name, b"x")

        def has_come() -> bool:
            for each in self.readers:
                each.pump()
            return len(self.log) > count

        wait_until(has_come, "the message is there")
        return self.log[-1]

    def wait_for(self, name: str) -> None:
        """Wait until messages in a row go to one reader."""
        wait_until(lambda: all(self.got() == name for _ in range(IN_A_ROW)), f"{name} gets them")

    def close(self) -> None:
        for each in self.readers:
            each.connection.close()
        self.connection.close()


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[int]]:
    with ClusterProcesses(tmp_path_factory.mktemp("two"), {}, name_servers=1, brokers=1, gateways=2) as running:
        yield [gateway.port("amqp") for gateway in running.gateways]


def test_a_higher_priority_at_another_gateway_comes_first(ports: list[int]) -> None:
    queue = Queue(ports[0], "priorities")
    queue.read_at(ports[0], "low")
    high = queue.read_at(ports[1], "high", priority=10)
    queue.wait_for("high")
    assert [queue.got() for _ in range(30)] == ["high"] * 30
    queue.leave(high)
    queue.wait_for("low")
    queue.close()


def test_lower_ones_help_where_the_higher_is_busy(ports: list[int]) -> None:
    queue = Queue(ports[0], "busy")
    queue.read_at(ports[0], "low")
    high = queue.read_at(ports[1], "high", priority=10)
    queue.wait_for("high")
    queue.readers.remove(high)  # it reads no more, so it has no room
    queue.channel.basic_publish("", queue.name, b"x")
    queue.wait_for("low")
    high.connection.close()
    queue.close()


def test_the_single_active_consumer_is_the_one_that_came_first(ports: list[int]) -> None:
    queue = Queue(ports[0], "single", **{"x-single-active-consumer": True})
    first = queue.read_at(ports[0], "first")
    queue.wait_for("first")
    second = queue.read_at(ports[1], "second")
    queue.read_at(ports[0], "third")
    assert [queue.got() for _ in range(IN_A_ROW)] == ["first"] * IN_A_ROW
    queue.leave(first)
    queue.wait_for("second")
    queue.leave(second)
    queue.wait_for("third")
    queue.close()
