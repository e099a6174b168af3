"""Handlers of message methods: qos, consume, cancel, get, recover, confirms, transactions, flow."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Mapping
from typing import Final

from entrepot.domain.queues.declaration import declared_queue, queue_text
from entrepot.gateway.amqp.connections import topology
from entrepot.gateway.amqp.connections.channel import AmqpChannel, Handler
from entrepot.gateway.amqp.connections.consumer import Consumer
from entrepot.gateway.amqp.connections.names import CONSUMER_NAMED, REPLY_TO_QUEUE
from entrepot.gateway.amqp.connections.streams import stream_start
from entrepot.gateway.amqp.connections.topology import queue_to_read
from entrepot.gateway.amqp.virtual_hosts.vhost import Queue
from entrepot.protocols.amqp import methods_topology
from entrepot.protocols.amqp.errors import AmqpError
from entrepot.protocols.amqp.method_codec import AmqpMethod
from entrepot.protocols.amqp.methods_basic import (
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicConsumeOk,
    BasicGet,
    BasicGetEmpty,
    BasicQos,
    BasicQosOk,
    BasicRecover,
    BasicRecoverAsync,
    BasicRecoverOk,
    ConfirmSelect,
    ConfirmSelectOk,
    TxCommit,
    TxCommitOk,
    TxRollback,
    TxRollbackOk,
    TxSelect,
    TxSelectOk,
)
from entrepot.protocols.amqp.methods_connection import ChannelFlow, ChannelFlowOk
from entrepot.protocols.amqp.reply_codes import ReplyCode

PRIORITY: Final = "x-priority"


def basic_qos(channel: AmqpChannel, method: BasicQos) -> None:
    if method.prefetch_size:
        raise AmqpError(ReplyCode.NOT_IMPLEMENTED, f"prefetch_size!=0 ({method.prefetch_size})")
    channel.consuming.set_prefetch(method.prefetch_count, of_channel=method.is_global)
    channel.out.send(BasicQosOk())


async def basic_consume(channel: AmqpChannel, method: BasicConsume) -> None:
    consuming, tag = channel.consuming, method.consumer_tag
    if tag and tag in consuming.consumers:
        raise AmqpError(ReplyCode.NOT_ALLOWED, f"attempt to reuse consumer tag '{tag}'")
    tag = tag or CONSUMER_NAMED + secrets.token_urlsafe(16)
    if method.queue == REPLY_TO_QUEUE:
        queue = await _reply_queue(channel, method)
    else:
        queue = queue_to_read(channel, method.queue)
    _check_exclusive(channel, queue, method.exclusive)
    if queue.is_stream:
        _check_stream(channel, queue, method)
    consumer = Consumer(
        consuming,
        tag,
        queue,
        no_ack=method.no_ack,
        exclusive=method.exclusive,
        priority=_priority(method.arguments),
        prefetch=consuming.room.prefetch,
        arguments=method.arguments,
    )
    if not method.nowait:
        channel.out.send(BasicConsumeOk(tag))
    consuming.add(consumer)


def _check_stream(channel: AmqpChannel, queue: Queue, method: BasicConsume) -> None:
    """Require acknowledgements and a prefetch limit of a stream's consumer."""
    of = queue_text(queue.name, channel.vhost.name)
    if method.no_ack:
        raise AmqpError(ReplyCode.NOT_IMPLEMENTED, f"automatic acknowledgement not supported by stream {of}")
    if not channel.consuming.room.prefetch and not channel.consuming.room.channel_prefetch:
        raise AmqpError(ReplyCode.PRECONDITION_FAILED, f"consumer prefetch count is not set for stream {of}")
    stream_start(method.arguments, channel.services.clock.now_ms())


async def _reply_queue(channel: AmqpChannel, method: BasicConsume) -> Queue:
    """Return the queue behind the pseudo-queue of direct reply-to, one for each channel."""
    if not method.no_ack:
        raise AmqpError(ReplyCode.PRECONDITION_FAILED, "reply consumer cannot acknowledge")
    if channel.publishing.reply_queue:
        raise AmqpError(ReplyCode.PRECONDITION_FAILED, "reply consumer already set")
    queue = await _make_reply_queue(channel)
    channel.publishing.reply_queue = queue.name
    return queue


async def _make_reply_queue(channel: AmqpChannel) -> Queue:
    vhost, virtual_hosts = channel.vhost, channel.services.virtual_hosts
    name = f"{REPLY_TO_QUEUE}.{secrets.token_urlsafe(24)}"
    queue, _ = await virtual_hosts.definitions.declare_queue(
        vhost,
        declared_queue(name, vhost.name, exclusive=True, auto_delete=True, arguments={}),
        gateway=virtual_hosts.gateway,
        connection=channel.client.identity,
        now_ms=channel.services.clock.now_ms(),
    )  # the limit of queues does not apply to it
    return queue


def _check_exclusive(channel: AmqpChannel, queue: Queue, wanted: bool) -> None:
    others = channel.services.virtual_hosts.feeds.all_of(queue)
    presence = channel.services.virtual_hosts.presence
    is_used = bool(others) or presence.elsewhere(queue) > 0
    is_excluded = presence.is_exclusive_elsewhere(queue)
    if (wanted and is_used) or is_excluded or any(isinstance(each, Consumer) and each.exclusive for each in others):
        text = f"{queue_text(queue.name, channel.vhost.name)} in exclusive use"
        raise AmqpError(ReplyCode.ACCESS_REFUSED, text)


def _priority(arguments: Mapping[str, object]) -> int:
    wanted = arguments.get(PRIORITY, 0)
    if isinstance(wanted, bool) or not isinstance(wanted, int):
        raise AmqpError(ReplyCode.PRECONDITION_FAILED, f"invalid arg '{PRIORITY}': {wanted!r}")
    return wanted


def basic_cancel(channel: AmqpChannel, method: BasicCancel) -> Awaitable[None] | None:
    consumer = channel.consuming.cancel(method.consumer_tag)
    if consumer is not None and consumer.queue.declaration.auto_delete:
        return _cancel_and_wait(channel, method, consumer.queue)
    if not method.nowait:
        channel.out.send(BasicCancelOk(method.consumer_tag))
    return None


async def _cancel_and_wait(channel: AmqpChannel, method: BasicCancel, queue: Queue) -> None:
    """Cancel an auto-delete queue's consumer; cancel-ok follows the queue's deletion."""
    await channel.services.virtual_hosts.unused(queue)
    if not method.nowait:
        channel.out.send(BasicCancelOk(method.consumer_tag))


async def basic_get(channel: AmqpChannel, method: BasicGet) -> None:
    virtual_hosts = channel.services.virtual_hosts
    queue = queue_to_read(channel, method.queue)
    if queue.is_stream:
        text = f"basic.get not supported by stream {queue_text(queue.name, channel.vhost.name)}"
        raise AmqpError(ReplyCode.NOT_IMPLEMENTED, text)
    virtual_hosts.used(queue)
    await channel.publishing.settled()
    while (ticket := await virtual_hosts.feeds.of(queue).get()) is not None:
        try:
            ready = await virtual_hosts.counting.ready(queue)
        except BaseException:
            ticket.release()
            raise
        if not channel.out.is_open:
            ticket.release()
            return
        if channel.consuming.get_ok(queue, ticket, ready, no_ack=method.no_ack):
            return
    channel.consuming.services.counters.got_nothing += 1
    channel.out.send(BasicGetEmpty())


def basic_recover(channel: AmqpChannel, method: BasicRecover | BasicRecoverAsync) -> None:
    if not method.requeue:
        raise AmqpError(ReplyCode.NOT_IMPLEMENTED, "requeue=false")
    channel.consuming.recover()
    if isinstance(method, BasicRecover):
        channel.out.send(BasicRecoverOk())


def channel_flow(channel: AmqpChannel, method: ChannelFlow) -> None:
    if not method.active:
        raise AmqpError(ReplyCode.NOT_IMPLEMENTED, "active=false")
    channel.out.send(ChannelFlowOk(True))


def flow_ok(channel: AmqpChannel, method: ChannelFlowOk) -> None:
    """Ignore channel.flow-ok: the server never sends channel.flow."""


def confirm_select(channel: AmqpChannel, method: ConfirmSelect) -> None:
    if channel.publishing.is_tx:
        raise AmqpError(ReplyCode.PRECONDITION_FAILED, "cannot switch from tx to confirm mode")
    channel.publishing.confirms = True
    if not method.nowait:
        channel.out.send(ConfirmSelectOk())


def tx_select(channel: AmqpChannel, method: AmqpMethod) -> None:
    if channel.publishing.confirms:
        raise AmqpError(ReplyCode.PRECONDITION_FAILED, "cannot switch from confirm to tx mode")
    channel.publishing.is_tx = True
    channel.out.send(TxSelectOk())


async def tx_commit(channel: AmqpChannel, method: AmqpMethod) -> None:
    _check_tx(channel)
    await channel.publishing.commit()
    queues = channel.consuming.tx.queues()
    work = channel.consuming.commit()
    if work is not None:
        await work
    for queue in queues:
        await channel.services.virtual_hosts.feeds.of(queue).leased.settle()
    channel.out.send(TxCommitOk())


def tx_rollback(channel: AmqpChannel, method: AmqpMethod) -> None:
    _check_tx(channel)
    channel.publishing.roll_back()
    channel.consuming.roll_back()
    channel.out.send(TxRollbackOk())


def _check_tx(channel: AmqpChannel) -> None:
    if not channel.publishing.is_tx:
        raise AmqpError(ReplyCode.PRECONDITION_FAILED, "channel is not transactional")


HANDLERS: Final[Mapping[type[AmqpMethod], Handler]] = {
    methods_topology.ExchangeDeclare: topology.exchange_declare,
    methods_topology.ExchangeDelete: topology.exchange_delete,
    methods_topology.ExchangeBind: topology.exchange_bind,
    methods_topology.ExchangeUnbind: topology.exchange_unbind,
    methods_topology.QueueDeclare: topology.queue_declare,
    methods_topology.QueueBind: topology.queue_bind,
    methods_topology.QueueUnbind: topology.queue_unbind,
    methods_topology.QueuePurge: topology.queue_purge,
    methods_topology.QueueDelete: topology.queue_delete,
    BasicQos: basic_qos,
    BasicConsume: basic_consume,
    BasicCancel: basic_cancel,
    BasicGet: basic_get,
    BasicRecover: basic_recover,
    BasicRecoverAsync: basic_recover,
    ChannelFlow: channel_flow,
    ChannelFlowOk: flow_ok,
    ConfirmSelect: confirm_select,
    TxSelect: tx_select,
    TxCommit: tx_commit,
    TxRollback: tx_rollback,
}
"""Handler of each channel method."""
