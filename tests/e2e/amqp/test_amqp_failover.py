"""One consumer takes the place of another: what that one held comes before anything newer, as on RabbitMQ."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import amqp  # type: ignore[import-untyped]
import pytest

from tests.support.waiting import PATIENCE_SECONDS, wait_until

Connect = Callable[..., amqp.Connection]
REPLIES = "amq.rabbitmq.reply-to"
TURNS = 3
"""Each is a race that the order must win."""
MESSAGES = 20
PREFETCH = 7


def consume(channel: Any, queue: str, prefetch: int, **how: Any) -> list[int]:
    """Begin to consume without acknowledging; the numbers that come."""
    taken: list[int] = []
    channel.basic_qos(0, prefetch, False)
    channel.basic_consume(queue, callback=lambda message: taken.append(int(message.body)), **how)
    return taken


def drain(connection: amqp.Connection, taken: list[int], count: int) -> None:
    while len(taken) < count:
        connection.drain_events(timeout=PATIENCE_SECONDS)


def fill(channel: Any, queue: str) -> None:
    for number in range(MESSAGES):
        channel.basic_publish(amqp.Message(str(number)), routing_key=queue)


def end(connection: amqp.Connection, channel: Any, how: str) -> None:
    """The end of a consumer, which may hold messages."""
    if how == "channel":
        channel.close()
    elif how == "connection":
        connection.close()
    else:
        connection.transport.sock.close()


@pytest.mark.parametrize("prefetch", [PREFETCH, 0], ids=["prefetch", "no prefetch"])
@pytest.mark.parametrize("how", ["channel", "connection", "socket"])
def test_the_next_active_consumer_begins_with_what_the_one_before_held(
    connect: Connect, how: str, prefetch: int
) -> None:
    watching = connect(confirm_publish=True)
    publisher = watching.channel()
    for turn in range(TURNS):
        queue = f"active-{how}-{prefetch}-{turn}"
        publisher.queue_declare(queue, durable=True, arguments={"x-single-active-consumer": True}, auto_delete=False)
        one, other = connect(confirm_publish=True), connect(confirm_publish=True)
        first = one.channel()
        held = consume(first, queue, prefetch)
        taken = consume(other.channel(), queue, 0)
        fill(publisher, queue)
        drain(one, held, prefetch or MESSAGES)
        end(one, first, how)
        publisher.basic_publish(amqp.Message(str(MESSAGES)), routing_key=queue)
        drain(other, taken, MESSAGES + 1)
        assert taken == list(range(MESSAGES + 1))


@pytest.mark.parametrize("how", ["channel", "connection", "socket"])
@pytest.mark.parametrize("is_exclusive", [True, False], ids=["exclusive", "alone"])
def test_who_consumes_next_begins_with_what_the_one_before_held(connect: Connect, how: str, is_exclusive: bool) -> None:
    watching = connect(confirm_publish=True)
    publisher = watching.channel()
    for turn in range(TURNS):
        queue = f"next-{how}-{is_exclusive}-{turn}"
        publisher.queue_declare(queue, durable=True, auto_delete=False)
        one, other = connect(confirm_publish=True), connect(confirm_publish=True)
        first = one.channel()
        held = consume(first, queue, PREFETCH, exclusive=is_exclusive)
        fill(publisher, queue)
        drain(one, held, PREFETCH)
        end(one, first, how)
        if not is_exclusive:
            wait_until(partial(is_unused, watching, queue), "the first is gone")
        taken = consume_once_it_may(other, queue, exclusive=is_exclusive)
        drain(other, taken, MESSAGES)
        assert taken == list(range(MESSAGES))


def is_unused(connection: amqp.Connection, queue: str) -> bool:
    return int(connection.channel().queue_declare(queue, passive=True).consumer_count) == 0


def consume_once_it_may(connection: amqp.Connection, queue: str, **how: Any) -> list[int]:
    """Try until the one before is gone."""
    found: list[list[int]] = []

    def may() -> bool:
        try:
            found.append(consume(connection.channel(), queue, 0, **how))
        except amqp.AccessRefused:
            return False
        return True

    wait_until(may, "the queue may be consumed")
    return found[-1]


def test_direct_replies_are_consumed_again_after_a_cancel(connect: Connect) -> None:
    """A framework may begin and end its consumer of replies for each call."""
    client, server = connect(confirm_publish=True), connect(confirm_publish=True).channel()
    calls = server.queue_declare("calls", auto_delete=False).queue
    channel = client.channel()
    replies: list[str] = []
    for turn in range(3):
        tag = f"replies {turn}"
        channel.basic_consume(REPLIES, tag, callback=lambda message: replies.append(message.body), no_ack=True)
        channel.basic_publish(amqp.Message(str(turn), reply_to=REPLIES), routing_key=calls)
        call = server.basic_get(calls, no_ack=True)
        server.basic_publish(amqp.Message(f"answer {turn}"), routing_key=call.properties["reply_to"])
        while len(replies) == turn:
            client.drain_events(timeout=PATIENCE_SECONDS)
        assert replies[turn:] == [f"answer {turn}"]
        channel.basic_cancel(tag)
    with pytest.raises(amqp.PreconditionFailed):
        channel.basic_publish(amqp.Message("nobody", reply_to=REPLIES), routing_key=calls)
