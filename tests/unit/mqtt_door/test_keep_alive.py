"""Silence of a client, and pauses in which the gateway does not read: only the client's own silence counts."""

from __future__ import annotations

import asyncio

import pytest

from entrepot.protocols.mqtt.packets import Connack, Connect, Disconnect, Pingreq, Subscribe, Subscription
from entrepot.protocols.mqtt.reason_codes import ReasonCode
from tests.support.mqtt.door import DoorClient, MqttDoor

KEEP_ALIVE = 10
ALLOWED = 15.0
"""One and a half of it (3.1.2-22), in seconds."""


async def connected(door: MqttDoor, keep_alive: int = KEEP_ALIVE) -> DoorClient:
    client = door.client()
    client.say(Connect("c", 5, keep_alive=keep_alive))
    await client.expect(Connack)
    return client


def goodbyes(client: DoorClient) -> list[ReasonCode]:
    client.flush()
    return [ReasonCode(each.reason) for each in client.packets if isinstance(each, Disconnect)]


async def test_silence_ends_the_connection_after_one_and_a_half_keep_alives() -> None:
    async with MqttDoor() as door:
        client = await connected(door)
        conversation, heard_at = client.conversation, client.conversation.machine.heard_at
        assert conversation.deadline() == heard_at + ALLOWED
        conversation.timed_out(heard_at + ALLOWED - 0.001)
        assert goodbyes(client) == []
        client.say(Pingreq())
        assert conversation.machine.heard_at > heard_at
        assert conversation.deadline() == conversation.machine.heard_at + ALLOWED
        conversation.timed_out(heard_at + ALLOWED)
        assert goodbyes(client) == [], "something came since"
        conversation.timed_out(conversation.deadline())
        assert goodbyes(client) == [ReasonCode.KEEP_ALIVE_TIMEOUT]


async def test_without_a_keep_alive_it_may_be_silent_for_ever() -> None:
    async with MqttDoor() as door:
        client = await connected(door, 0)
        assert client.conversation.deadline() == float("inf")


async def test_the_time_in_which_it_is_not_read_does_not_count() -> None:
    async with MqttDoor() as door:
        client = await connected(door)
        conversation = client.conversation
        client.pause_reading("a test")
        assert conversation.deadline() == float("inf")
        client.resume_reading("a test")
        now = asyncio.get_running_loop().time() + 1000
        conversation.resumed(now)
        assert conversation.deadline() == now + ALLOWED


async def test_a_client_that_does_not_read_its_answers_is_silent() -> None:
    """That pause is its own doing, so its keep alive runs out."""
    async with MqttDoor() as door:
        client = await connected(door)
        client.is_choked = True
        assert client.conversation.deadline() == client.conversation.machine.heard_at + ALLOWED


async def test_an_undecided_connect_has_its_time_also_while_nothing_is_read() -> None:
    """Otherwise whoever sends much behind CONNECT could wait for ever."""
    async with MqttDoor() as door:
        client = door.client()
        client.say(Connect("c", 5, keep_alive=KEEP_ALIVE), *(Subscribe(1, [Subscription("t" * 60_000)]),) * 2)
        conversation = client.conversation
        assert client.pauses == {"CONNECT is not decided"}
        limit = conversation.machine.heard_at + door.mqtt.services.limits.connect_timeout_seconds
        assert conversation.deadline() == limit
        await client.expect(Connack)
        assert client.pauses == set(), "it is read on"


@pytest.mark.parametrize("is_paused", [False, True])
async def test_what_let_it_in_ends_also_while_it_is_not_read(monkeypatch: pytest.MonkeyPatch, is_paused: bool) -> None:
    async with MqttDoor() as door:
        until = asyncio.get_running_loop().time() + 5
        monkeypatch.setattr(door.mqtt.services.access, "expires_at", lambda _: until)
        client = await connected(door)
        if is_paused:
            client.pause_reading("a test")
        assert client.conversation.deadline() == until
        client.conversation.timed_out(until - 0.001)
        assert goodbyes(client) == []
        client.conversation.timed_out(until)
        assert goodbyes(client) == [ReasonCode.NOT_AUTHORIZED]
