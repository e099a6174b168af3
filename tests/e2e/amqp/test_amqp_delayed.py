"""Messages that an exchange delays: the limits of a queue, and a time to live, begin with their arrival there."""

from __future__ import annotations

from collections.abc import Callable
from uuid import uuid4

import amqp  # type: ignore[import-untyped]
import pytest

from tests.support.amqp import servers
from tests.support.waiting import wait_until

DELAY_MS = 400


@pytest.fixture(params=servers.OURS)
def connect(request: pytest.FixtureRequest, amqp_port: Callable[[str], int]) -> Callable[[], amqp.Connection]:
    """Opens a connection to a server of ours: Debian's RabbitMQ lacks the plugin."""

    def connected() -> amqp.Connection:
        connection = amqp.Connection(f"127.0.0.1:{amqp_port(request.param)}", confirm_publish=True)
        connection.connect()
        return connection

    return connected


def _delaying(channel: amqp.Channel, **arguments: object) -> tuple[str, str]:
    """An exchange that delays, and a queue behind it with arguments."""
    name = f"late-{uuid4().hex[:8]}"
    channel.exchange_declare(name, "x-delayed-message", arguments={"x-delayed-type": "fanout"})
    given = {f"x-{key.replace('_', '-')}": value for key, value in arguments.items()}
    queue = channel.queue_declare(exclusive=True, arguments=given).queue
    channel.queue_bind(queue, name)
    return name, queue


def _publish(channel: amqp.Channel, exchange: str, text: str, **properties: str) -> None:
    headers = {"x-delay": DELAY_MS}
    channel.basic_publish(amqp.Message(text, application_headers=headers, **properties), exchange)


def test_delayed_messages_obey_a_limit_that_drops(connect: Callable[[], amqp.Connection]) -> None:
    with connect() as connection:
        channel = connection.channel()
        exchange, queue = _delaying(channel, max_length=1)
        for text in ("1", "2", "3"):
            _publish(channel, exchange, text)
        last = channel.queue_declare(queue, passive=True).message_count
        assert last == 0, "they are late"
        wait_until(lambda: channel.queue_declare(queue, passive=True).message_count == 1, "all but one are dropped")
        channel.exchange_delete(exchange)


@pytest.mark.parametrize("where", ["queue", "message"])
def test_the_life_of_a_delayed_message_begins_in_the_queue(connect: Callable[[], amqp.Connection], where: str) -> None:
    """Its time to live is shorter than its delay, and a consumer waits for it."""
    with connect() as connection:
        channel = connection.channel()
        exchange, queue = _delaying(channel, **({"message_ttl": DELAY_MS // 2} if where == "queue" else {}))
        got: list[str] = []
        channel.basic_consume(queue, callback=lambda message: got.append(message.body), no_ack=True)
        _publish(channel, exchange, "x", **({"expiration": str(DELAY_MS // 2)} if where == "message" else {}))
        while not got:
            connection.drain_events(timeout=10)
        assert got == ["x"]
        channel.exchange_delete(exchange)


def test_a_delayed_message_expires_after_its_arrival(connect: Callable[[], amqp.Connection]) -> None:
    with connect() as connection:
        channel = connection.channel()
        dead = channel.queue_declare(exclusive=True).queue
        letters = {"dead_letter_exchange": "", "dead_letter_routing_key": dead}
        exchange, _ = _delaying(channel, message_ttl=50, **letters)
        _publish(channel, exchange, "x")
        wait_until(lambda: channel.queue_declare(dead, passive=True).message_count == 1, "it expires by itself")
        channel.exchange_delete(exchange)
