"""Consumers of one queue at two gateways: their priorities, and their order as single active consumers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx2
import pika  # type: ignore[import-untyped]
import pytest

from tests.support.processes.deployment import ClusterProcesses, GatewayProcess
from tests.support.waiting import PATIENCE_SECONDS, wait_until

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
def gateways(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[GatewayProcess]]:
    with ClusterProcesses(tmp_path_factory.mktemp("two"), {}, name_servers=1, brokers=1, gateways=2) as running:
        yield running.gateways


@pytest.fixture(scope="module")
def ports(gateways: list[GatewayProcess]) -> list[int]:
    return [gateway.port("amqp") for gateway in gateways]


def told(gateway: GatewayProcess, queue: str) -> dict[str, Any]:
    """A queue as a gateway tells it, which is as the list there has it."""
    url = f"http://{gateway.address('http')}/api/queues/%2F"
    with httpx2.Client(trust_env=False, timeout=PATIENCE_SECONDS, auth=("guest", "guest")) as client:
        [listed] = [each for each in client.get(url).json() if each["name"] == queue]
        found: dict[str, Any] = client.get(f"{url}/{queue}").json()
    assert listed.keys() <= found.keys() | {"message_stats"}
    return found


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


def test_every_gateway_tells_the_figures_of_all(gateways: list[GatewayProcess], ports: list[int]) -> None:
    queue = Queue(ports[0], "figures", **{"x-single-active-consumer": True})
    first = queue.read_at(ports[0], "first")
    queue.wait_for("first")
    queue.read_at(ports[1], "second")
    names = ("message_bytes", "message_bytes_ready", "message_bytes_unacknowledged", "consumers")

    def figures() -> list[tuple[int, ...]]:
        return [tuple(told(each, queue.name)[name] for name in names) for each in gateways]

    wait_until(lambda: figures() == [(0, 0, 0, 2)] * 2, lambda: f"{figures()}")
    first.channel.basic_qos(prefetch_count=1)
    for _ in range(3):  # nobody reads them, and the first one was sent
        queue.channel.basic_publish("", queue.name, b"x" * 10)
    wait_until(lambda: figures() == [(30, 20, 10, 2)] * 2, lambda: f"{figures()}")
    for each in gateways:
        found = told(each, queue.name)
        consumers = {row["consumer_tag"]: (row["active"], row["activity_status"]) for row in found["consumer_details"]}
        assert sorted(consumers.values()) == [(False, "waiting"), (True, "single_active")]
        assert consumers[found["single_active_consumer_tag"]] == (True, "single_active")
        assert 0 <= found["consumer_capacity"] < 1
    queue.leave(first)
    wait_until(lambda: all(told(each, queue.name)["consumers"] == 1 for each in gateways), "it has gone")
    wait_until(
        lambda: all(told(each, queue.name)["consumer_details"][0]["active"] for each in gateways),
        "the second is active",
    )
    queue.close()
