"""Methods of exchanges and queues (classes 40 and 50)."""

from __future__ import annotations

from dataclasses import field
from typing import Final

from entrepot.protocols.amqp.method_codec import (
    CLIENT,
    SERVER,
    AmqpMethod,
    Bit,
    Long,
    ShortString,
    Table,
    method,
    plain_method,
)


@method(40, 10, CLIENT, before=("short",))
class ExchangeDeclare(AmqpMethod):
    """Declare an exchange: create it, or compare an existing one; `passive`: only check that it exists."""

    exchange: ShortString = ""
    type: ShortString = ""
    passive: Bit = False
    durable: Bit = False
    auto_delete: Bit = False
    internal: Bit = False
    nowait: Bit = False
    arguments: Table = field(default_factory=dict)


@method(40, 20, CLIENT, before=("short",))
class ExchangeDelete(AmqpMethod):
    """Delete an exchange."""

    exchange: ShortString = ""
    if_unused: Bit = False
    nowait: Bit = False


@method(40, 30, CLIENT, before=("short",))
class ExchangeBind(AmqpMethod):
    """Bind one exchange to another (RabbitMQ)."""

    destination: ShortString = ""
    source: ShortString = ""
    routing_key: ShortString = ""
    nowait: Bit = False
    arguments: Table = field(default_factory=dict)


@method(40, 40, CLIENT, before=("short",))
class ExchangeUnbind(AmqpMethod):
    """Remove a binding between exchanges (RabbitMQ)."""

    destination: ShortString = ""
    source: ShortString = ""
    routing_key: ShortString = ""
    nowait: Bit = False
    arguments: Table = field(default_factory=dict)


@method(50, 10, CLIENT, before=("short",))
class QueueDeclare(AmqpMethod):
    """Declare a queue: create it, or compare an existing one; the server makes up a missing name."""

    queue: ShortString = ""
    passive: Bit = False
    durable: Bit = False
    exclusive: Bit = False
    auto_delete: Bit = False
    nowait: Bit = False
    arguments: Table = field(default_factory=dict)


@method(50, 11, SERVER)
class QueueDeclareOk(AmqpMethod):
    """The queue exists; `message_count` messages are ready."""

    queue: ShortString = ""
    message_count: Long = 0
    consumer_count: Long = 0


@method(50, 20, CLIENT, before=("short",))
class QueueBind(AmqpMethod):
    """Bind a queue to an exchange."""

    queue: ShortString = ""
    exchange: ShortString = ""
    routing_key: ShortString = ""
    nowait: Bit = False
    arguments: Table = field(default_factory=dict)


@method(50, 30, CLIENT, before=("short",))
class QueuePurge(AmqpMethod):
    """Drop the ready messages of a queue."""

    queue: ShortString = ""
    nowait: Bit = False


@method(50, 31, SERVER)
class QueuePurgeOk(AmqpMethod):
    """The number of dropped messages."""

    message_count: Long = 0


@method(50, 40, CLIENT, before=("short",))
class QueueDelete(AmqpMethod):
    """Delete a queue."""

    queue: ShortString = ""
    if_unused: Bit = False
    if_empty: Bit = False
    nowait: Bit = False


@method(50, 41, SERVER)
class QueueDeleteOk(AmqpMethod):
    """The queue is deleted, and `message_count` messages with it."""

    message_count: Long = 0


@method(50, 50, CLIENT, before=("short",))
class QueueUnbind(AmqpMethod):
    """Remove a binding."""

    queue: ShortString = ""
    exchange: ShortString = ""
    routing_key: ShortString = ""
    arguments: Table = field(default_factory=dict)


ExchangeDeclareOk: Final = plain_method(40, 11, SERVER, "ExchangeDeclareOk")
ExchangeDeleteOk: Final = plain_method(40, 21, SERVER, "ExchangeDeleteOk")
ExchangeBindOk: Final = plain_method(40, 31, SERVER, "ExchangeBindOk")
ExchangeUnbindOk: Final = plain_method(40, 51, SERVER, "ExchangeUnbindOk")  # the number is RabbitMQ's
QueueBindOk: Final = plain_method(50, 21, SERVER, "QueueBindOk")
QueueUnbindOk: Final = plain_method(50, 51, SERVER, "QueueUnbindOk")
