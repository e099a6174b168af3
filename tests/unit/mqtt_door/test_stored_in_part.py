"""A QoS 2 publish that is stored in part: its rest is stored first; one refused for good is answered, not tried on."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from entrepot.domain.confirmation import Confirmation
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.message import Message
from entrepot.gateway.mqtt.connections import publishing
from entrepot.protocols.mqtt.errors import REASON_OF_CODE
from entrepot.protocols.mqtt.packets import Publish, Pubrec
from tests.support.mqtt.door import DoorClient, MqttDoor
from tests.support.stores.replaced import replaced
from tests.support.waiting import until

LOST = EntrepotError(Code.OUTCOME_UNKNOWN, "the answer was lost")


async def again(door: MqttDoor) -> DoorClient:
    """A client whose first try was stored, without an answer."""
    await door.sender.send_and_wait([Message("t", b"the topic is there", "t/x", -1, 2)])
    own, messages = door.store.messages.append, door.store.messages

    def append(batch: Sequence[Message]) -> Confirmation:
        confirmation = own(batch)
        if not batch:
            return confirmation
        lost = Confirmation()
        confirmation.when_settled(lambda failure: lost.settle(LOST))
        return lost

    client = door.client()
    await client.connect("c")
    door.store.messages = replaced(messages, append=append)
    client.say(Publish("t/x", b"m", 2, 1))
    await until(lambda: client.is_closed, "the connection ends")
    door.store.messages = messages
    client = door.client()
    assert (await client.connect("c")).session_present
    return client


async def bodies(door: MqttDoor) -> list[bytes]:
    found = [each for each in await door.store.messages.bounds("t") if each.max_offset]
    read = [await door.store.messages.read("t", each.queue_id, 0, 9) for each in found]
    return [message.body for messages in read for message in messages]


@pytest.mark.parametrize(("code", "is_tried_again"), [
    (Code.FORBIDDEN, False), (Code.MESSAGE_BODY_TOO_LARGE, False), (Code.INTERNAL_ERROR, False),
    (Code.UNAVAILABLE, True), (Code.OUTCOME_UNKNOWN, True), (Code.STORAGE_FULL, True),
])  # fmt: skip
async def test_the_rest_is_refused(code: Code, is_tried_again: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    async with MqttDoor() as door:
        client = await again(door)
        asked: list[bytes] = []

        async def refuse(store: object, sender: object, message: Message, found: object) -> None:
            asked.append(message.body)
            raise EntrepotError(code, "no")

        monkeypatch.setattr(publishing, "store_the_rest", refuse)
        client.say(Publish("t/x", b"m", 2, 1, dup=True))
        if is_tried_again:
            await until(lambda: client.is_closed, "the client has to send it again")
        else:
            assert (await client.expect(Pubrec)).reason == 0
            assert door.mqtt.services.counters.refused[REASON_OF_CODE[code].name] == 1, "the operator sees it"
        assert asked == [b"m"]
        assert sorted(await bodies(door)) == [b"m", b"the topic is there"], "it is stored once"
