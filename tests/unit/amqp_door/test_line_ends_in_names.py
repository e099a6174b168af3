"""CR and LF are no part of a declared name, as on RabbitMQ."""

from __future__ import annotations

from entrepot.protocols.amqp.methods_topology import (
    ExchangeDeclare,
    ExchangeDeclareOk,
    ExchangeDelete,
    ExchangeDeleteOk,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
)
from tests.support.amqp.door import AmqpDoor


async def test_names_are_declared_and_deleted_without_line_ends() -> None:
    async with AmqpDoor() as door:
        client = await door.client().open()
        client.say(1, QueueDeclare(queue="a\r\nq\n", durable=True), ExchangeDeclare("\nx\r\n", "fanout", durable=True))
        assert (await client.expect(QueueDeclareOk)).queue == "aq"
        await client.expect(ExchangeDeclareOk)
        client.say(1, QueueDeclare(queue="aq\n", passive=True), ExchangeDeclare("x\r", passive=True))
        assert (await client.expect(QueueDeclareOk)).queue == "aq"
        await client.expect(ExchangeDeclareOk)
        vhost = door.hosts.definitions.vhost("/")
        assert vhost is not None and list(vhost.queues) == ["aq"]
        client.say(1, QueueDelete(queue="aq\r\n"), ExchangeDelete("x\n"))
        await client.expect(QueueDeleteOk)
        await client.expect(ExchangeDeleteOk)
        assert not vhost.queues and vhost.routing.exchange("x") is None
