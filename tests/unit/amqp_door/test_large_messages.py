"""Large messages: how they leave, and the memory of those that have come in part."""

from __future__ import annotations

import asyncio

import pytest

from entrepot.gateway.amqp.connections import incomplete_bodies, large_output
from entrepot.gateway.amqp.connections.incomplete_bodies import STALL_SECONDS, IncompleteBodies
from entrepot.protocols.amqp.content import ContentHeader
from entrepot.protocols.amqp.delivery import LARGE_BODY, content_frames
from entrepot.protocols.amqp.errors import AmqpError
from entrepot.protocols.amqp.methods_basic import BasicAck, BasicConsume, BasicGet, BasicPublish
from entrepot.protocols.amqp.methods_connection import ConnectionClose
from entrepot.protocols.amqp.methods_topology import QueueDeclareOk
from entrepot.protocols.amqp.reply_codes import ReplyCode
from tests.support.amqp.door import AmqpClient, AmqpDoor, quiet
from tests.support.amqp.machine import said
from tests.support.virtual_time import run_virtually
from tests.support.waiting import until

LARGE = [bytes([number]) * (3 * LARGE_BODY + number) for number in range(4)]


# -- on their way to a client ------------------------------------------------------------------------------------------


async def test_they_come_whole_and_in_order(door: AmqpDoor) -> None:
    client = await door.client().open()
    await client.declare("q")
    await client.fill("q", *LARGE, b"small")
    await client.consume("q")
    assert await client.takes(5) == [*LARGE, b"small"]
    client.say(1, BasicAck(5, True))
    await quiet()
    assert await client.get("q") is None


async def test_a_client_that_reads_nothing_is_sent_nothing_more(door: AmqpDoor) -> None:
    client = await door.client().open()
    await client.declare("q")
    await client.fill("q", *LARGE)
    client.say(1, BasicConsume("q", "c"))
    while not client.conversation.machine.is_slicing:
        await asyncio.sleep(0)
    client.is_congested = True
    await quiet()
    due = client.conversation.machine.pieces_due
    assert due > 1 and client.bodies() == []
    await quiet()
    assert client.conversation.machine.pieces_due == due, "neither the rest of it, nor the next one"
    client.reads()
    assert await client.takes(4) == LARGE


async def test_answers_wait_behind_it_and_keep_their_order(door: AmqpDoor) -> None:
    client = await door.client().open(1, 2)
    await client.declare("q")
    await client.fill("q", LARGE[1])
    client.is_congested = True
    client.say(1, BasicGet("q", True))
    await until(lambda: client.conversation.machine.is_slicing, "it is on its way")
    declared = asyncio.ensure_future(client.declare("other", 2))
    await quiet()
    assert not client.has(QueueDeclareOk, 2)
    client.reads()
    await declared
    assert client.bodies() == [LARGE[1]]


async def test_the_next_get_waits_for_the_one_before(door: AmqpDoor) -> None:
    """A client that asks for many and reads none takes the memory of one."""
    client = await door.client().open()
    await client.declare("q")
    await client.fill("q", *LARGE)
    client.is_congested = True
    client.say(1, *[BasicGet("q", True)] * 4)
    await until(lambda: client.conversation.machine.is_slicing, "the first is on its way")
    due = client.conversation.machine.pieces_due
    await quiet()
    assert client.conversation.machine.pieces_due == due
    client.reads()
    assert await client.takes(4) == LARGE


async def test_a_client_with_very_many_answers_due_is_not_read(door: AmqpDoor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_output, "MAX_BEHIND", 20)
    client = await door.client().open(1, 2)
    await client.declare("q")
    await client.fill("q", LARGE[2])
    await client.confirm(2)
    client.is_congested = True
    client.say(1, BasicGet("q", True))
    await until(lambda: client.conversation.machine.is_slicing, "it is on its way")
    for number in range(40):
        await client.fill("q", b"%d" % number, channel=2)
    await until(lambda: bool(client.pauses), "it is not read")
    client.reads()
    await until(lambda: not client.pauses, "it is read again")
    assert await client.takes(1) == [LARGE[2]]
    await until(lambda: client.outcomes(2)[0] == set(range(1, 41)), "all are confirmed")


async def test_the_end_of_a_connection_comes_after_what_is_due(door: AmqpDoor) -> None:
    client = await door.client().open()
    await client.declare("q")
    await client.fill("q", LARGE[3])
    client.is_congested = True
    client.say(1, BasicGet("q", True))
    await until(lambda: client.conversation.machine.is_slicing, "it is on its way")
    client.conversation.close_connection(320, "stopping")  # type: ignore[arg-type]
    client.flush()
    assert client.bodies() == [LARGE[3]]
    assert client.has(ConnectionClose, 0)


# -- on their way from clients -----------------------------------------------------------------------------------------


class Publisher:
    """A connection that publishes, and its driver."""

    def __init__(self) -> None:
        self.driver = self
        self.is_paused, self.ended = False, ""

    def pause_reading(self, _: object) -> None:
        self.is_paused = True

    def resume_reading(self, _: object) -> None:
        self.is_paused = False

    def close_connection(self, code: int, text: str) -> None:
        self.ended = text


def publishers(count: int) -> list[Publisher]:
    return [Publisher() for _ in range(count)]


def test_beyond_the_limit_the_first_goes_on_alone() -> None:
    async def scene() -> None:
        bodies = IncompleteBodies(100, asyncio.get_running_loop())
        one, two, three = made = publishers(3)
        for each in made:
            bodies.note(each, 30)  # type: ignore[arg-type]
        bodies.note(two, 50)  # type: ignore[arg-type]
        assert [each.is_paused for each in made] == [False, True, False], "who comes over the limit waits"
        bodies.note(three, 40)  # type: ignore[arg-type]
        bodies.note(one, 90)  # type: ignore[arg-type]
        assert [each.is_paused for each in made] == [False, True, True]
        bodies.note(one, 0)  # type: ignore[arg-type]
        assert bodies.total_bytes == 90
        assert [each.is_paused for each in made] == [False, False, False]
        bodies.note(three, 60)  # type: ignore[arg-type]
        assert [each.is_paused for each in made] == [False, False, True], "the second began before it"
        bodies.note(two, 0)  # type: ignore[arg-type]
        bodies.note(three, 0)  # type: ignore[arg-type]
        assert bodies.total_bytes == 0 and not bodies._held and not bodies._waiting

    run_virtually(scene())


def test_the_next_goes_on_while_memory_is_still_short() -> None:
    async def scene() -> None:
        bodies = IncompleteBodies(100, asyncio.get_running_loop())
        one, two, _ = made = publishers(3)
        for each, size in zip(made, (20, 70, 70), strict=True):
            bodies.note(each, size)  # type: ignore[arg-type]
        bodies.note(two, 80)  # type: ignore[arg-type]
        assert [each.is_paused for each in made] == [False, True, True]
        bodies.note(one, 0)  # type: ignore[arg-type]
        assert [each.is_paused for each in made] == [False, False, True]

    run_virtually(scene())


def test_one_that_stalls_is_closed() -> None:
    async def scene() -> None:
        bodies = IncompleteBodies(100, asyncio.get_running_loop())
        one, two, three = publishers(3)
        bodies.note(one, 60)  # type: ignore[arg-type]
        bodies.note(two, 60)  # type: ignore[arg-type]
        bodies.note(three, 60)  # type: ignore[arg-type]
        await asyncio.sleep(STALL_SECONDS - 1)
        bodies.note(one, 61)  # type: ignore[arg-type]
        await asyncio.sleep(STALL_SECONDS)
        assert not one.ended, "it goes on, if slowly"
        await asyncio.sleep(STALL_SECONDS)
        assert "did not go on" in one.ended and two.is_paused is False and three.is_paused
        await asyncio.sleep(2 * STALL_SECONDS)
        assert two.ended and not three.is_paused
        await asyncio.sleep(10 * STALL_SECONDS)
        assert not three.ended, "nobody waits for it"

    run_virtually(scene())


def test_one_that_the_server_does_not_read_is_not_closed() -> None:
    """A full disk stops it, say: that is not its doing."""

    async def scene() -> None:
        bodies = IncompleteBodies(100, asyncio.get_running_loop())
        one, two = publishers(2)
        bodies.note(one, 60)  # type: ignore[arg-type]
        bodies.note(two, 60)  # type: ignore[arg-type]
        one.is_paused = True
        await asyncio.sleep(5 * STALL_SECONDS)
        assert not one.ended
        one.is_paused = False
        await asyncio.sleep(2 * STALL_SECONDS)
        assert one.ended and not two.is_paused

    run_virtually(scene())


def begun(body: bytes, part: int) -> bytes:
    whole = said(1, BasicPublish("", "q")) + content_frames(1, ContentHeader().data, body, 131_072)
    return whole[:part]


async def test_clients_wait_for_each_other() -> None:
    """By the door: the second message is whole once the first is."""
    async with AmqpDoor(amqp={"max_message_bytes": 1 << 20, "max_incomplete_bytes": 1 << 20}) as door:
        one, two = await door.client().open(), await door.client().open()
        await one.declare("q")
        first, second = (content * (1 << 20) for content in (b"1", b"2"))
        cut = len(begun(first, 1 << 30)) - 200_000
        one.send(begun(first, cut))
        assert not one.pauses
        two.send(begun(second, cut))
        assert two.pauses and not one.pauses
        one.send(begun(first, 1 << 30)[cut:])
        await until(lambda: not two.pauses, "the second is read again")
        two.send(begun(second, 1 << 30)[cut:])
        await one.consume("q", no_ack=True)
        assert await one.takes(2) == [first, second]
        two.lose()
        await quiet()
        assert door.frontend.services.incomplete.total_bytes == 0


async def test_a_connection_that_ends_gives_its_memory_back() -> None:
    async with AmqpDoor(amqp={"max_incomplete_bytes": 1 << 20, "max_message_bytes": 1 << 20}) as door:
        client: AmqpClient = await door.client().open()
        client.send(begun(bytes(1 << 20), 500_000))
        incomplete = door.frontend.services.incomplete
        assert 0 < incomplete.total_bytes < 500_000
        client.lose()
        await until(lambda: not incomplete.total_bytes, "nothing is kept")


async def test_a_channel_that_is_closed_gives_its_memory_back(door: AmqpDoor) -> None:
    """Also one that the server closes, in the middle of a message."""
    client = await door.client().open()
    client.send(begun(bytes(1 << 20), 500_000))
    incomplete = door.frontend.services.incomplete
    assert incomplete.total_bytes > 0
    client.conversation.channels[1].fail(AmqpError(ReplyCode.PRECONDITION_FAILED, "timed out"))
    assert incomplete.total_bytes == 0


def test_the_limit_has_a_witness() -> None:
    """The wait for the first is looked at within a heartbeat's usual interval."""
    assert incomplete_bodies.STALL_SECONDS < 60
