"""Methods to publish, consume and settle (class 60), of confirms and of transactions (85 and 90)."""

from __future__ import annotations

from dataclasses import field
from typing import Final

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
    plain_method,
)


@method(60, 10, CLIENT)
class BasicQos(AmqpMethod):
    """Limit of unsettled deliveries: of each new consumer, or of the channel (RabbitMQ's meaning of global)."""

    prefetch_size: Long = 0
    prefetch_count: Short = 0
    is_global: Bit = False


@method(60, 20, CLIENT, before=("short",))
class BasicConsume(AmqpMethod):
    """Begin to consume; the server makes up a missing tag."""

    queue: ShortString = ""
    consumer_tag: ShortString = ""
    no_local: Bit = False
    no_ack: Bit = False
    exclusive: Bit = False
    nowait: Bit = False
    arguments: Table = field(default_factory=dict)


@method(60, 21, SERVER)
class BasicConsumeOk(AmqpMethod):
    """The consumer exists."""

    consumer_tag: ShortString = ""


@method(60, 30, BOTH)
class BasicCancel(AmqpMethod):
    """Cancel a consumer; from the server (RabbitMQ): its queue is gone."""

    consumer_tag: ShortString = ""
    nowait: Bit = False


@method(60, 31, BOTH)
class BasicCancelOk(AmqpMethod):
    """The consumer is cancelled."""

    consumer_tag: ShortString = ""


@method(60, 40, CLIENT, before=("short",))
class BasicPublish(AmqpMethod):
    """Publish the message that follows."""

    exchange: ShortString = ""
    routing_key: ShortString = ""
    mandatory: Bit = False
    immediate: Bit = False


@method(60, 50, SERVER)
class BasicReturn(AmqpMethod):
    """The mandatory message that follows could not be routed."""

    reply_code: Short = 0
    reply_text: ShortString = ""
    exchange: ShortString = ""
    routing_key: ShortString = ""


@method(60, 60, SERVER)
class BasicDeliver(AmqpMethod):
    """The message that follows is for the consumer."""

    consumer_tag: ShortString = ""
    delivery_tag: LongLong = 0
    redelivered: Bit = False
    exchange: ShortString = ""
    routing_key: ShortString = ""


@method(60, 70, CLIENT, before=("short",))
class BasicGet(AmqpMethod):
    """Ask for one message."""

    queue: ShortString = ""
    no_ack: Bit = False


@method(60, 71, SERVER)
class BasicGetOk(AmqpMethod):
    """The message that follows was asked for; `message_count` are left."""

    delivery_tag: LongLong = 0
    redelivered: Bit = False
    exchange: ShortString = ""
    routing_key: ShortString = ""
    message_count: Long = 0


@method(60, 80, BOTH)
class BasicAck(AmqpMethod):
    """A delivery is acknowledged; from the server: a publish is confirmed."""

    delivery_tag: LongLong = 0
    multiple: Bit = False


@method(60, 90, CLIENT)
class BasicReject(AmqpMethod):
    """A delivery is rejected."""

    delivery_tag: LongLong = 0
    requeue: Bit = False


@method(60, 100, CLIENT)
class BasicRecoverAsync(AmqpMethod):
    """Redeliver unsettled messages, without an answer."""

    requeue: Bit = False


@method(60, 110, CLIENT)
class BasicRecover(AmqpMethod):
    """Redeliver unsettled messages."""

    requeue: Bit = False


@method(60, 120, BOTH)
class BasicNack(AmqpMethod):
    """Deliveries are rejected; from the server: a publish was lost (RabbitMQ)."""

    delivery_tag: LongLong = 0
    multiple: Bit = False
    requeue: Bit = False


@method(85, 10, CLIENT)
class ConfirmSelect(AmqpMethod):
    """Confirm publishes on the channel from now on."""

    nowait: Bit = False


BasicQosOk: Final = plain_method(60, 11, SERVER, "BasicQosOk")
BasicGetEmpty: Final = plain_method(60, 72, SERVER, "BasicGetEmpty", after=("shortstr",))
BasicRecoverOk: Final = plain_method(60, 111, SERVER, "BasicRecoverOk")
ConfirmSelectOk: Final = plain_method(85, 11, SERVER, "ConfirmSelectOk")
TxSelect: Final = plain_method(90, 10, CLIENT, "TxSelect")
TxSelectOk: Final = plain_method(90, 11, SERVER, "TxSelectOk")
TxCommit: Final = plain_method(90, 20, CLIENT, "TxCommit")
TxCommitOk: Final = plain_method(90, 21, SERVER, "TxCommitOk")
TxRollback: Final = plain_method(90, 30, CLIENT, "TxRollback")
TxRollbackOk: Final = plain_method(90, 31, SERVER, "TxRollbackOk")
