"""Methods of exchanges and queues: what a client declares, binds, purges and deletes."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable
from typing import TYPE_CHECKING

from domain.access.model import Action
from domain.exchanges import exchange as exchanges
from domain.exchanges.binding import Binding, DestinationKind, check_binding
from domain.exchanges.exchange import Exchange, exchange_text, exchange_type
from domain.queues import declaration as queue_declaration
from domain.queues.declaration import QueueDeclaration, declared_queue, queue_text
from gateway.amqp.connections.names import REPLY_TO_QUEUE, SERVER_NAMED
from gateway.amqp.virtual_hosts.vhost import Queue, Vhost
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
    check_owner(channel, queue)
    return queue


def queue_to_read(channel: AmqpChannel, name: str) -> Queue:
    """A queue that the client may consume from.  ACCESS_REFUSED whether or not it is there; else as `queue_of`."""
    name = name or channel.last_queue
    channel.conversation.frontend.access.check_read(channel.conversation, vhost_of(channel), name)
    return queue_of(channel, name)


def check_owner(channel: AmqpChannel, queue: Queue) -> None:
    """RESOURCE_LOCKED where a queue is another connection's."""
    if queue.connection and queue.connection != channel.conversation.identity:
        raise AmqpError(ReplyCode.RESOURCE_LOCKED, queue_declaration.locked(queue.name, vhost_of(channel).name))


# -- exchanges -------------------------------------------------------------------------------------------------------


def exchange_declare(channel: AmqpChannel, method: ExchangeDeclare) -> Awaitable[None] | None:
    vhost, frontend = vhost_of(channel), channel.conversation.frontend
    exchanges.check_not_default(method.exchange)
    found = vhost.routing.exchange(method.exchange)
    if method.passive:
        frontend.access.check_know(channel.conversation, vhost, method.exchange)
        if frontend.exchange(vhost, method.exchange) is None:
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
    exchanges.check_exchange(wanted, vhost.name)
    frontend.access.check_alternate(channel.conversation, vhost, wanted)
    if found is not None:
        _check_same(vhost, found, wanted)
        _answer_exchange(channel, method)
        return None
    exchanges.check_new_name(method.exchange)
    return _declare_exchange(channel, vhost, wanted, method)


async def _declare_exchange(channel: AmqpChannel, vhost: Vhost, wanted: Exchange, method: ExchangeDeclare) -> None:
    frontend = channel.conversation.frontend
    found = await frontend.definitions.declare_exchange(vhost, wanted, frontend.gateway)
    _check_same(vhost, found, wanted)
    _answer_exchange(channel, method)


def _check_same(vhost: Vhost, found: Exchange, wanted: Exchange) -> None:
    text = exchanges.inequivalence(found, wanted, vhost.name)
    if text is not None:
        raise AmqpError(ReplyCode.PRECONDITION_FAILED, text)


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
    await frontend.definitions.delete_exchange(vhost, method.exchange)
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
    else:
        if not name:
            name = SERVER_NAMED + secrets.token_urlsafe(16)
        queue = await _declare_queue(channel, vhost, name, method)
    frontend.used(queue)
    channel.last_queue = queue.name
    if not method.nowait:
        await channel.publishing.settled()
        ready = await frontend.counting.ready(queue)
        channel.send(QueueDeclareOk(queue.name, ready, frontend.consumers_of(queue)))


async def _declare_queue(channel: AmqpChannel, vhost: Vhost, name: str, method: QueueDeclare) -> Queue:
    conversation = channel.conversation
    frontend = conversation.frontend
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
    found = vhost.queue(name)
    if found is None:
        if method.queue:
            queue_declaration.check_new_name(name)
        frontend.check_queue_room()
        found, is_new = await frontend.definitions.declare_queue(
            vhost,
            wanted,
            gateway=frontend.gateway,
            connection=conversation.identity,
            now_ms=frontend.clock.now_ms(),
        )
        if is_new:
            return found
    _check_same_queue(channel, vhost, found, wanted)
    return found


def _check_same_queue(channel: AmqpChannel, vhost: Vhost, found: Queue, wanted: QueueDeclaration) -> None:
    check_owner(channel, found)
    if found.declaration.exclusive != wanted.exclusive:
        raise AmqpError(ReplyCode.RESOURCE_LOCKED, queue_declaration.locked(found.name, vhost.name))
    text = queue_declaration.inequivalence(found.declared, wanted, vhost.name)
    if text is not None:
        raise AmqpError(ReplyCode.PRECONDITION_FAILED, text)


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
    found = frontend.exchange(vhost, source)
    frontend.access.check_bind(conversation, vhost, binding, found)
    if binding.destination_kind is DestinationKind.QUEUE:
        queue_of(channel, binding.destination)
    if found is None:
        raise exchanges.not_found(source, vhost.name)
    if vhost.routing.exchange(source) is None:  # a Topic, which is declared by being bound
        found = await frontend.definitions.declare_exchange(vhost, found, frontend.gateway)
    if not frontend.definitions.destination_exists(vhost, binding):
        raise exchanges.not_found(binding.destination, vhost.name)
    check_binding(binding, found.routing_type)
    await frontend.definitions.bind(vhost, binding)


async def _unbind(channel: AmqpChannel, binding: Binding) -> None:
    vhost, conversation = vhost_of(channel), channel.conversation
    exchanges.check_not_default(binding.source)
    conversation.frontend.access.check_change(conversation, vhost, Action.UPDATE, binding.destination)
    if binding.destination_kind is DestinationKind.QUEUE and (queue := vhost.queue(binding.destination)) is not None:
        check_owner(channel, queue)
    await conversation.frontend.definitions.unbind(vhost, binding)


def _of(channel: AmqpChannel, queue: Queue) -> str:
    return queue_text(queue.name, vhost_of(channel).name)


async def queue_purge(channel: AmqpChannel, method: QueuePurge) -> None:
    queue, conversation = queue_to_read(channel, method.queue), channel.conversation
    if queue.is_stream:
        raise AmqpError(ReplyCode.NOT_IMPLEMENTED, f"purge is not supported by stream {_of(channel, queue)}")
    await channel.publishing.settled()
    count = await conversation.frontend.counting.purge(queue)
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
        check_owner(channel, queue)
        of = queue_text(name, vhost.name)
        if method.if_unused and frontend.consumers_of(queue):
            raise AmqpError(ReplyCode.PRECONDITION_FAILED, f"{of} in use")
        await channel.publishing.settled()
        count = await frontend.counting.ready(queue)
        if method.if_empty and count:
            raise AmqpError(ReplyCode.PRECONDITION_FAILED, f"{of} not empty")
        await frontend.definitions.delete_queue(vhost, queue)
    if not method.nowait:
        channel.send(QueueDeleteOk(count))
