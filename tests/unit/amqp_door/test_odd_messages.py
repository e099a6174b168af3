"""One message that no encoder takes stops nothing: it is set aside by a rule, and the others go on in order."""

from __future__ import annotations

from typing import Any

import pytest

from entrepot.domain.delivery import MessageRun
from entrepot.domain.errors import Code, EntrepotError
from entrepot.gateway.amqp.connections import publishing, templates
from entrepot.gateway.amqp.virtual_hosts import dead_letters
from entrepot.gateway.messaging.incidents import Outcome
from entrepot.protocols.amqp import outgoing
from entrepot.protocols.amqp.consumed import origin_of, template_of
from entrepot.protocols.amqp.delivery import content_template, deliver_frames, get_ok_frame
from entrepot.protocols.amqp.methods_basic import (
    BasicAck,
    BasicConsume,
    BasicGet,
    BasicGetEmpty,
    BasicQos,
    BasicReject,
    BasicReturn,
)
from tests.support.amqp.door import AmqpClient, AmqpDoor
from tests.support.waiting import until

ODD = b"odd"
BODIES = [b"0", b"1", ODD, b"3", b"4"]
GOOD = [b"0", b"1", b"3", b"4"]


@pytest.fixture
async def client(door: AmqpDoor) -> AmqpClient:
    return await door.client().open()


def raising_for(body: bytes, encode: Any, place: int = 0) -> Any:
    """An encoder with a fault for one body; `place`: argument with the message."""

    def encoder(*arguments: Any, **named: Any) -> Any:
        if arguments[place].body == body:
            raise IndexError("a fault of ours")
        return encode(*arguments, **named)

    return encoder


@pytest.fixture(params=["template", "frames"])
def broken(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The encoder of deliveries raises for the odd message: in its first half or in its second."""
    if request.param == "template":
        monkeypatch.setattr(templates, "template_of_record", lambda record: None)
        monkeypatch.setattr(templates, "template_of", raising_for(ODD, template_of))
    else:
        monkeypatch.setattr(outgoing, "deliver_frames", raising_for(ODD, deliver_frames, 4))
        monkeypatch.setattr(outgoing, "get_ok_frame", raising_for(ODD, get_ok_frame, 3))


async def parked(door: AmqpDoor, queue: str, *expected: bytes) -> None:
    """What is set aside is in the group's dead-letter topic, and noted once each."""

    def noted() -> int:
        return sum(count for (_, outcome), count in door.incidents.counts.items() if outcome is Outcome.SET_ASIDE)

    await until(lambda: noted() >= len(expected), "it is noted")
    await door.hosts.feeds.of(door.queue(queue)).leased.settle()
    assert (noted(), await door.parked(queue)) == (len(expected), list(expected))


@pytest.mark.usefixtures("broken")
@pytest.mark.parametrize("queue_type", ["classic", "quorum"])
@pytest.mark.parametrize("no_ack", [False, True])
async def test_consumers_get_the_others_in_order(
    door: AmqpDoor, client: AmqpClient, queue_type: str, no_ack: bool
) -> None:
    await client.declare("q", queue_type=queue_type)
    await client.fill("q", *BODIES)
    await client.consume("q", no_ack=no_ack)
    assert await client.takes(4) == GOOD
    assert [each.redelivered for each in client.given] == [False] * 4
    tags = [each.tag for each in client.given]
    assert tags == sorted(set(tags)), "each tag stands for one message"
    await client.fill("q", b"behind")
    assert await client.takes(5) == [*GOOD, b"behind"]
    await parked(door, "q", ODD)
    if not no_ack:
        assert await door.held("q") == (0, 5)
        client.say(1, BasicAck(client.given[-1].tag, True))
        await door.hosts.feeds.of(door.queue("q")).leased.settle()
    assert await door.held("q") == (0, 0)


@pytest.mark.usefixtures("broken")
async def test_an_odd_one_takes_no_credit(door: AmqpDoor, client: AmqpClient) -> None:
    await client.declare("q")
    await client.fill("q", ODD, ODD, b"1", b"2", b"3")
    await client.consume("q", prefetch=2)
    assert await client.takes(2) == [b"1", b"2"]
    client.say(1, BasicAck(client.given[0].tag))
    assert await client.takes(3) == [b"1", b"2", b"3"]
    await parked(door, "q", ODD, ODD)


@pytest.mark.usefixtures("broken")
async def test_an_odd_one_alone_is_parked_too(door: AmqpDoor, client: AmqpClient) -> None:
    await client.declare("q")
    await client.consume("q", prefetch=1)
    await client.fill("q", ODD)
    await parked(door, "q", ODD)
    assert client.given == [] and await door.held("q") == (0, 0)


@pytest.mark.usefixtures("broken")
@pytest.mark.parametrize("no_ack", [False, True])
async def test_basic_get_answers_with_the_next_one(door: AmqpDoor, client: AmqpClient, no_ack: bool) -> None:
    await client.declare("q")
    await client.fill("q", ODD, b"1", ODD)
    found = await client.get("q", no_ack=no_ack)
    assert found is not None and (found.body, found.tag) == (b"1", 1)
    assert await client.get("q") is None
    await parked(door, "q", ODD, ODD)
    assert await door.held("q") == (0, 0 if no_ack else 1)


@pytest.mark.usefixtures("broken")
async def test_a_stream_goes_on_behind_it(door: AmqpDoor, client: AmqpClient) -> None:
    await client.declare("s", queue_type="stream")
    await client.fill("s", *BODIES)
    client.say(1, BasicQos(0, 10), BasicConsume("s", "c", arguments={"x-stream-offset": "first"}))
    assert await client.takes(4) == GOOD
    await client.fill("s", b"behind")
    assert await client.takes(5) == [*GOOD, b"behind"]
    assert door.incidents.counts["amqp", Outcome.SET_ASIDE] == 1
    assert [each.place for each in door.incidents.last] == [f"{door.queue('s').topic}/0@2"]


async def test_dead_letters_of_the_others_go_on(
    door: AmqpDoor, client: AmqpClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dead_letters, "origin_of", raising_for(ODD, origin_of))
    await client.declare("dead")
    await client.declare("q", dead_letter_exchange="", dead_letter_routing_key="dead")
    await client.fill("q", *BODIES)
    await client.consume("q")
    await client.takes(5)
    for each in tuple(client.given):
        client.say(1, BasicReject(each.tag, False))
    await parked(door, "q", ODD)
    await until(lambda: door.hosts.dead_letters.count == 4, "the others are dead letters")
    assert [(await client.get("dead", no_ack=True)).body for _ in GOOD] == GOOD  # type: ignore[union-attr]
    assert await door.held("q") == (0, 0)


async def test_expired_messages_that_cannot_be_looked_at(
    door: AmqpDoor, client: AmqpClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A look at the time of each message stands before every delivery."""
    look = MessageRun.is_over

    def is_over(run: MessageRun, index: int, item: Any, now_ms: int, lifetime_ms: int | None) -> bool:
        if item.body == ODD:
            raise IndexError("a fault of ours")
        return look(run, index, item, now_ms, lifetime_ms)

    monkeypatch.setattr(MessageRun, "is_over", is_over)
    await client.declare("q")
    await client.fill("q", *BODIES)
    await client.consume("q")
    assert await client.takes(4) == GOOD
    await parked(door, "q", ODD)


async def test_a_letter_that_the_store_refuses_for_good_is_not_lost(
    door: AmqpDoor, client: AmqpClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one that its death has made too long."""
    await client.declare("dead")
    await client.declare("q", dead_letter_exchange="", dead_letter_routing_key="dead")
    await client.fill("q", *BODIES)
    send = door.sender.send_and_wait
    too_long = EntrepotError(Code.MESSAGE_BODY_TOO_LARGE, "too long")

    async def refusing(messages: Any) -> Any:
        good = [each for each in messages if each.body != ODD]
        await send(good)
        return [too_long if each.body == ODD else None for each in messages]

    monkeypatch.setattr(door.sender, "send_and_wait", refusing)
    await client.consume("q")
    await client.takes(5)
    client.say(1, *(BasicReject(each.tag, False) for each in client.given))
    await parked(door, "q", ODD)
    assert await door.held("q") == (0, 0)


@pytest.mark.parametrize("confirms", [True, False])
async def test_a_return_that_cannot_be_encoded(
    door: AmqpDoor, client: AmqpClient, monkeypatch: pytest.MonkeyPatch, confirms: bool
) -> None:
    """A publisher is never told that it was taken: it would think that it was routed."""

    def encode(exchange: str, key: str, properties: bytes, body: bytes) -> Any:
        if body == ODD:
            raise IndexError("a fault of ours")
        return content_template(exchange, key, properties, body)

    monkeypatch.setattr(publishing, "content_template", encode)
    await client.declare("q")
    if confirms:
        await client.confirm()
    client.publish("nowhere", b"0", ODD, b"2", mandatory=True)
    await client.fill("q", b"3")
    assert [each.body for each in client.given if isinstance(each.method, BasicReturn)] == [b"0", b"2"]
    assert door.incidents.counts["amqp", Outcome.REFUSED] == 1
    if confirms:
        await until(lambda: client.outcomes() == ({1, 3, 4}, {2}), lambda: str(client.outcomes()))
    found = await client.get("q")
    assert found is not None and found.body == b"3"


async def test_a_publish_that_fails_here_is_refused_alone(
    door: AmqpDoor, client: AmqpClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = door.hosts.routing.message

    def message(vhost: Any, publish: Any, queues: Any, now_ms: int) -> Any:
        if publish.body == ODD:
            raise IndexError("a fault of ours")
        return own(vhost, publish, queues, now_ms)

    monkeypatch.setattr(door.hosts.routing, "message", message)
    await client.declare("q")
    await client.confirm()
    client.publish("q", ODD, b"1", b"2")
    await until(lambda: client.outcomes() == ({2, 3}, {1}), lambda: str(client.outcomes()))
    assert [(await client.get("q")).body for _ in range(2)] == [b"1", b"2"]  # type: ignore[union-attr]
    assert not client.has(BasicGetEmpty, 1)


@pytest.mark.parametrize("channels_end", [True, False])
async def test_what_was_got_for_a_channel_that_has_ended_is_back(
    door: AmqpDoor, client: AmqpClient, monkeypatch: pytest.MonkeyPatch, channels_end: bool
) -> None:
    """While the queue is counted for the answer; or that count fails."""
    await client.declare("q")
    await client.fill("q", b"0")
    feed = door.hosts.feeds.of(door.queue("q"))
    counted = door.hosts.counting.ready

    async def ready(queue: Any) -> int:
        if not channels_end:
            raise EntrepotError(Code.UNAVAILABLE, "it is away")
        client.lose()
        await until(lambda: not client.conversation.channels, "the channel has ended")
        return await counted(queue)

    monkeypatch.setattr(door.hosts.counting, "ready", ready)
    client.say(1, BasicGet("q"))
    await until(lambda: not client.conversation.channels, "the channel has ended")
    await until(lambda: not feed.leased.leases.held and not feed._getting, "it is given back")
    monkeypatch.undo()
    other = await door.client().open()
    found = await other.get("q")
    assert found is not None and (found.body, found.redelivered) == (b"0", True)
