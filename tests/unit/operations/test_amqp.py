"""AMQP connections as their operations tell them: without HTTP and sockets."""

from __future__ import annotations

from typing import Any

import pytest

from entrepot.domain.errors import EntrepotError
from entrepot.gateway.operations.nouns.amqp import AmqpClients, Closing, ConnectionsAsked, ConsumersAsked
from entrepot.gateway.operations.row.problem import MissingError
from entrepot.gateway.operations.row.shapes import PlainName
from tests.support.amqp.door import AmqpClient, AmqpDoor
from tests.support.gateways.operations import NO_ANSWER, asked_by, beside, one_gateway
from tests.support.waiting import until

HERE = "127.0.0.1:5672"


async def connected(door: AmqpDoor, *hosts: str) -> list[AmqpClient]:
    found = []
    for host in hosts:
        client = AmqpClient(door)
        client.peer = f"{host}:1"
        found.append(await client.open())
    return found


async def test_they_are_listed_by_pages_and_filters() -> None:
    async with AmqpDoor() as door:
        amqp = AmqpClients(one_gateway(door.store), door.frontend)
        await connected(door, "b", "a")

        async def names(**asked: Any) -> tuple[list[str], str | None]:
            page = await amqp.listed(ConnectionsAsked(**asked))
            return [each.name for each in page.value], page.next

        a, b = f"a:1 -> {HERE}", f"b:1 -> {HERE}"
        first, following = await names(limit=1)
        assert first == [a]
        assert following is not None
        assert await names(limit=1, after=following) == ([b], None)
        assert await names(contains="b:") == ([b], None)
        assert await names(vhost="/") == ([a, b], None)
        assert await names(vhost="other") == await names(user="nobody") == ([], None)


async def test_one_is_shown_with_its_consumers() -> None:
    async with AmqpDoor() as door:
        amqp = AmqpClients(one_gateway(door.store), door.frontend)
        [client] = await connected(door, "a")
        await client.declare("jobs")
        await client.consume("jobs", prefetch=20, tag="c1")
        shown = await amqp.show(PlainName(f"a:1 -> {HERE}"))
        assert (shown.connection.channels, shown.gateway, shown.answered.asked) == (1, "gw-1", 1)
        [channel] = shown.channels
        assert [each.consumer_tag for each in channel.consumer_details] == ["c1"]
        page = await amqp.consumers(ConsumersAsked(queue="jobs"))
        assert [(each.consumer_tag, each.prefetch_count, each.gateway) for each in page.value] == [("c1", 20, "gw-1")]
        assert (await amqp.consumers(ConsumersAsked(queue="others"))).value == []
        with pytest.raises(MissingError, match="there is no connection 'x'"):
            await amqp.show(PlainName("x"))


async def test_those_that_were_there_are_closed_and_told() -> None:
    async with AmqpDoor() as door:
        amqp = AmqpClients(one_gateway(door.store), door.frontend)
        [client] = await connected(door, "a")
        asked = asked_by()
        found = await amqp.close(Closing(["x", f"a:1 -> {HERE}", "x"], "maintenance"), asked)
        assert [(each.name, each.closed) for each in found.value] == [("x", False), (f"a:1 -> {HERE}", True)]
        assert asked.told == ((f"AMQP connection a:1 -> {HERE}", "maintenance"),)
        await until(lambda: not client.conversation.machine.is_open, "it is closed")


async def test_a_gateway_without_amqp_asks_the_others() -> None:
    async with AmqpDoor() as door:
        peers = beside(one_gateway(door.store), {}, NO_ANSWER)
        with pytest.raises(EntrepotError, match="there is no connection 'x', as far as known"):
            await AmqpClients(peers, None).show(PlainName("x"))
