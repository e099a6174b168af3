"""Methods to publish, consume and settle (class 60), of confirms and of transactions (85 and 90)."""

from __future__ import annotations

from dataclasses import dataclass, field

from entrepot.protocols.amqp.method_codec import (
    BOTH,
    CLIENT,
    SERVER,
    AmqpMethod,
    Bit,
    Long,
    LongLong,
    Short,
    ShortString,
    Table,
    method,
)


@method(60, 10, "basic.qos", CLIENT)
@dataclass(slots=True)
class BasicQos(AmqpMethod):
    """Limit of unsettled deliveries: of each new consumer, or of the channel (RabbitMQ's meaning of global)."""

    prefetch_size: Long = 0
    prefetch_count: Short = 0
    is_global: Bit = False


@method(60, 11, "basic.qos-ok", SERVER)
@dataclass(slots=True)
class BasicQosOk(AmqpMethod):
    """The limit is in force."""


@method(60, 20, "basic.consume", CLIENT, before=("short",))
@dataclass(slots=True)
class BasicConsume(AmqpMethod):
    """Begin to consume; the server makes up a missing tag."""

    queue: ShortString = ""
    consumer_tag: ShortString = ""
    no_local: Bit = False
    no_ack: Bit = False
    exclusive: Bit = False
    nowait: Bit = False
    arguments: Table = field(default_factory=dict)


@method(60, 21, "basic.consume-ok", SERVER)
@dataclass(slots=True)
class BasicConsumeOk(AmqpMethod):
    """The consumer exists."""

    consumer_tag: ShortString = ""


@method(60, 30, "basic.cancel", BOTH)
@dataclass(slots=True)
class BasicCancel(AmqpMethod):
    """Cancel a consumer; from the server (RabbitMQ): its queue is gone."""

    consumer_tag: ShortString = ""
    nowait: Bit = False


@method(60, 31, "basic.cancel-ok", BOTH)
@dataclass(slots=True)
class BasicCancelOk(AmqpMethod):
    """The consumer is cancelled."""

    consumer_tag: ShortString = ""


@method(60, 40, "basic.publish", CLIENT, before=("short",))
@dataclass(slots=True)
class BasicPublish(AmqpMethod):
    """Publish the message that follows."""

    exchange: ShortString = ""
    routing_key: ShortString = ""
    mandatory: Bit = False
    immediate: Bit = False


@method(60, 50, "basic.return", SERVER)
@dataclass(slots=True)
class BasicReturn(AmqpMethod):
    """The mandatory message that follows could not be routed."""

    reply_code: Short = 0
    reply_text: ShortString = ""
    exchange: ShortString = ""
    routing_key: ShortString = ""


@method(60, 60, "basic.deliver", SERVER)
@dataclass(slots=True)
class BasicDeliver(AmqpMethod):
    """The message that follows is for the consumer."""

    consumer_tag: ShortString = ""
    delivery_tag: LongLong = 0
    redelivered: Bit = False
    exchange: ShortString = ""
    routing_key: ShortString = ""


@method(60, 70, "basic.get", CLIENT, before=("short",))
@dataclass(slots=True)
class BasicGet(AmqpMethod):
    """Ask for one message."""

    queue: ShortString = ""
    no_ack: Bit = False


@method(60, 71, "basic.get-ok", SERVER)
@dataclass(slots=True)
class BasicGetOk(AmqpMethod):
    """The message that follows was asked for; `message_count` are left."""

    delivery_tag: LongLong = 0
    redelivered: Bit = False
    exchange: ShortString = ""
    routing_key: ShortString = ""
    message_count: Long = 0


@method(60, 72, "basic.get-empty", SERVER, after=("shortstr",))
@dataclass(slots=True)
class BasicGetEmpty(AmqpMethod):
    """The queue is empty."""


@method(60, 80, "basic.ack", BOTH)
@dataclass(slots=True)
class BasicAck(AmqpMethod):
    """A delivery is acknowledged; from the server: a publish is confirmed."""

    delivery_tag: LongLong = 0
    multiple: Bit = False


@method(60, 90, "basic.reject", CLIENT)
@dataclass(slots=True)
class BasicReject(AmqpMethod):
    """A delivery is rejected."""

    delivery_tag: LongLong = 0
    requeue: Bit = False


@method(60, 100, "basic.recover-async", CLIENT)
@dataclass(slots=True)
class BasicRecoverAsync(AmqpMethod):
    """Redeliver unsettled messages, without an answer."""

    requeue: Bit = False


@method(60, 110, "basic.recover", CLIENT)
@dataclass(slots=True)
class BasicRecover(AmqpMethod):
    """Redeliver unsettled messages."""

    requeue: Bit = False


@method(60, 111, "basic.recover-ok", SERVER)
@dataclass(slots=True)
class BasicRecoverOk(AmqpMethod):
    """Unsettled messages will be redelivered."""


@method(60, 120, "basic.nack", BOTH)
@dataclass(slots=True)
class BasicNack(AmqpMethod):
    """Deliveries are rejected; from the server: a publish was lost (RabbitMQ)."""

    delivery_tag: LongLong = 0
    multiple: Bit = False
    requeue: Bit = False


@method(85, 10, "confirm.select", CLIENT)
@dataclass(slots=True)
class ConfirmSelect(AmqpMethod):
    """Confirm publishes on the channel from now on."""

    nowait: Bit = False


@method(85, 11, "confirm.select-ok", SERVER)
@dataclass(slots=True)
class ConfirmSelectOk(AmqpMethod):
    """Publishes will be confirmed."""


@method(90, 10, "tx.select", CLIENT)
@dataclass(slots=True)
class TxSelect(AmqpMethod):
    """Publish and settle in transactions from now on."""


@method(90, 11, "tx.select-ok", SERVER)
@dataclass(slots=True)
class TxSelectOk(AmqpMethod):
    """The channel is transactional."""


@method(90, 20, "tx.commit", CLIENT)
@dataclass(slots=True)
class TxCommit(AmqpMethod):
    """Carry out the transaction."""


@method(90, 21, "tx.commit-ok", SERVER)
@dataclass(slots=True)
class TxCommitOk(AmqpMethod):
    """The transaction is carried out."""


@method(90, 30, "tx.rollback", CLIENT)
@dataclass(slots=True)
class TxRollback(AmqpMethod):
    """Drop the transaction."""


@method(90, 31, "tx.rollback-ok", SERVER)
@dataclass(slots=True)
class TxRollbackOk(AmqpMethod):
    """The transaction is dropped."""
