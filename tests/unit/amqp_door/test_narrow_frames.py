"""Messages whose properties do not fit the frames of a consumer: others get them, and nothing behind them waits."""

from __future__ import annotations

import pytest

from entrepot.gateway.messaging.incidents import Outcome
from entrepot.protocols.amqp.content import ContentHeader
from entrepot.protocols.amqp.methods_basic import BasicAck, BasicGet
from entrepot.protocols.amqp.methods_connection import ChannelClose
from tests.support.amqp.door import AmqpClient, AmqpDoor
from tests.support.waiting import until

NARROW = 4096
LARGE = ContentHeader.of(headers={"long": "x" * 5000})


@pytest.fixture
async def wide(door: AmqpDoor) -> AmqpClient:
    return await door.client().open()


@pytest.fixture
async def narrow(door: AmqpDoor) -> AmqpClient:
    return await door.client().open(frame_max=NARROW)


async def fill(client: AmqpClient, queue: str, *bodies: bytes) -> None:
    """Bodies that begin with `L` have large properties."""
    for body in bodies:
        await client.fill(queue, body, header=LARGE if body[:1] == b"L" else None)


@pytest.mark.parametrize("queue_type", ["classic", "quorum"])
async def test_a_wide_consumer_gets_what_a_narrow_one_cannot(
    door: AmqpDoor, wide: AmqpClient, narrow: AmqpClient, queue_type: str
) -> None:
    await wide.declare("q", queue_type=queue_type)
    await narrow.consume("q", tag="n")
    await wide.consume("q", tag="w")
    await fill(wide, "q", *[b"%s%d" % (b"L" if number % 3 == 0 else b"s", number) for number in range(12)])
    await until(lambda: len(narrow.bodies()) + len(wide.bodies()) == 12, "all came")
    assert all(body[:1] == b"s" for body in narrow.bodies())
    assert [body for body in wide.bodies() if body[:1] == b"L"] == [b"L0", b"L3", b"L6", b"L9"]
    for got in (narrow.bodies(), wide.bodies()):
        assert got == sorted(got, key=lambda body: int(body[1:]))
    assert not door.incidents.counts


async def test_what_nobody_here_can_take_stays_and_those_behind_it_go_on(
    door: AmqpDoor, wide: AmqpClient, narrow: AmqpClient
) -> None:
    await wide.declare("q")
    await fill(wide, "q", b"s0", b"L1", b"s2", b"L3", b"s4")
    await narrow.consume("q")
    assert await narrow.takes(3) == [b"s0", b"s2", b"s4"]
    assert door.incidents.counts["amqp", Outcome.PASSED_OVER] >= 2
    assert "fit no frame" in door.incidents.last[-1].reason
    narrow.say(1, BasicAck(narrow.given[-1].tag, True))
    await wide.consume("q")
    door.clock.advance(60_000)
    assert sorted(await wide.takes(2)) == [b"L1", b"L3"]
    assert all(each.redelivered for each in wide.given), "they were given to nobody, and may come late"


async def test_a_get_of_it_closes_the_channel_and_takes_nothing(
    door: AmqpDoor, wide: AmqpClient, narrow: AmqpClient
) -> None:
    await wide.declare("q")
    await fill(wide, "q", b"L0", b"s1")
    narrow.say(1, BasicGet("q", True))
    closed = await narrow.expect(ChannelClose)
    assert closed.reply_code == 311 and "do not fit a frame" in closed.reply_text
    found = await wide.get("q")
    assert found is not None and found.body == b"L0"


async def test_a_stream_goes_on_behind_it(door: AmqpDoor, wide: AmqpClient, narrow: AmqpClient) -> None:
    await wide.declare("s", queue_type="stream")
    await narrow.consume("s", prefetch=10, arguments={"x-stream-offset": "first"})
    await wide.consume("s", prefetch=10, arguments={"x-stream-offset": "first"})
    await fill(wide, "s", b"s0", b"L1", b"s2")
    assert await wide.takes(3) == [b"s0", b"L1", b"s2"]
    assert await narrow.takes(2) == [b"s0", b"s2"]
    assert door.incidents.counts["amqp", Outcome.PASSED_OVER] == 1
