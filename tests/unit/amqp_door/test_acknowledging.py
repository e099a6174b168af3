"""What settles a delivery, and what becomes of it: acknowledged, requeued, dead-lettered, recovered, by commit."""

from __future__ import annotations

import pytest

from entrepot.protocols.amqp.method_codec import AmqpMethod
from entrepot.protocols.amqp.methods_basic import (
    BasicAck,
    BasicGet,
    BasicNack,
    BasicRecover,
    BasicRecoverOk,
    BasicReject,
    TxCommit,
    TxCommitOk,
    TxRollback,
    TxRollbackOk,
    TxSelect,
    TxSelectOk,
)
from entrepot.protocols.amqp.methods_connection import ChannelClose
from tests.support.amqp.door import AmqpClient, AmqpDoor
from tests.support.waiting import until

FIVE = [b"%d" % number for number in range(5)]


@pytest.fixture
async def client(door: AmqpDoor) -> AmqpClient:
    return await door.client().open()


async def settled(door: AmqpDoor, queue: str = "q") -> tuple[int, int]:
    """Ready and unacknowledged messages, once the store knows all endings."""
    await door.hosts.tasks.settle()
    await door.hosts.feeds.of(door.queue(queue)).leased.settle()
    return await door.held(queue)


async def with_five(client: AmqpClient) -> list[int]:
    """The delivery tags of five messages that the client holds; its consumer is cut off from more."""
    await client.declare("q")
    await client.fill("q", *FIVE)
    await client.consume("q", prefetch=5)
    await client.takes(5)
    return [each.tag for each in client.given]


async def left(door: AmqpDoor, client: AmqpClient) -> list[tuple[bytes, bool]]:
    """What another client gets after the end of the first."""
    client.lose()
    await until(lambda: not client.conversation.channels, "it has ended")
    other, found = await door.client().open(), []
    while (given := await other.get("q", no_ack=True)) is not None:
        found.append((given.body, given.redelivered))
    return found


@pytest.mark.parametrize(
    ("methods", "expected"),
    [
        ([BasicAck(2)], [0, 2, 3, 4]),
        ([BasicAck(2, True)], [2, 3, 4]),
        ([BasicAck(0, True)], []),
        ([BasicAck(5), BasicAck(1)], [1, 2, 3]),
        ([BasicAck(1), BasicAck(3, True)], [3, 4]),
        ([BasicReject(2, False)], [0, 2, 3, 4]),
        ([BasicNack(3, True, False)], [3, 4]),
        ([BasicNack(0, True, False)], []),
    ],
)
async def test_what_is_settled_is_gone_and_the_rest_comes_again_flagged(
    door: AmqpDoor, client: AmqpClient, methods: list[AmqpMethod], expected: list[int]
) -> None:
    assert await with_five(client) == [1, 2, 3, 4, 5]
    client.say(1, *methods)
    assert await settled(door) == (0, len(expected))
    assert await left(door, client) == [(FIVE[number], True) for number in expected]


@pytest.mark.parametrize("method", [BasicReject(2, True), BasicNack(2, False, True)])
async def test_what_is_requeued_comes_at_its_place(door: AmqpDoor, client: AmqpClient, method: AmqpMethod) -> None:
    await with_five(client)
    client.say(1, method)
    await client.takes(6)
    assert (client.given[5].body, client.given[5].redelivered, client.given[5].tag) == (b"1", True, 6)
    client.say(1, BasicAck(6))
    assert await settled(door) == (0, 4)
    assert await left(door, client) == [(FIVE[number], True) for number in (0, 2, 3, 4)]


@pytest.mark.parametrize(
    "method", [BasicAck(9), BasicReject(9, True), BasicNack(9, False, True), BasicAck(9, True), BasicAck(0)]
)
async def test_an_unknown_tag_closes_the_channel_and_everything_is_requeued(
    door: AmqpDoor, client: AmqpClient, method: AmqpMethod
) -> None:
    await with_five(client)
    client.say(1, method)
    closed = await client.expect(ChannelClose)
    assert (closed.reply_code, closed.failed_class_id) == (406, 60)
    assert "unknown delivery tag" in closed.reply_text
    assert await settled(door) == (5, 0)
    assert await left(door, client) == [(body, True) for body in FIVE]


async def test_a_tag_is_settled_once(door: AmqpDoor, client: AmqpClient) -> None:
    """What stands before the faulty one holds."""
    await with_five(client)
    client.say(1, BasicAck(1), BasicAck(1))
    await client.expect(ChannelClose)
    assert await left(door, client) == [(body, True) for body in FIVE[1:]]


async def test_a_multiple_acknowledgement_below_what_is_held_is_unknown(client: AmqpClient) -> None:
    await with_five(client)
    client.say(1, BasicAck(2, True), BasicAck(2, True))
    assert (await client.expect(ChannelClose)).reply_code == 406


async def test_recover_requeues_everything(door: AmqpDoor, client: AmqpClient) -> None:
    await with_five(client)
    client.say(1, BasicAck(1), BasicRecover(True))
    await client.expect(BasicRecoverOk)
    await client.takes(9)
    assert [(each.body, each.redelivered) for each in client.given[5:]] == [(body, True) for body in FIVE[1:]]
    assert await settled(door) == (0, 4)


@pytest.mark.parametrize("queue_type", ["quorum", "classic"])
async def test_the_delivery_limit_of_quorum_queues(door: AmqpDoor, client: AmqpClient, queue_type: str) -> None:
    """With a limit of 1 the second requeue makes a dead letter."""
    await client.declare("dead")
    limit = {"delivery_limit": 1} if queue_type == "quorum" else {}
    await client.declare("q", queue_type=queue_type, dead_letter_exchange="", dead_letter_routing_key="dead", **limit)
    await client.fill("q", b"0", b"1")
    await client.consume("q", prefetch=1)
    for turn in range(1, 3):
        await client.takes(turn)
        client.say(1, BasicNack(turn, False, True))
    await client.takes(3)
    expected = [b"0", b"0", b"1"] if queue_type == "quorum" else [b"0"] * 3
    assert client.bodies() == expected
    await until(lambda: door.hosts.dead_letters.count == (queue_type == "quorum"), "the dead letter")


async def test_messages_that_were_got_are_settled_like_others(door: AmqpDoor, client: AmqpClient) -> None:
    await client.declare("q")
    await client.fill("q", *FIVE)
    for place in range(3):
        found = await client.get("q", no_ack=place == 2)
        assert found is not None and (found.body, found.tag) == (FIVE[place], place + 1)
    client.say(1, BasicAck(1))
    assert await settled(door) == (2, 1)
    client.say(1, BasicAck(3))  # it was never to be settled
    assert (await client.expect(ChannelClose)).reply_code == 406
    assert await left(door, client) == [(b"1", True), (b"3", False), (b"4", False)]


@pytest.mark.parametrize("commits", [True, False])
async def test_a_transaction_settles_at_its_commit(door: AmqpDoor, client: AmqpClient, commits: bool) -> None:
    await with_five(client)
    client.say(1, TxSelect(), BasicAck(1), BasicNack(2, False, True))
    await client.expect(TxSelectOk)
    assert await settled(door) == (0, 5)
    client.say(1, TxCommit() if commits else TxRollback())
    await client.expect(TxCommitOk if commits else TxRollbackOk)
    if commits:
        await client.takes(6)
        assert (client.given[5].body, client.given[5].redelivered) == (b"1", True)
    assert await settled(door) == (0, 4 if commits else 5)
    client.say(1, BasicAck(5), TxCommit())  # what was rolled back is forgotten
    await client.expect(TxCommitOk)
    assert await settled(door) == (0, 3 if commits else 4)


async def test_tags_of_a_channel_are_not_those_of_another(door: AmqpDoor) -> None:
    client = await door.client().open(1, 2)
    await client.declare("q")
    await client.fill("q", b"0", b"1")
    assert (await client.get("q", 1)).tag == (await client.get("q", 2)).tag == 1  # type: ignore[union-attr]
    client.say(2, BasicAck(1))
    assert await settled(door) == (0, 1)
    client.say(2, BasicAck(1))
    await client.expect(ChannelClose, 2)
    assert not client.has(ChannelClose, 1)
    client.say(1, BasicAck(1))
    assert await settled(door) == (0, 0)


async def test_the_count_of_messages_left_is_told_by_get(client: AmqpClient) -> None:
    await client.declare("q")
    await client.fill("q", *FIVE)
    found = await client.get("q")
    assert found is not None and found.method.message_count == 4  # type: ignore[union-attr]
    client.say(1, BasicGet("nowhere"))
    assert (await client.expect(ChannelClose)).reply_code == 404
