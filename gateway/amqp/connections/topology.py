"""Methods of exchanges and queues: what a client declares, binds, purges and deletes."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable
from typing import TYPE_CHECKING

from domain.access.model import Action
from domain.exchanges import exchange as exchanges
from domain.exchanges.binding import Binding, DestinationKind
from domain.exchanges.exchange import Exchange, exchange_text, exchange_type
from domain.queues.declaration import declared_queue, queue_text
from gateway.amqp.connections.names import REPLY_TO_QUEUE, SERVER_NAMED
from gateway.amqp.virtual_hosts.vhost import Queue, Vhost
from gateway.amqp.virtual_hosts.virtual_hosts import check_owner
from protocols.amqp.errors import AmqpError
from protocols.amqp.methods import (
    ExchangeBind,
    ExchangeBindOk,
    ExchangeDeclare,
    ExchangeDeclareOk,
    ExchangeDelete,
    ExchangeDeleteOk,
    ExchangeUnbind,
    ExchangeUnbindOk,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
    QueuePurge,
    QueuePurgeOk,
    QueueUnbind,
    QueueUnbindOk,
)
from protocols.amqp.reply_codes import ReplyCode

if TYPE_CHECKING:
    from gateway.amqp.connections.channel import AmqpChannel


def vhost_of(channel: AmqpChannel) -> Vhost:
    vhost = channel.conversation.vhost
    assert vhost is not None
    return vhost


def queue_of(channel: AmqpChannel, name: str) -> Queue:
    """A queue that the client may use; an empty name is the one it declared last.  NOT_FOUND, RESOURCE_LOCKED."""
    name = name or channel.last_queue
    vhost = vhost_of(channel)
    queue = vhost.queue(name)
    if queue is None:
        raise AmqpError(ReplyCode.NOT_FOUND, f"no {queue_text(name, vhost.name)}")
    check_owner(queue, channel.conversation.identity, vhost)
    return queue


def queue_to_read(channel: AmqpChannel, name: str) -> Queue:
    """A queue that the client may consume from.  ACCESS_REFUSED whether or not it is there; else as `queue_of`."""
    name = name or channel.last_queue
    channel.conversation.frontend.access.check_read(channel.conversation, vhost_of(channel), name)
    return queue_of(channel, name)


# -- exchanges -------------------------------------------------------------------------------------------------------


def exchange_declare(channel: AmqpChannel, method: ExchangeDeclare) -> Awaitable[None] | None:
    vhost, frontend = vhost_of(channel), channel.conversation.frontend
    exchanges.check_not_default(method.exchange)
    if method.passive:
        frontend.access.check_know(channel.conversation, vhost, method.exchange)
        if frontend.virtual_hosts.exchange(vhost, method.exchange) is None:
            raise exchanges.not_found(method.exchange, vhost.name)
        _answer_exchange(channel, method)
        return None
    frontend.access.check_change(channel.conversation, vhost, Action.CREATE, method.exchange)
    wanted = Exchange(
        method.exchange,
        exchange_type(method.type),
        method.durable,
        method.auto_delete,
        method.internal,
        method.arguments,
    )
    frontend.access.check_alternate(channel.conversation, vhost, wanted)
    return _declare_exchange(channel, vhost, wanted, method)


async def _declare_exchange(channel: AmqpChannel, vhost: Vhost, wanted: Exchange, method: ExchangeDeclare) -> None:
    await channel.conversation.frontend.virtual_hosts.declare_exchange(vhost, wanted)
    _answer_exchange(channel, method)


def _answer_exchange(channel: AmqpChannel, method: ExchangeDeclare) -> None:
    if not method.nowait:
        channel.send(ExchangeDeclareOk())


async def exchange_delete(channel: AmqpChannel, method: ExchangeDelete) -> None:
    vhost, frontend = vhost_of(channel), channel.conversation.frontend
    exchanges.check_deletable(method.exchange, vhost.name)
    frontend.access.check_change(channel.conversation, vhost, Action.DELETE, method.exchange)
    if method.if_unused and vhost.routing.is_bound(method.exchange):
        text = f"{exchange_text(method.exchange, vhost.name)} in use"
        raise AmqpError(ReplyCode.PRECONDITION_FAILED, text)
    await frontend.virtual_hosts.definitions.delete_exchange(vhost, method.exchange)
    if not method.nowait:
        channel.send(ExchangeDeleteOk())


async def exchange_bind(channel: AmqpChannel, method: ExchangeBind) -> None:
    await _bind(channel, _exchange_binding(method))
    if not method.nowait:
        channel.send(ExchangeBindOk())


async def exchange_unbind(channel: AmqpChannel, method: ExchangeUnbind) -> None:
    await _unbind(channel, _exchange_binding(method))
    if not method.nowait:
        channel.send(ExchangeUnbindOk())


def _exchange_binding(method: ExchangeBind | ExchangeUnbind) -> Binding:
    return Binding(method.source, method.destination, method.routing_key, method.arguments, DestinationKind.EXCHANGE)


# -- queues ----------------------------------------------------------------------------------------------------------


async def queue_declare(channel: AmqpChannel, method: QueueDeclare) -> None:
    vhost, conversation = vhost_of(channel), channel.conversation
    frontend, name = conversation.frontend, method.queue
    if name == REPLY_TO_QUEUE:
        channel.send(QueueDeclareOk(name, 0, 1))
        return
    if method.passive:
        frontend.access.check_know(conversation, vhost, name or channel.last_queue)
        queue = queue_of(channel, name)
        frontend.virtual_hosts.used(queue)
    else:
        queue = await _declare_queue(channel, vhost, method)
    channel.last_queue = queue.name
    if not method.nowait:
        await channel.publishing.settled()
        ready = await frontend.virtual_hosts.counting.ready(queue)
        channel.send(QueueDeclareOk(queue.name, ready, frontend.virtual_hosts.consumers_of(queue)))


async def _declare_queue(channel: AmqpChannel, vhost: Vhost, method: QueueDeclare) -> Queue:
    conversation = channel.conversation
    frontend, name = conversation.frontend, method.queue or SERVER_NAMED + secrets.token_urlsafe(16)
    frontend.access.check_change(conversation, vhost, Action.CREATE, name)
    wanted = declared_queue(
        name,
        vhost.name,
        durable=method.durable,
        exclusive=method.exclusive,
        auto_delete=method.auto_delete,
        arguments=method.arguments,
    )
    frontend.access.check_dead_letters(conversation, vhost, name, wanted.arguments)
    queue, _ = await frontend.virtual_hosts.declare_queue(
        vhost, wanted, conversation.identity, is_named_here=not method.queue
    )
    return queue


async def queue_bind(channel: AmqpChannel, method: QueueBind) -> None:
    name, key = method.queue or channel.last_queue, method.routing_key
    if not method.queue and not key:
        key = name
    await _bind(channel, Binding(method.exchange, name, key, method.arguments))
    if not method.nowait:
        channel.send(QueueBindOk())


async def queue_unbind(channel: AmqpChannel, method: QueueUnbind) -> None:
    name = method.queue or channel.last_queue
    await _unbind(channel, Binding(method.exchange, name, method.routing_key, method.arguments))
    channel.send(QueueUnbindOk())


async def _bind(channel: AmqpChannel, binding: Binding) -> None:
    vhost, conversation = vhost_of(channel), channel.conversation
    frontend, source = conversation.frontend, binding.source
    exchanges.check_not_default(source)
    found = frontend.virtual_hosts.exchange(vhost, source)
    frontend.access.check_bind(conversation, vhost, binding, found)
    if binding.destination_kind is DestinationKind.QUEUE:
        queue_of(channel, binding.destination)
    await frontend.virtual_hosts.bind(vhost, binding)


async def _unbind(channel: AmqpChannel, binding: Binding) -> None:
    vhost, conversation = vhost_of(channel), channel.conversation
    exchanges.check_not_default(binding.source)
    conversation.frontend.access.check_change(conversation, vhost, Action.UPDATE, binding.destination)
    if binding.destination_kind is DestinationKind.QUEUE and (queue := vhost.queue(binding.destination)) is not None:
        check_owner(queue, channel.conversation.identity, vhost)
    await conversation.frontend.virtual_hosts.definitions.unbind(vhost, binding)


def _of(channel: AmqpChannel, queue: Queue) -> str:
    return queue_text(queue.name, vhost_of(channel).name)


async def queue_purge(channel: AmqpChannel, method: QueuePurge) -> None:
    queue, conversation = queue_to_read(channel, method.queue), channel.conversation
    if queue.is_stream:
        raise AmqpError(ReplyCode.NOT_IMPLEMENTED, f"purge is not supported by stream {_of(channel, queue)}")
    await channel.publishing.settled()
    count = await conversation.frontend.virtual_hosts.counting.purge(queue)
    if not method.nowait:
        channel.send(QueuePurgeOk(count))


async def queue_delete(channel: AmqpChannel, method: QueueDelete) -> None:
    vhost, conversation = vhost_of(channel), channel.conversation
    frontend = conversation.frontend
    name = method.queue or channel.last_queue
    if not name:
        raise AmqpError(ReplyCode.NOT_FOUND, f"no {queue_text(name, vhost.name)}")
    frontend.access.check_change(conversation, vhost, Action.DELETE, name)
    queue = vhost.queue(name)
    count = 0
    if queue is not None:
        check_owner(queue, channel.conversation.identity, vhost)
        of = queue_text(name, vhost.name)
        if method.if_unused and frontend.virtual_hosts.consumers_of(queue):
            raise AmqpError(ReplyCode.PRECONDITION_FAILED, f"{of} in use")
        await channel.publishing.settled()
        count = await frontend.virtual_hosts.counting.ready(queue)
        if method.if_empty and count:
            raise AmqpError(ReplyCode.PRECONDITION_FAILED, f"{of} not empty")
        await frontend.virtual_hosts.definitions.delete_queue(vhost, queue)
    if not method.nowait:
        channel.send(QueueDeleteOk(count))
