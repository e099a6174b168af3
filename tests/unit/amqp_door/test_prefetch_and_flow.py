"""How much a consumer is handed, and when a publisher is stopped."""

from __future__ import annotations

import asyncio

import pytest

from entrepot.gateway.amqp.connections import channel as channel_module
from entrepot.gateway.amqp.connections.channel_room import NO_ACK_BATCH
from entrepot.gateway.messaging import send
from entrepot.protocols.amqp.methods_basic import BasicAck, BasicGet, BasicNack, BasicQos
from entrepot.protocols.amqp.methods_connection import (
    ChannelClose,
    ChannelFlow,
    ChannelFlowOk,
    ConnectionBlocked,
    ConnectionClose,
    ConnectionUnblocked,
)
from tests.support.amqp.door import AmqpClient, AmqpDoor, quiet
from tests.support.waiting import until

TEN = [b"%d" % number for number in range(10)]


async def started(door: AmqpDoor, *channels: int) -> AmqpClient:
    client = await door.client().open(*channels)
    await client.declare("q")
    await client.fill("q", *TEN)
    return client


# -- prefetch ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("prefetch", [1, 3, 9])
async def test_a_consumer_holds_no_more_than_its_prefetch(door: AmqpDoor, prefetch: int) -> None:
    client = await started(door)
    await client.consume("q", prefetch=prefetch)
    for place in range(11 - prefetch):
        assert await client.takes(prefetch + place) == TEN[: prefetch + place]
        await quiet()
        assert len(client.given) == prefetch + place
        if place < 10 - prefetch:
            client.say(1, BasicAck(client.given[place].tag))


async def test_without_a_prefetch_it_gets_everything(door: AmqpDoor) -> None:
    client = await started(door)
    await client.consume("q")
    assert await client.takes(10) == TEN


async def test_a_prefetch_is_of_later_consumers(door: AmqpDoor) -> None:
    """Each has its own; a consumer keeps what was set when it began."""
    client = await started(door)
    await client.consume("q", prefetch=2, tag="two")
    await client.takes(2)
    client.say(1, BasicQos(0, 5))
    await quiet()
    assert len(client.given) == 2
    await client.consume("q", prefetch=3, tag="three")
    await client.takes(5)
    await quiet()
    assert len(client.given) == 5


async def test_a_prefetch_of_the_channel_is_of_all_its_consumers(door: AmqpDoor) -> None:
    client = await started(door)
    client.say(1, BasicQos(0, 4, True))
    for tag in "abc":
        await client.consume("q", prefetch=3, tag=tag)
    await client.takes(4)
    await quiet()
    assert len(client.given) == 4
    client.say(1, BasicNack(client.given[0].tag, False, False))
    await client.takes(5)
    client.say(1, BasicQos(0, 6, True))
    await client.takes(6 + 1)
    await quiet()
    assert len(client.given) == 7


async def test_a_cancelled_consumers_messages_count_for_the_channel_still(door: AmqpDoor) -> None:
    client = await started(door)
    client.say(1, BasicQos(0, 2, True))
    await client.consume("q", tag="a")
    await client.takes(2)
    client.conversation.channels[1].consuming.cancel("a")
    await client.consume("q", tag="b")
    await quiet()
    assert len(client.given) == 2
    client.say(1, BasicAck(0, True))
    await client.takes(4)


async def test_without_acknowledgements_a_prefetch_has_no_meaning(door: AmqpDoor) -> None:
    client = await started(door)
    await client.consume("q", prefetch=1, no_ack=True)
    assert await client.takes(10) == TEN
    assert await door.held("q") == (0, 0)


async def test_the_limit_of_what_a_channel_holds() -> None:
    async with AmqpDoor(amqp={"max_unacknowledged": 4}) as door:
        client = await started(door)
        await client.consume("q")
        await client.takes(4)
        await quiet()
        assert len(client.given) == 4
        client.say(1, BasicAck(2, True))
        await client.takes(6)


async def test_a_prefetch_in_bytes_is_refused(door: AmqpDoor) -> None:
    client = await door.client().open()
    client.say(1, BasicQos(1, 0))
    assert (await client.expect(ConnectionClose, 0)).reply_code == 540


# -- a consumer that does not read -------------------------------------------------------------------------------------


@pytest.mark.parametrize("no_ack", [True, False])
async def test_a_congested_consumer_gets_nothing_more_until_it_has_read(door: AmqpDoor, no_ack: bool) -> None:
    client = await started(door)
    client.is_congested = True
    await client.consume("q", no_ack=no_ack)
    await quiet()
    assert client.given == [] and await door.held("q") == (10, 0)
    client.is_congested = False
    client.conversation.writable()
    assert await client.takes(10) == TEN


async def test_no_more_is_handed_out_than_fits_the_buffer(door: AmqpDoor) -> None:
    """A first estimate of 64 KiB each; one always fits."""
    client = await started(door)
    client.unwritten = (1 << 20) - (3 << 16)
    consuming = client.conversation.channels[1].consuming
    await client.consume("q", no_ack=True)
    [consumer] = consuming.consumers.values()
    await client.takes(10)
    assert 3 < consumer.credit < NO_ACK_BATCH, "small ones have come since"
    client.unwritten = 0
    assert consumer.credit == NO_ACK_BATCH
    fresh = await door.client().open()
    fresh.unwritten = (1 << 20) - (3 << 16)
    await fresh.consume("q")
    [other] = fresh.conversation.channels[1].consuming.consumers.values()
    assert other.credit == 3
    fresh.unwritten = fresh.write_limit - 1
    assert other.credit == 1


# -- a publisher that is too fast --------------------------------------------------------------------------------------


async def test_a_publisher_pauses_while_the_store_is_behind(door: AmqpDoor, monkeypatch: pytest.MonkeyPatch) -> None:
    client = await door.client().open()
    await client.declare("q")
    monkeypatch.setattr(send, "MAX_WAITING_MESSAGES", 4)
    client.publish("q", *TEN[:4])
    assert client.pauses == set()
    client.publish("q", b"4")
    assert client.pauses != set()
    await until(lambda: not client.pauses, "it goes on")
    await client.consume("q")
    assert await client.takes(5) == TEN[:5]


async def test_events_behind_a_method_that_asks_the_store_wait_in_their_order(
    door: AmqpDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channel_module, "MAX_WAITING", 3)
    client = await started(door)
    client.say(1, *[BasicGet("q", True) for _ in range(4)])
    assert client.pauses != set(), "three wait behind the first"
    assert await client.takes(4) == TEN[:4]
    await until(lambda: not client.pauses, "it goes on")


async def test_a_full_store_blocks_publishers_and_no_others(door: AmqpDoor) -> None:
    publisher, consumer = await door.client().open(), await door.client().open()
    await consumer.declare("q")
    await publisher.fill("q", b"0")
    door.frontend.services.storage_full()
    assert "disk" in (await publisher.expect(ConnectionBlocked, 0)).reason
    assert publisher.pauses != set()
    assert not consumer.has(ConnectionBlocked, 0) and consumer.pauses == set()
    door.frontend._look_for_room()
    await publisher.expect(ConnectionUnblocked, 0)
    assert publisher.pauses == set()


async def test_channel_flow(door: AmqpDoor) -> None:
    """The server sends none; the client may ask that it goes on, and not that it stops."""
    client = await door.client().open(1, 2)
    client.say(1, ChannelFlow(True))
    assert (await client.expect(ChannelFlowOk)).active
    client.say(2, ChannelFlow(False))
    assert (await client.expect(ConnectionClose, 0)).reply_code == 540


# -- silence -----------------------------------------------------------------------------------------------------------


async def test_a_consumer_that_holds_a_message_for_too_long_loses_its_channel(door: AmqpDoor) -> None:
    client = await started(door)
    await client.consume("q", prefetch=1)
    await client.takes(1)
    consuming = client.conversation.channels[1].consuming
    now = asyncio.get_running_loop().time()
    assert not consuming.late(now + 3599, 3600)
    assert consuming.late(now + 3601, 3600)
    client.say(1, BasicAck(1))
    await client.takes(2)
    assert consuming.late(now + 3700, 3600)


@pytest.mark.parametrize(
    ("seconds", "own_ms", "is_late"), [(-1, None, True), (3600, None, False), (-1, 3_600_000, False)]
)
async def test_the_look_for_late_consumers(seconds: float, own_ms: int | None, is_late: bool) -> None:
    """A queue may have a time of its own."""
    async with AmqpDoor(amqp={"consumer_timeout_seconds": seconds}) as door:
        client = await door.client().open()
        await client.declare("q", **({} if own_ms is None else {"consumer_timeout": own_ms}))
        await client.fill("q", b"0")
        await client.consume("q")
        await client.takes(1)
        door.frontend._look_for_late()
        assert client.has(ChannelClose, 1) == is_late
        if is_late:
            closed = await client.expect(ChannelClose)
            assert closed.reply_code == 406 and "timed out" in closed.reply_text


async def test_a_silent_client_is_dropped_and_its_messages_are_requeued(door: AmqpDoor) -> None:
    """It promised a heartbeat each 60 s: two of them may be late."""
    client = await started(door)
    await client.consume("q", prefetch=2)
    await client.takes(2)
    at = client.conversation.deadline()
    client.conversation.timed_out(at)
    assert not client.is_closed, "first the server tells that it is alive itself"
    for _ in range(10):
        if client.is_closed:
            break
        client.conversation.timed_out(client.conversation.deadline())
    await until(lambda: not client.conversation.channels, "it has ended")
    assert client.is_closed
    await door.hosts.feeds.of(door.queue("q")).leased.settle()
    assert await door.held("q") == (10, 0)
