"""A gateway that others took for dead: consumers are told anew, and owners of exclusive queues are closed."""

from __future__ import annotations

from entrepot.protocols.amqp.methods_connection import ConnectionClose
from entrepot.protocols.amqp.methods_topology import QueueDeclare, QueueDeclareOk
from entrepot.protocols.amqp.reply_codes import ReplyCode
from tests.support.amqp.door import AmqpDoor
from tests.support.waiting import until


async def test_owners_of_exclusive_queues_are_closed_and_others_stay() -> None:
    async with AmqpDoor(is_alone=False) as door:
        owner, other = await door.client().open(), await door.client().open()
        owner.say(1, QueueDeclare(queue="mine", exclusive=True))
        await owner.expect(QueueDeclareOk)
        await other.declare("q")
        door.member.identity.renew()
        closed = await owner.expect(ConnectionClose, 0)
        assert closed.reply_code == ReplyCode.CONNECTION_FORCED and "exclusive" in closed.reply_text
        await other.fill("q", b"still here")
        assert await other.get("q") is not None


async def test_consumers_are_known_elsewhere_under_the_new_incarnation_alone() -> None:
    async with AmqpDoor(name="one", is_alone=False) as door, AmqpDoor(door, name="two", is_alone=False) as elsewhere:
        client = await door.client().open()
        await client.declare("q")
        await client.consume("q")
        presence = elsewhere.hosts.presence
        await until(lambda: presence.gateways == {"one"}, "it is known")
        door.member.identity.renew()
        await until(lambda: presence.gateways == {"one-again"}, "it is known under its new incarnation")
        assert presence.elsewhere(elsewhere.queue("q")) == 1
        assert door.hosts.presence.elsewhere(door.queue("q")) == 0, "it is nobody else's"
        assert door.hosts.presence.is_first(door.queue("q").topic)
