"""The list: what an SDK's README promises, each as a conversation with a server.  One that ends has passed."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

import pytest

from tests.conformance.rocketmq.sdks.stage import Stage
from tests.support.rocketmq.peers.peer import NotInClientError, Received, RefusedError
from tests.support.waiting import PATIENCE_SECONDS, wait_until

Conversation = Callable[[Stage], None]
MIN_DELAY_SECONDS: Final = 4
LEASE_SECONDS: Final = 10
"""RocketMQ's least invisible duration."""
_LIST: list[tuple[str, Conversation]] = []


def _capability(name: str) -> Callable[[Conversation], Conversation]:
    def add(conversation: Conversation) -> Conversation:
        _LIST.append((name, conversation))
        return conversation

    return add


@_capability("send and receive")
def _normal(stage: Stage) -> None:
    stage.prepare()
    sent = stage.producer()(b"\x00body\xff", tag="red", keys=["k-1"], properties={"unit": "celsius"})
    [found] = stage.take(stage.consumer(), 1)
    assert (found.body, found.topic, found.tag, found.keys) == (b"\x00body\xff", stage.topic, "red", ["k-1"])
    assert (found.properties, found.id, found.attempt) == ({"unit": "celsius"}, sent["id"], 1)


@_capability("FIFO, simple consumer")
def _fifo(stage: Stage) -> None:
    stage.prepare("FIFO", fifo=True)
    _send_two_groups(stage)
    found = stage.one_by_one(stage.consumer(), 10)
    for group in (b"a", b"b"):
        assert [body for body in found if body.startswith(group)] == [group + b"%d" % number for number in range(5)]


@_capability("FIFO, push consumer")
def _fifo_pushed(stage: Stage) -> None:
    stage.prepare("FIFO", fifo=True)
    consumer = stage.peer.push(stage.group, stage.topic)
    stage.finished(consumer, _send_two_groups(stage))
    for group in ("a", "b"):
        mine = [each.body for each in stage.peer.pushed[consumer] if each.group == group]
        assert mine == [b"%s%d" % (group.encode(), number) for number in range(5)]


def _send_two_groups(stage: Stage) -> list[object]:
    send = stage.producer()
    return [send(f"{group}{number}".encode(), group=group)["id"] for number in range(5) for group in ("a", "b")]


@_capability("delay")
def _delay(stage: Stage) -> None:
    stage.prepare("DELAY")
    due = int(time.time()) + MIN_DELAY_SECONDS
    stage.producer()(b"later", deliver_at=due)
    assert stage.bodies(stage.consumer(), 1) == [b"later"]
    assert time.time() >= due - 1  # RocketMQ's timer rounds to its second


@_capability("recall")
def _recall(stage: Stage) -> None:
    stage.prepare("DELAY")
    producer = stage.peer.producer(stage.topic)
    due = int(time.time()) + 2 * MIN_DELAY_SECONDS
    sent = stage.peer.send(producer, stage.topic, b"never", deliver_at=due)
    if sent["recall"] is None:
        raise NotInClientError("a receipt without a handle")
    stage.peer.send(producer, stage.topic, b"later", deliver_at=due)
    assert stage.peer.ask("recall", client=producer, topic=stage.topic, handle=sent["recall"]) == sent["id"]
    consumer = stage.consumer()
    assert stage.bodies(consumer, 1) == [b"later"]
    assert stage.peer.receive(consumer) == []


@_capability("transaction")
def _transaction(stage: Stage) -> None:
    stage.prepare("TRANSACTION")
    send = stage.producer()
    send(b"committed", end="commit")
    send(b"rolled back", end="rollback")
    consumer = stage.consumer()
    assert stage.bodies(consumer, 1) == [b"committed"]
    assert stage.peer.receive(consumer) == []


@_capability("check of an undecided transaction")
def _check(stage: Stage) -> None:
    stage.prepare("TRANSACTION")
    sent = stage.producer("commit")(b"open", end="open")
    wait_until(lambda: sent["id"] in stage.peer.checked, "asked", 2 * PATIENCE_SECONDS)
    assert stage.bodies(stage.consumer(), 1) == [b"open"]


@_capability("priority")
def _priority(stage: Stage) -> None:
    stage.prepare("PRIORITY")
    send = stage.producer()
    for priority in (0, 2, 1):
        send(b"%d" % priority, priority=priority)
    assert stage.one_by_one(stage.consumer(), 3) == [b"2", b"1", b"0"]


@_capability("lite topics")
def _lite(stage: Stage) -> None:
    stage.prepare("LITE", lite=True)
    consumer = stage.peer.lite_push(stage.group, stage.topic, ["a", "b"])
    send = stage.producer()
    wanted = [send(name.encode(), lite=name)["id"] for name in ("c", "a", "b")][1:]
    stage.finished(consumer, wanted)
    assert sorted((each.lite, each.body) for each in stage.peer.pushed[consumer]) == [("a", b"a"), ("b", b"b")]


@_capability("tags")
def _tags(stage: Stage) -> None:
    stage.prepare()
    send = stage.producer()
    for tag in ("red", "blue", "green"):
        send(tag.encode(), tag=tag)
    assert stage.bodies(stage.consumer("tag", "red || green"), 2) == [b"green", b"red"]


@_capability("SQL92")
def _sql(stage: Stage) -> None:
    stage.prepare()
    send = stage.producer()
    for number, tag in enumerate(("red", "blue", "red")):
        send(b"%d" % number, tag=tag, properties={"n": str(number)})
    assert stage.bodies(stage.consumer("sql", "n > 0 AND TAGS = 'red'"), 1) == [b"2"]


@_capability("push consumer")
def _push(stage: Stage) -> None:
    stage.prepare()
    consumer = stage.peer.push(stage.group, stage.topic, failures=1)
    sent = stage.producer()(b"work")
    wait_until(
        lambda: stage.peer.done[consumer] == [sent["id"]],
        lambda: str(stage.peer.pushed[consumer]),
        2 * PATIENCE_SECONDS,
    )
    assert [each.attempt for each in stage.peer.pushed[consumer]] == [1, 2]


@_capability("simple consumer, what is not acknowledged")
def _simple(stage: Stage) -> None:
    stage.prepare()
    consumer = stage.consumer()
    stage.producer()(b"again")
    first = _next(stage, consumer)
    second = _next(stage, consumer)
    assert (second.body, second.attempt, second.id) == (b"again", 2, first.id)
    stage.peer.ack(consumer, second)
    assert stage.peer.receive(consumer, 1, LEASE_SECONDS) == []


@_capability("change of the invisible duration")
def _change(stage: Stage) -> None:
    stage.prepare()
    consumer = stage.consumer()
    stage.producer()(b"again")
    first = _next(stage, consumer, 6 * LEASE_SECONDS)
    stage.peer.change(consumer, first, LEASE_SECONDS)
    second = _next(stage, consumer)
    assert (second.id, second.attempt) == (first.id, 2)


def _next(stage: Stage, consumer: int, invisible: int = LEASE_SECONDS) -> Received:
    [found] = wait_until(lambda: stage.receive(consumer, 1, invisible), "a message", PATIENCE_SECONDS + LEASE_SECONDS)
    return found


@_capability("restart of the server")
def _restart(stage: Stage) -> None:
    stage.prepare()
    send, consumer = stage.producer(), stage.consumer()
    _goes_on(stage, send, consumer, b"before")
    with stage.without(0), pytest.raises(RefusedError):
        send(b"meanwhile")
    _goes_on(stage, send, consumer, b"after")


@_capability("restart of the server, push consumer")
def _restart_pushed(stage: Stage) -> None:
    stage.prepare()
    send, consumer = stage.producer(), stage.peer.push(stage.group, stage.topic)
    stage.finished(consumer, [send(b"before")["id"]])
    with stage.without(0):
        pass
    stage.finished(consumer, [_sent(send, b"after")])


@_capability("two gateways, each stopped in turn")
def _two_gateways(stage: Stage) -> None:
    stage.prepare()
    send, consumer = stage.producer(), stage.consumer()
    _goes_on(stage, send, consumer, b"both")
    for gateway in (0, 1):
        with stage.without(gateway):
            _goes_on(stage, send, consumer, b"without %d" % gateway)
        _goes_on(stage, send, consumer, b"with %d" % gateway)


def _goes_on(stage: Stage, send: Callable[..., dict[str, object]], consumer: int, body: bytes) -> None:
    """A send and a receive that succeed in time; meanwhile calls may fail, as an application sees them do."""
    expected = _sent(send, body)
    found: list[object] = []
    refused: list[RefusedError] = []

    def came() -> bool:
        try:
            for message in stage.peer.receive(consumer):
                found.append(message.id)
                stage.peer.ack(consumer, message)
        except RefusedError as error:
            refused.append(error)
        return expected in found

    wait_until(came, lambda: f"{body!r} comes: {refused[-1:]}", 2 * PATIENCE_SECONDS)


def _sent(send: Callable[..., dict[str, object]], body: bytes) -> object:
    """The id of a body, sent again and again until that succeeds."""

    refused: list[RefusedError] = []

    def sent() -> dict[str, object] | None:
        try:
            return send(body)
        except RefusedError as error:
            refused.append(error)
            return None

    return wait_until(sent, lambda: f"{body!r} is sent: {refused[-1:]}", 2 * PATIENCE_SECONDS)["id"]


CAPABILITIES: Final = dict(_LIST)
"""By name, in the order of the page."""
TWO_GATEWAYS: Final = "two gateways, each stopped in turn"
