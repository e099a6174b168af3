"""Answers to publishes: in order, whatever order the outcomes come in; each with its own reason."""

from __future__ import annotations

import asyncio
from dataclasses import fields, replace

import pytest

from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.message import Message, MessageInDoubt, SystemProperty
from entrepot.gateway.messaging.incidents import Outcome
from entrepot.gateway.mqtt.connections.answers import Answers, Passed, Refused, Sent
from entrepot.protocols.mqtt.mapping import to_message
from entrepot.protocols.mqtt.packets import Disconnect, Puback, Publish, Pubrec
from entrepot.protocols.mqtt.reason_codes import ReasonCode
from tests.support.mqtt.door import DoorClient, MqttDoor

FULL = EntrepotError(Code.STORAGE_FULL, "the disk is full")


async def connected(door: MqttDoor, version: int = 5) -> tuple[DoorClient, Answers]:
    client = door.client(version)
    await client.connect("c")
    return client, Answers(door.mqtt.services, client.conversation.client)


def sent(answers: Answers, *packets: Publish) -> Sent:
    run = answers.in_turn(Sent(answers))
    for packet in packets:
        run.add(packet, to_message(packet, "t", 0, 1, 1))
    answers.under_way += 1
    return run


def said(client: DoorClient) -> list[tuple[type, int, int]]:
    client.flush()
    found = [each for each in client.packets if isinstance(each, Puback | Pubrec)]
    client.packets.clear()
    return [(type(each), each.packet_id, each.reason) for each in found]


def publish(packet_id: int, qos: int = 1) -> Publish:
    return Publish(f"t/{packet_id}", b"x", qos, packet_id)


async def test_they_come_in_the_order_of_the_publishes() -> None:
    async with MqttDoor() as door:
        client, answers = await connected(door)
        first, second = sent(answers, publish(1), publish(2, 2)), sent(answers, publish(3))
        refused = answers.in_turn(Refused(answers, publish(4), ReasonCode.NOT_AUTHORIZED, "no"))
        third = sent(answers, publish(0, 0), publish(5, 2))
        refused(None, None)
        third(None, None)
        second(None, None)
        assert said(client) == []
        assert [each.sub_topic for each in answers.messages()] == ["t/1", "t/2", "t/3", "t/0", "t/5"]
        first(None, None)
        assert said(client) == [
            (Puback, 1, 0), (Pubrec, 2, 0), (Puback, 3, 0), (Puback, 4, ReasonCode.NOT_AUTHORIZED), (Pubrec, 5, 0),
        ]  # fmt: skip
        assert list(answers.messages()) == []
        sent(answers, publish(6))(None, None)
        assert said(client) == [(Puback, 6, 0)], "the queue begins anew"


async def test_of_a_run_only_what_is_refused_is_refused() -> None:
    async with MqttDoor() as door:
        client, answers = await connected(door)
        session = client.conversation.client.session
        assert session is not None
        session.message_ids = {3: b"i" * 16, 4: b"j" * 16}
        packets = publish(1), publish(2), publish(0, 0), publish(3, 2), publish(4, 2)
        sent(answers, *packets)(None, [None, FULL, FULL, FULL, None])
        quota = ReasonCode.QUOTA_EXCEEDED
        assert said(client) == [(Puback, 1, 0), (Puback, 2, quota), (Pubrec, 3, quota), (Pubrec, 4, 0)]
        assert list(session.message_ids) == [4], "a refused identifier is free again"
        last = door.sender.incidents.last[-1]
        assert (last.place, last.reason) == ("t/3", "QUOTA_EXCEEDED: the disk is full")
        assert door.sender.incidents.counts["mqtt", Outcome.REFUSED] == client.conversation.client.refused == 3


async def test_version_3_confirms_nothing_that_is_not_stored() -> None:
    async with MqttDoor() as door:
        client, answers = await connected(door, 4)
        sent(answers, publish(1), publish(2), publish(3))(None, [None, FULL, None])
        assert said(client) == [(Puback, 1, 0)]
        assert client.is_closed


UNKNOWN = EntrepotError(Code.OUTCOME_UNKNOWN, "it may be stored already")


@pytest.mark.parametrize("qos", [0, 1, 2])
async def test_a_publish_that_may_be_stored_is_not_refused(qos: int) -> None:
    """A refusal would have its identifier free, and the client would send it as a new one."""
    async with MqttDoor() as door:
        client, answers = await connected(door)
        session = client.conversation.client.session
        assert session is not None
        session.message_ids = {2: b"i" * 16}
        run, later = sent(answers, publish(1), publish(2 if qos else 0, qos)), sent(answers, publish(3))
        run(None, [None, UNKNOWN])
        assert said(client) == [(Puback, 1, 0)]
        assert (client.is_closed, later.is_withdrawn) == (qos > 0, qos > 0)
        assert list(session.message_ids) == [2]


@pytest.mark.parametrize("qos", [0, 1, 2])
@pytest.mark.parametrize(
    ("reason", "is_for_ever"),
    [
        (ReasonCode.NOT_AUTHORIZED, True),
        (ReasonCode.TOPIC_NAME_INVALID, True),
        (ReasonCode.QUOTA_EXCEEDED, False),
        (ReasonCode.PAYLOAD_FORMAT_INVALID, False),
    ],
)
async def test_version_3_is_confirmed_what_it_would_send_for_ever(
    qos: int, reason: ReasonCode, is_for_ever: bool
) -> None:
    async with MqttDoor() as door:
        client, answers = await connected(door, 4)
        answers.in_turn(Refused(answers, publish(7 if qos else 0, qos), reason, "no"))(None, None)
        kind = (Puback, Puback, Pubrec)[qos]
        assert said(client) == ([(kind, 7, 0)] if qos and is_for_ever else [])
        assert client.is_closed == bool(qos and not is_for_ever)
        assert door.mqtt.counters.refused == {reason.name: 1}


async def test_a_store_that_fails_ends_the_connection() -> None:
    async with MqttDoor() as door:
        client, answers = await connected(door)
        first, second = sent(answers, publish(1)), sent(answers, publish(2))
        second(None, None)
        first(EntrepotError(Code.UNAVAILABLE, "it is away"), None)
        client.flush()
        [goodbye] = [each for each in client.packets if isinstance(each, Disconnect)]
        assert goodbye.reason == ReasonCode.UNSPECIFIED_ERROR
        assert said(client) == []


async def test_what_was_stored_earlier_is_only_answered() -> None:
    async with MqttDoor() as door:
        client, answers = await connected(door)
        run = answers.in_turn(Sent(answers))
        for packet_id in (1, 2, 3):
            message = to_message(publish(packet_id, 2), "t", 0, 1, 1)
            run.add(Publish(f"t/{packet_id}", b"x", 2, packet_id), message)
        run.note_stored(2)
        run.note_stored(0)
        assert [each.sub_topic for each in run.messages] == ["t/2"]
        answers.under_way += 1
        run(None, None)
        assert said(client) == [(Pubrec, 1, 0), (Pubrec, 3, 0), (Pubrec, 2, 0)]


async def test_what_may_be_stored_is_sent_as_such_also_to_be_retained() -> None:
    async with MqttDoor() as door:
        _, answers = await connected(door)
        run = answers.in_turn(Sent(answers))
        for packet_id in (1, 2):
            packet = Publish(f"t/{packet_id}", b"x", 2, packet_id, retain=True)
            run.add(packet, replace(to_message(packet, "t", 0, 1, 1), system={SystemProperty.RETAIN: "1"}))
        before = list(run.messages)
        run.put_in_doubt(1)
        assert [type(each) for each in run.messages] == [Message, MessageInDoubt]
        assert as_message(run.messages[1]) == before[1]
        assert run.retained is not None
        assert run.retained[0] is before[0] and run.retained[1] is run.messages[1]


def as_message(message: Message) -> Message:
    return Message(*(getattr(message, each.name) for each in fields(Message)))


async def test_a_marker_passes_in_its_turn_and_all_is_settled() -> None:
    async with MqttDoor() as door:
        _, answers = await connected(door)
        passed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        first = sent(answers, publish(1))
        answers.in_turn(Passed(answers, passed))(None, None)
        second = sent(answers, publish(2))
        settled = asyncio.ensure_future(answers.settled())
        await asyncio.sleep(0)
        assert not passed.done()
        first(None, None)
        await asyncio.sleep(0)
        assert passed.done()
        assert not settled.done(), "the second is under way"
        second(None, None)
        await settled


async def test_nothing_is_said_to_a_client_that_is_gone() -> None:
    async with MqttDoor() as door:
        client, answers = await connected(door)
        run = sent(answers, publish(1))
        answers.forget()
        run(None, [FULL])
        assert said(client) == []
        assert client.conversation.client.refused == 1, "but the operator sees it"
