"""MQTT sessions as their operations tell them: without HTTP and sockets."""

from __future__ import annotations

import asyncio

import pytest

from entrepot.gateway.operations.nouns.sessions import Sessions, SessionsAsked
from entrepot.gateway.operations.row.problem import MissingError
from entrepot.gateway.operations.row.shapes import PlainName
from entrepot.protocols.mqtt.packets import Subscription
from tests.support.gateways.operations import asked_by
from tests.support.mqtt.door import MqttDoor
from tests.support.waiting import PATIENCE_SECONDS


async def test_they_are_listed_shown_and_ended() -> None:
    async with MqttDoor() as door:
        sessions = Sessions(door.mqtt)
        here, away = door.client(), door.client()
        await here.connect("here")
        await here.subscribe(Subscription("a/#", 1))
        await away.connect("away")
        gone = asyncio.Event()
        away.conversation.when_gone(gone.set)
        away.lose()
        await asyncio.wait_for(gone.wait(), PATIENCE_SECONDS)

        async def ids(query: SessionsAsked) -> list[str]:
            return [each.id for each in (await sessions.listed(query)).value]

        assert await ids(SessionsAsked(connected=False)) == ["away"], "it is kept without its connection"
        assert await ids(SessionsAsked()) == ["away", "here"]
        assert await ids(SessionsAsked(connected=True)) == ["here"]
        assert await ids(SessionsAsked(prefix="h")) == ["here"]
        page = await sessions.listed(SessionsAsked(limit=1))
        assert page.next is not None
        assert await ids(SessionsAsked(after=page.next)) == ["here"]
        shown = await sessions.show(PlainName("here"))
        assert ([each.filter for each in shown.subscriptions], shown.connected, shown.in_flight) == (["a/#"], True, 0)
        assert (shown.disconnected_since, shown.session_expiry) == (None, 600)

        for name in ("here", "away"):
            asked = asked_by()
            await sessions.end(PlainName(name), asked)
            assert asked.told == ((f"MQTT session {name}", ""),)
        assert here.is_closed
        assert await ids(SessionsAsked()) == []
        asked = asked_by()
        for ask in (sessions.show(PlainName("here")), sessions.end(PlainName("here"), asked)):
            with pytest.raises(MissingError, match="'here' has no session"):
                await ask
        assert asked.told is None


async def test_without_mqtt_there_is_none() -> None:
    with pytest.raises(MissingError, match="no MQTT listener"):
        await Sessions(None).listed(SessionsAsked())
