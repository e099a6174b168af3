"""A client of QoS 2 comes again while what it published waits for its record: nothing hangs, nothing is there twice."""

from __future__ import annotations

from entrepot.protocols.mqtt.packets import Connect, Publish, Pubrec
from entrepot.protocols.mqtt.properties import PropertyId
from tests.support.mqtt.door import MqttDoor
from tests.support.waiting import until


async def test_nothing_of_a_connection_that_was_taken_over_hangs() -> None:
    async with MqttDoor() as door:
        store = door.store
        first, second = door.client(), door.client()
        await first.connect("c")
        store.gate.clear()
        first.say(Publish("t/x", b"one", 2, 1))
        await until(lambda: store.waiting, "the first identifier is being written")
        first.say(Publish("t/x", b"two", 2, 2))  # its identifier is written behind that of the first
        second.say(Connect("c", 5, False, properties={PropertyId.SESSION_EXPIRY_INTERVAL: 600}))
        await until(lambda: first.is_closed, "the first connection is told to go")
        store.gate.set()
        await until(lambda: second.conversation.machine.is_open, "the second connection has the session")
        second.say(Publish("t/x", b"one", 2, 1, False, True), Publish("t/x", b"two", 2, 2, False, True))
        assert {(await second.expect(Pubrec)).packet_id for _ in range(2)} == {1, 2}
        await door.mqtt.services.sessions.journal.settle()
        await until(lambda: first.conversation.publishing._gate is None, "nothing of the first connection waits")
        found = [
            message.body
            for queue in await store.messages.bounds("t")
            for message in await store.messages.read("t", queue.queue_id, 0, 100)
        ]
        assert sorted(found) == [b"one", b"two"]
