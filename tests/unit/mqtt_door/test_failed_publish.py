"""After a publish that failed, nothing of its connection is stored any more: the client sends all again, in order."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from entrepot.domain.confirmation import Confirmation
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.message import Message
from entrepot.protocols.mqtt.packets import Disconnect, Puback, Publish, Pubrec
from tests.support.mqtt.door import DoorClient, MqttDoor
from tests.support.stores.replaced import replaced
from tests.support.waiting import until

UNKNOWN = EntrepotError(Code.OUTCOME_UNKNOWN, "the answer was lost")


class HeldAppends:
    """Appends of the door's store wait for their outcome, and are not stored if that is a failure."""

    def __init__(self, door: MqttDoor) -> None:
        self._own = door.store.messages.append
        self.held: list[tuple[list[Message], Confirmation]] = []
        door.store.messages = replaced(door.store.messages, append=self.append)

    def append(self, messages: Sequence[Message]) -> Confirmation:
        confirmation = Confirmation()
        if messages:
            self.held.append((list(messages), confirmation))
        else:
            confirmation.settle()
        return confirmation

    @property
    def bodies(self) -> list[list[bytes]]:
        return [[message.body for message in messages] for messages, _ in self.held]

    def settle(self, number: int, failure: EntrepotError | None = None) -> None:
        messages, confirmation = self.held[number]
        if failure is None:
            self._own(messages)
        confirmation.settle(failure)


async def connected(door: MqttDoor, qos: int, version: int = 5) -> tuple[HeldAppends, DoorClient]:
    client = door.client(version)
    await client.connect("c")
    await door.sender.send_and_wait([Message("t", b"the topic is there", "t/x", -1, qos)])
    return HeldAppends(door), client


async def test_what_waits_for_its_record_is_not_stored() -> None:
    async with MqttDoor() as door:
        appends, client = await connected(door, 2)
        client.say(Publish("t/x", b"522", 2, 1))
        await until(lambda: appends.held, "the first is on its way")
        door.store.gate.clear()
        client.say(Publish("t/x", b"523", 2, 2))
        await until(lambda: door.store.waiting, "the identifier of the second is being written")
        client.say(Publish("t/x", b"524", 2, 3))
        appends.settle(0, UNKNOWN)
        await until(lambda: client.is_closed, "the connection ends")
        door.store.gate.set()
        await door.mqtt.settle()
        assert appends.bodies == [[b"522"]]
        again = door.client()
        assert (await again.connect("c")).session_present
        for number, body in enumerate((b"522", b"523", b"524")):
            again.say(Publish("t/x", body, 2, number + 1, dup=True))
            await until(lambda count=number + 2: len(appends.held) == count, "it is on its way")
            appends.settle(-1)
            assert (await again.expect(Pubrec)).packet_id == number + 1
        assert appends.bodies == [[b"522"], [b"522"], [b"523"], [b"524"]]


@pytest.mark.parametrize("qos", [1, 2])
async def test_earlier_ones_are_answered_and_later_ones_are_not_stored(qos: int) -> None:
    """The second fails while the first is on its way: the third is not stored, though the connection is still open."""
    async with MqttDoor() as door:
        appends, client = await connected(door, qos)
        for number in (1, 2):
            client.say(Publish("t/x", b"%d" % number, qos, number))
            await until(lambda count=number: len(appends.held) == count, "it is on its way")
        appends.settle(1, UNKNOWN)
        assert not client.is_closed
        client.say(Publish("t/x", b"3", qos, 3))
        appends.settle(0)
        await until(lambda: client.is_closed, "the connection ends")
        await door.mqtt.settle()
        assert appends.bodies == [[b"1"], [b"2"]]
        answers = [each for each in client.packets if isinstance(each, (Puback, Pubrec, Disconnect))]
        assert [type(each) for each in answers] == [Puback if qos == 1 else Pubrec, Disconnect]


async def test_what_was_said_in_the_tick_of_the_failure_is_not_stored() -> None:
    async with MqttDoor() as door:
        appends, client = await connected(door, 1)
        other = door.client()
        await other.connect("other")
        client.say(Publish("t/x", b"1", 1, 1))
        await until(lambda: appends.held, "it is on its way")
        client.say(Publish("t/x", b"2", 1, 2))
        other.say(Publish("t/x", b"theirs", 1, 1))
        appends.settle(0, UNKNOWN)
        await until(lambda: len(appends.held) == 2, "the other client's is on its way")
        appends.settle(1)
        assert (await other.expect(Puback)).packet_id == 1
        assert appends.bodies == [[b"1"], [b"theirs"]] and client.is_closed


@pytest.mark.parametrize(("version", "expected"), [(4, [[b"1"]]), (5, [[b"1"], [b"2"]])])
async def test_version_3_hears_of_a_refusal_by_its_end(version: int, expected: list[list[bytes]]) -> None:
    """In version 5 a refusal is the answer: the client does not send the message again."""
    async with MqttDoor() as door:
        appends, client = await connected(door, 1, version)
        client.say(Publish("t/x", b"1", 1, 1))
        await until(lambda: appends.held, "it is on its way")
        appends.held[0][1].refusals = [EntrepotError(Code.STORAGE_FULL, "full")]
        client.say(Publish("t/x", b"2", 1, 2))
        appends.held[0][1].settle()
        if version == 5:
            await until(lambda: len(appends.held) == 2, "the next one is on its way")
            appends.settle(1)
        await until(lambda: client.is_closed is (version == 4), "the end")
        await door.mqtt.settle()
        assert appends.bodies == expected
