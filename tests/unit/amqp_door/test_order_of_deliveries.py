"""What comes late is flagged, and the next only consumer begins with what the one before held."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from entrepot.domain.delivery import Delivery
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.ports import PopRequest
from entrepot.gateway.amqp.feeds import queue_feed
from entrepot.protocols.amqp.content import ContentHeader
from entrepot.protocols.amqp.methods_basic import BasicAck, BasicCancel, BasicCancelOk, BasicConsume, BasicQos
from entrepot.protocols.amqp.methods_connection import ChannelClose
from tests.support.amqp.door import AmqpClient, AmqpDoor
from tests.support.stores.replaced import replaced
from tests.support.stores.steps import handles
from tests.support.waiting import until

SIX = [b"%d" % number for number in range(6)]
ENDS = ["cancel, then channel", "cancel, then connection", "channel", "connection", "socket"]


def marked(client: AmqpClient, channel: int = 1) -> list[tuple[bytes, bool]]:
    return [(each.body, each.redelivered) for each in client.given if each.channel == channel]


class Held:
    """The settlements of a store, which wait for `gate`: what a store of a busy machine is."""

    def __init__(self, door: AmqpDoor) -> None:
        self.gate, self.waiting = asyncio.Event(), 0
        self._own = door.store.consumption
        door.store.consumption = replaced(self._own, change_invisible_duration=self._change)

    async def _change(self, *arguments: Any, **named: Any) -> Any:
        self.waiting += 1
        await self.gate.wait()
        return await self._own.change_invisible_duration(*arguments, **named)


async def leave(client: AmqpClient, how: str) -> None:
    """End the first consumer; a cancel is a read of its own, as it is where the machine is busy."""
    if how.startswith("cancel"):
        client.say(1, BasicCancel("c"))
        await client.expect(BasicCancelOk)
        for _ in range(50):  # the next consumer has every chance to be too early
            await asyncio.sleep(0)
    if how.endswith("channel"):
        client.say(1, ChannelClose(200, "bye"))
    elif how.endswith("connection"):
        client.conversation.close_connection(320, "bye")  # type: ignore[arg-type]
    else:
        client.lose()


@pytest.mark.parametrize("kind", ["single active", "exclusive"])
@pytest.mark.parametrize("is_held", [True, False], ids=["the store is held", "the store is free"])
@pytest.mark.parametrize("how", ENDS)
async def test_the_next_only_consumer_begins_with_what_the_one_before_held(
    door: AmqpDoor, how: str, is_held: bool, kind: str
) -> None:
    first, next_one = await door.client().open(), await door.client().open()
    await first.declare("q", **({"single_active_consumer": True} if kind == "single active" else {}))
    await first.consume("q", prefetch=2, exclusive=kind == "exclusive")
    await first.fill("q", *SIX)
    assert await first.takes(2) == SIX[:2]
    held = Held(door) if is_held else None
    if kind == "single active":
        await next_one.consume("q")
    await leave(first, how)
    if kind == "exclusive":
        await until(lambda: not door.hosts.feeds.consumers(door.queue("q")), "the first is gone")
        await next_one.consume("q", exclusive=True)
    if held is not None:
        await until(lambda: held.waiting, "the store is told")
        for _ in range(50):
            await asyncio.sleep(0)
        assert next_one.given == []
        held.gate.set()
    assert await next_one.takes(6) == SIX
    assert marked(next_one) == [(body, number < 2) for number, body in enumerate(SIX)]


async def test_messages_that_a_cancelled_consumers_client_still_works_on_come_first(door: AmqpDoor) -> None:
    """It acknowledges one of them; the other one is requeued."""
    first, second = await door.client().open(), await door.client().open()
    await first.declare("q", single_active_consumer=True)
    await first.consume("q", prefetch=2)
    await first.fill("q", *SIX)
    await first.takes(2)
    await second.consume("q")
    first.say(1, BasicCancel("c"))
    await first.expect(BasicCancelOk)
    first.say(1, BasicAck(first.given[0].tag))
    for _ in range(50):
        await asyncio.sleep(0)
    assert second.given == []
    first.say(1, ChannelClose(200, "bye"))
    assert await second.takes(5) == SIX[1:]
    assert marked(second)[0] == (b"1", True)


async def test_the_wait_for_a_client_that_keeps_its_messages_ends(
    door: AmqpDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue_feed, "BACK_LOOKS", 3)
    monkeypatch.setattr(queue_feed, "BACK_SECONDS", 0.01)
    first, second = await door.client().open(), await door.client().open()
    await first.declare("q", single_active_consumer=True)
    await first.consume("q", prefetch=2)
    await first.fill("q", *SIX)
    await first.takes(2)
    await second.consume("q")
    first.say(1, BasicCancel("c"))
    assert await second.takes(4) == SIX[2:]
    first.say(1, ChannelClose(200, "bye"))
    assert await second.takes(6) == [*SIX[2:], *SIX[:2]]
    assert [again for _, again in marked(second)] == [False] * 4 + [True] * 2


async def test_the_next_one_may_leave_while_it_waits(door: AmqpDoor) -> None:
    first, second, third = [await door.client().open() for _ in range(3)]
    await first.declare("q", single_active_consumer=True)
    await first.consume("q", prefetch=2)
    await first.fill("q", *SIX)
    await first.takes(2)
    await second.consume("q")
    await third.consume("q")
    first.say(1, BasicCancel("c"))
    for _ in range(50):
        await asyncio.sleep(0)
    second.lose()
    for _ in range(50):
        await asyncio.sleep(0)
    assert (second.given, third.given) == ([], [])
    first.lose()
    assert await third.takes(6) == SIX


async def test_the_next_one_at_another_gateway(door: AmqpDoor) -> None:
    """Each knows the other's consumers."""
    async with AmqpDoor(name="a", is_alone=False) as here, AmqpDoor(here, name="b", is_alone=False) as there:
        first, second = await here.client().open(), await there.client().open()
        await first.declare("q", single_active_consumer=True)
        await first.consume("q", prefetch=2)
        await until(lambda: there.hosts.definitions.vhost("/").queue("q"), "the other one knows it")  # type: ignore[union-attr]
        await until(lambda: there.hosts.presence.elsewhere(there.queue("q")), "the other one knows of the consumer")
        await first.fill("q", *SIX)
        await first.takes(2)
        await second.consume("q")
        held = Held(here)
        await leave(first, "cancel, then channel")
        await until(lambda: held.waiting, "the store is told")
        for _ in range(50):
            await asyncio.sleep(0)
        assert second.given == []
        held.gate.set()
        assert await second.takes(6) == SIX
        assert marked(second) == [(body, number < 2) for number, body in enumerate(SIX)]


# -- late, and flagged -------------------------------------------------------------------------------------------------


class Losing:
    """The answer of the next pop that finds something is lost; `claimed`: what the store thinks was delivered."""

    def __init__(self, door: AmqpDoor) -> None:
        self._own, self._store = door.store.consumption, door.store
        self.claimed: list[Delivery] = []
        door.store.consumption = replaced(self._own, pop=self._pop)

    async def _pop(self, request: PopRequest) -> Sequence[Delivery]:
        found = await self._own.pop(request)
        if self.claimed or not found:
            return found
        self.claimed.extend(found)
        raise EntrepotError(Code.OUTCOME_UNKNOWN, "the connection was lost before pop was answered")

    async def come_back(self, *, counts: bool) -> None:
        """Their lease ends; or (not `counts`) their broker gives them back, as nobody was handed them."""
        topic, group = self.claimed[0].message.topic, "q"
        await self._own.change_invisible_duration(
            topic, group, handles(self.claimed), 0, release=True, suspend=not counts
        )


@pytest.mark.parametrize("counts", [True, False], ids=["as an attempt", "as no attempt"])
@pytest.mark.parametrize("way", ["consume", "consume without acknowledgements", "get"])
async def test_what_a_lost_answer_claimed_comes_late_and_flagged(door: AmqpDoor, way: str, counts: bool) -> None:
    client = await door.client().open()
    await client.declare("q")
    losing = Losing(door)
    await client.fill("q", *SIX[:2])
    if way == "get":
        with pytest.raises(EntrepotError):
            await door.hosts.feeds.of(door.queue("q")).leased.ask(PopRequest(door.queue("q").topic, "q", 2))
    else:
        await client.consume("q", no_ack=way != "consume")
        await until(lambda: losing.claimed, "the answer is lost")
    await client.fill("q", *SIX[2:4])
    if way == "get":
        assert [(await client.get("q")).body for _ in range(2)] == SIX[2:4]  # type: ignore[union-attr]
    else:
        assert await client.takes(2) == SIX[2:4]
    await losing.come_back(counts=counts)
    await client.fill("q", *SIX[4:])
    if way == "get":
        assert [(await client.get("q")).body for _ in range(4)] == SIX[:2] + SIX[4:]  # type: ignore[union-attr]
    await client.takes(6)
    assert sorted(marked(client)) == [(body, body in SIX[:2]) for body in SIX]


async def test_what_comes_in_order_is_not_flagged(door: AmqpDoor) -> None:
    """A claim that was given back before anything newer was handed out."""
    client = await door.client().open()
    await client.declare("q")
    losing = Losing(door)
    await client.fill("q", *SIX)
    await client.consume("q", prefetch=3)
    await until(lambda: losing.claimed, "the answer is lost")
    await losing.come_back(counts=False)
    await client.takes(3)
    client.say(1, BasicAck(client.given[-1].tag, True))
    await client.takes(6)
    assert marked(client) == [(body, False) for body in SIX]


async def test_a_priority_that_comes_first_makes_the_others_not_late(door: AmqpDoor) -> None:
    """Each priority is a message queue with offsets of its own."""
    client = await door.client().open()
    await client.declare("q", max_priority=2)
    high = ContentHeader.of(priority=2)
    await client.fill("q", b"0", b"1", b"2", header=high)
    await client.fill("q", b"3")
    await client.consume("q")
    await client.takes(4)
    await client.fill("q", b"4", header=high)
    await client.takes(5)
    assert marked(client) == [(b"%d" % number, False) for number in range(5)]


async def test_a_stream_has_no_late_messages(door: AmqpDoor) -> None:
    client = await door.client().open()
    await client.declare("s", queue_type="stream")
    await client.fill("s", *SIX)
    for tag in ("a", "b"):
        client.say(1, BasicQos(0, 10), BasicConsume("s", tag, arguments={"x-stream-offset": "first"}))
    await client.takes(12)
    assert {again for _, again in marked(client)} == {False}
