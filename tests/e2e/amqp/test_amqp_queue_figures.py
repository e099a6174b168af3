"""Bytes of messages, capacity and activity of consumers in the management API, at our server and at RabbitMQ itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final
from uuid import uuid4

import pika  # type: ignore[import-untyped]
import pytest
from pika.adapters.blocking_connection import BlockingChannel  # type: ignore[import-untyped]

from tests.support.amqp.management import Managed
from tests.support.waiting import wait_until

SIZES: Final = (10, 20, 30, 40, 50)
HIGH: Final = 0.7
"""A capacity that is not 1, but near it: RabbitMQ tells the last one before the queue slept."""
NAMES: Final = ("message_bytes", "message_bytes_ready", "message_bytes_unacknowledged")


@pytest.fixture
def channel(managed: Managed) -> Iterator[BlockingChannel]:
    with managed.amqp() as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        yield channel


@contextmanager
def declared(channel: BlockingChannel, **arguments: object) -> Iterator[str]:
    """A queue with messages of SIZES."""
    name = f"f{uuid4().hex[:10]}"
    channel.queue_declare(name, durable=True, arguments=arguments)
    for size in SIZES:
        properties = pika.BasicProperties(delivery_mode=2, headers={"h": "x" * size})
        channel.basic_publish("", name, b"x" * size, properties)
    try:
        yield name
    finally:
        channel.queue_delete(name)


def figures(managed: Managed, queue: str, *names: str) -> tuple[Any, ...]:
    found = managed.get(f"/queues/%2F/{queue}")
    return tuple(found.get(name) for name in names)


def expect(managed: Managed, queue: str, expected: dict[str, Any]) -> None:
    """Wait until a queue has these figures: RabbitMQ collects them now and then."""

    def now() -> dict[str, Any]:
        return dict(zip(expected, figures(managed, queue, *expected), strict=True))

    wait_until(lambda: now() == expected, lambda: f"{now()} is not {expected}")


def consumers(managed: Managed, queue: str) -> dict[str, tuple[bool, str]]:
    """Activity by tag, the same in both lists."""
    listed = [each for each in managed.get("/consumers/%2F") if each["queue"]["name"] == queue]
    detailed = managed.get(f"/queues/%2F/{queue}")["consumer_details"]
    told = [
        {each["consumer_tag"]: (each["active"], each["activity_status"]) for each in of} for of in (listed, detailed)
    ]
    return told[0] if told[0] == told[1] else {}


def pump(channel: BlockingChannel, wanted: Callable[[], bool], what: str) -> None:
    """Wait while the client's connection goes on."""

    def reached() -> bool:
        channel.connection.process_data_events(0)
        return wanted()

    wait_until(reached, what)


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_bytes_are_where_their_messages_are(managed: Managed, channel: BlockingChannel, kind: str) -> None:
    with declared(channel, **{"x-queue-type": kind}) as queue:
        expect(managed, queue, dict(zip(NAMES, (150, 150, 0), strict=True)))
        channel.basic_qos(prefetch_count=2)
        taken: list[int] = []
        channel.basic_consume(queue, lambda _, method, *__: taken.append(method.delivery_tag))
        pump(channel, lambda: len(taken) == 2, "two have come")
        expect(managed, queue, dict(zip(NAMES, (150, 120, 30), strict=True)))
        channel.basic_ack(taken[0])
        pump(channel, lambda: len(taken) == 3, "one more has come")
        expect(managed, queue, dict(zip(NAMES, (140, 90, 50), strict=True)))
        [row] = [each for each in managed.get("/queues/%2F") if each["name"] == queue]
        assert tuple(row[name] for name in NAMES) == (140, 90, 50)
        if managed.is_ours:
            shown = managed.get("/queues/%2F?columns=name,message_bytes&sort=message_bytes&sort_reverse=true")
            assert {"name": queue, "message_bytes": 140} in shown


def test_a_stream_has_neither_bytes_nor_capacity(managed: Managed, channel: BlockingChannel) -> None:
    with declared(channel, **{"x-queue-type": "stream"}) as queue:
        expect(managed, queue, {"messages": len(SIZES)})
        assert figures(managed, queue, *NAMES, "consumer_capacity", "consumer_utilisation") == (None,) * 5


def test_capacity_is_lost_while_messages_wait_for_credit(managed: Managed, channel: BlockingChannel) -> None:
    with declared(channel) as queue:
        expect(managed, queue, {"messages": len(SIZES), "consumer_capacity": 0, "consumer_utilisation": 0})
        channel.basic_qos(prefetch_count=len(SIZES))
        taken: list[int] = []
        channel.basic_consume(queue, lambda _, method, *__: taken.append(method.delivery_tag))
        pump(channel, lambda: len(taken) == len(SIZES), "all have come")
        expect(managed, queue, {"messages_ready": 0})
        assert figures(managed, queue, "consumer_capacity")[0] > HIGH, "nothing waits"

        def goes_on(is_reached: Callable[[float], bool]) -> bool:
            """RabbitMQ tells nothing new of a queue in which nothing happens."""
            channel.basic_publish("", queue, b"one more")
            capacity, utilisation = figures(managed, queue, "consumer_capacity", "consumer_utilisation")
            assert abs(capacity - utilisation) < 0.1
            return is_reached(capacity)

        def is_acknowledged() -> bool:
            if taken:
                channel.basic_ack(taken[-1], multiple=True)
                taken.clear()
            return goes_on(lambda capacity: capacity > HIGH)

        pump(channel, lambda: goes_on(lambda capacity: 0 < capacity < HIGH), "the capacity has sunk")
        pump(channel, is_acknowledged, "the capacity has risen again")


def test_which_consumer_is_active(managed: Managed, channel: BlockingChannel) -> None:
    with declared(channel) as plain, declared(channel, **{"x-single-active-consumer": True}) as single:
        for tag in ("a", "b"):
            channel.basic_consume(plain, lambda *_: None, consumer_tag=f"plain-{tag}")
            channel.basic_consume(single, lambda *_: None, consumer_tag=f"single-{tag}")
        up, first, second = (True, "up"), (True, "single_active"), (False, "waiting")
        wait_until(lambda: consumers(managed, plain) == {"plain-a": up, "plain-b": up}, "both are up")
        wait_until(lambda: consumers(managed, single) == {"single-a": first, "single-b": second}, "one waits")
        expect(managed, single, {"single_active_consumer_tag": "single-a"})
        expect(managed, plain, {"single_active_consumer_tag": None, "exclusive_consumer_tag": None})
        channel.basic_cancel("single-a")
        wait_until(lambda: consumers(managed, single) == {"single-b": first}, "it is the next one's turn")
        expect(managed, single, {"single_active_consumer_tag": "single-b"})


def test_an_exclusive_consumer_is_named(managed: Managed, channel: BlockingChannel) -> None:
    with declared(channel) as queue:
        channel.basic_consume(queue, lambda *_: None, exclusive=True, consumer_tag="alone")
        expect(managed, queue, {"exclusive_consumer_tag": "alone"})
