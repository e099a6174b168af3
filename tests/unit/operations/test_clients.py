"""MQTT clients as their operations tell them: without HTTP and sockets."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from entrepot.domain.errors import EntrepotError
from entrepot.gateway.operations.nouns.client_shapes import ClientShown, Disconnected
from entrepot.gateway.operations.nouns.clients import (
    Clients,
    ClientsAsked,
    Disconnecting,
    EventsAsked,
    SlowAsked,
    SubscriptionsAsked,
)
from entrepot.gateway.operations.row.problem import MissingError
from entrepot.gateway.operations.row.shapes import EXAMPLES, PlainName
from entrepot.protocols.mqtt.packets import Subscription
from tests.support.clock import ManualClock
from tests.support.gateways.operations import NO_ANSWER, asked_by, beside, one_gateway
from tests.support.mqtt.door import MqttDoor
from tests.support.stores.model_store import MemoryStore
from tests.support.waiting import PATIENCE_SECONDS


async def test_they_are_listed_by_pages_and_filters() -> None:
    async with MqttDoor() as door:
        clients = Clients(one_gateway(door.store), door.mqtt)
        for client_id in ("line-2", "line-1", "press-1"):
            await door.client().connect(client_id)

        async def ids(**asked: Any) -> tuple[list[str], str | None]:
            page = await clients.listed(ClientsAsked(**asked))
            assert (page.answered.asked, page.answered.missing) == (1, [])
            return [each.id for each in page.value], page.next

        assert await ids(limit=2) == (["line-1", "line-2"], "line-2")
        assert await ids(limit=2, after="line-2") == (["press-1"], None)
        assert await ids(prefix="line") == (["line-1", "line-2"], None)
        assert await ids(contains="-1", gateway="here") == (["line-1", "press-1"], None)
        assert await ids(user="bob") == ([], None)
        [first] = (await clients.listed(ClientsAsked(limit=1))).value
        assert (first.gateway, first.version, first.clean_start) == ("gw-1", "5", False)


async def test_lists_of_several_gateways_name_the_missing_one() -> None:
    async with MqttDoor() as door:
        row = msgspec.to_builtins(EXAMPLES[ClientShown])
        peers = beside(
            one_gateway(door.store), {"gw-2": {"value": [{**row, "id": "a", "new": 1}], "next": None}}, NO_ANSWER
        )
        await door.client().connect("b")
        page = await Clients(peers, door.mqtt).listed(ClientsAsked())
        assert [(each.id, each.gateway) for each in page.value] == [("a", "gw-2"), ("b", "gw-1")]
        assert (page.answered.asked, [each.name for each in page.answered.missing]) == (3, ["gw-9"])


async def test_one_is_shown_and_disconnected() -> None:
    async with MqttDoor() as door:
        clients = Clients(one_gateway(door.store), door.mqtt)
        client = door.client()
        await client.connect("line-1")
        await client.subscribe(Subscription("a/#", 1))
        shown = await clients.show(PlainName("line-1"))
        assert ([each.filter for each in shown.subscribed_to], shown.session.expiry_seconds) == (["a/#"], 600)
        page = await clients.subscriptions(SubscriptionsAsked())
        assert [(each.client, each.filter, each.gateway) for each in page.value] == [("line-1", "a/#", "gw-1")]
        assert (await clients.subscriptions(SubscriptionsAsked(filter="b"))).value == []
        asked, gone = asked_by(), asyncio.Event()
        client.conversation.when_gone(gone.set)
        await clients.kick(PlainName("line-1"), asked)
        assert asked.told == (("MQTT client line-1", ""),)
        await asyncio.wait_for(gone.wait(), PATIENCE_SECONDS)
        again = asked_by()
        with pytest.raises(MissingError, match="'line-1' is not connected"):
            await clients.kick(PlainName("line-1"), again)
        assert again.told is None
        events = await clients.events(PlainName("line-1"), EventsAsked())
        assert [each.event for each in events.value] == ["closed", "connected"]
        assert [each.event for each in (await clients.events(PlainName("line-1"), EventsAsked(limit=1))).value] == [
            "closed"
        ]


async def test_several_are_disconnected_and_each_is_told() -> None:
    async with MqttDoor() as door:
        await door.client().connect("b")
        asked = asked_by()
        body = Disconnecting(["b", "a", "b"])
        outcomes = (await Clients(one_gateway(door.store), door.mqtt).kick_each(body, asked)).value
        assert outcomes[0] == Disconnected("b", True)
        assert msgspec.to_builtins(outcomes[1]) == {
            "id": "a",
            "disconnected": False,
            "error": {"code": "BAD_REQUEST", "message": "'a' is not connected"},
        }
        assert len(outcomes) == 2
        assert asked.told == (("MQTT client b", ""),)


async def test_a_client_that_may_be_elsewhere_is_not_said_to_be_missing() -> None:
    async with MqttDoor() as door:
        clients = Clients(beside(one_gateway(door.store), {"gw-2": None}, NO_ANSWER), door.mqtt)
        with pytest.raises(EntrepotError, match=r"'x' is not connected, as far as known.*gw-9"):
            await clients.show(PlainName("x"))


async def test_the_slowest_is_first() -> None:
    async with MqttDoor() as door:
        rows = [{"id": str(n), "address": "", "behind": n, "queued": 0, "inFlight": 0, "dropped": 0} for n in (1, 3, 2)]
        peers = beside(one_gateway(door.store), {"gw-2": {"value": rows}}, {})
        found = await Clients(peers, door.mqtt).slow(SlowAsked(limit=2))
        assert [(each.id, each.gateway) for each in found.value] == [("3", "gw-2"), ("2", "gw-2")]


async def test_without_mqtt_there_is_none() -> None:
    clients = Clients(one_gateway(MemoryStore(ManualClock())), None)
    with pytest.raises(MissingError, match="no MQTT listener"):
        await clients.listed(ClientsAsked())
    assert (await clients.events(PlainName("x"), EventsAsked())).since == {"gw-1": None}
