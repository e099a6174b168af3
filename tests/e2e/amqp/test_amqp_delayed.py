"""Messages that an exchange delays: bindings of the time of their arrival decide; the limits of a queue, and a time to
live, begin then, too."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import amqp  # type: ignore[import-untyped]
import pytest

from tests.support.amqp import servers
from tests.support.processes.server import ServerProcess
from tests.support.waiting import wait_until

DELAY_MS = 400
LATE = {"durable": True, "arguments": {"x-delayed-type": "direct"}}


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


def test_the_bindings_decide_that_hold_when_the_delay_ends(connect: Callable[[], amqp.Connection]) -> None:
    with connect() as connection:
        channel = connection.channel()
        name = f"late-{uuid4().hex[:8]}"
        channel.exchange_declare(name, "x-delayed-message", arguments={"x-delayed-type": "topic"})
        before, after, both, gone = (channel.queue_declare(exclusive=True).queue for _ in range(4))
        for queue in (before, both, gone):
            channel.queue_bind(queue, name, "a.#")
        headers = {"x-delay": DELAY_MS, "CC": ["b.cc"], "own": 7}
        channel.basic_publish(amqp.Message("x", application_headers=headers), name, "a.b")
        channel.queue_unbind(before, name, "a.#")
        channel.queue_delete(gone)
        channel.queue_bind(after, name, "b.#")
        got = wait_until(lambda: channel.basic_get(both, no_ack=True), "it arrives")
        assert (got.body, got.delivery_info["exchange"], got.delivery_info["routing_key"]) == ("x", name, "a.b")
        assert got.application_headers["own"] == 7
        by_cc = wait_until(lambda: channel.basic_get(after, no_ack=True), "it arrives by its other key")
        assert by_cc.body == "x"
        assert channel.basic_get(before) is None
        channel.exchange_delete(name)


def test_a_delayed_message_without_a_binding_waits_for_one(connect: Callable[[], amqp.Connection]) -> None:
    """It is not returned: nobody knows where it will go."""
    with connect() as connection:
        channel = connection.channel()
        returned: list[object] = []
        channel.events["basic_return"].add(lambda *told: returned.append(told))
        name = f"late-{uuid4().hex[:8]}"
        channel.exchange_declare(name, "x-delayed-message", arguments={"x-delayed-type": "direct"})
        message = amqp.Message("x", application_headers={"x-delay": DELAY_MS})
        channel.basic_publish(message, name, "k", mandatory=True)
        queue = channel.queue_declare(exclusive=True).queue
        channel.queue_bind(queue, name, "k")
        wait_until(lambda: channel.basic_get(queue, no_ack=True), "it arrives")
        assert not returned
        channel.exchange_delete(name)


def test_a_full_queue_that_rejects_gets_it_when_it_has_room(connect: Callable[[], amqp.Connection]) -> None:
    """Nothing that was confirmed is lost, and no other queue gets it twice."""
    with connect() as connection:
        channel = connection.channel()
        exchange, full = _delaying(channel, max_length=1, overflow="reject-publish")
        other, mark = (channel.queue_declare(exclusive=True).queue for _ in range(2))
        channel.queue_bind(other, exchange)
        channel.basic_publish(amqp.Message("first"), "", full)
        _publish(channel, exchange, "late")
        direct = amqp.Message("mark", application_headers={"x-delay": DELAY_MS * 2})
        channel.exchange_declare(f"{exchange}-m", "x-delayed-message", arguments={"x-delayed-type": "fanout"})
        channel.queue_bind(mark, f"{exchange}-m")
        channel.basic_publish(direct, f"{exchange}-m")
        wait_until(lambda: channel.basic_get(mark, no_ack=True), "a later one has arrived")
        assert channel.queue_declare(full, passive=True).message_count == 1
        assert channel.basic_get(full, no_ack=True).body == "first"
        assert wait_until(lambda: channel.basic_get(full, no_ack=True), "it arrives").body == "late"
        assert wait_until(lambda: channel.basic_get(other, no_ack=True), "here, too").body == "late"
        assert channel.basic_get(other) is None
        for name in (exchange, f"{exchange}-m"):
            channel.exchange_delete(name)


@pytest.mark.soak
def test_delayed_messages_outlive_a_killed_server(tmp_path: Path) -> None:
    """Killed while they wait, and around the time when they arrive: each confirmed one is routed."""
    with ServerProcess(tmp_path) as server:

        def connected() -> amqp.Connection:
            connection = amqp.Connection(f"127.0.0.1:{server.port('amqp')}", confirm_publish=True)
            connection.connect()
            return connection

        count = 300
        with connected() as connection:
            channel = connection.channel()
            channel.exchange_declare("late", "x-delayed-message", auto_delete=False, **LATE)
            channel.queue_declare("q", durable=True, auto_delete=False)
            for number in range(count):
                headers = {"x-delay": 500 + number * 10}
                channel.basic_publish(amqp.Message(str(number), application_headers=headers), "late", "k")
            channel.queue_bind("q", "late", "k")
        got: set[str] = set()
        for _ in range(4):
            server.kill()
            server.restart()
            with connected() as connection:
                channel = connection.channel()
                before = len(got)
                wait_until(lambda c=channel, b=before: _read(c, got) >= min(b + 40, count), "more arrive")
        with connected() as connection:
            channel = connection.channel()
            wait_until(lambda: _read(channel, got) == count, lambda: f"only {len(got)} arrived")


def _read(channel: amqp.Channel, got: set[str]) -> int:
    while (message := channel.basic_get("q")) is not None:
        got.add(message.body)
        channel.basic_ack(message.delivery_tag)
    return len(got)
