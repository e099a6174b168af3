"""Handlers of exchange and queue methods: declare, bind, purge, delete.

Changes of what outlives its clients are audited; those of exclusive, auto-delete and transient entities are traffic.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable
from dataclasses import replace

from entrepot.domain.access.model import Action
from entrepot.domain.exchanges import exchange as exchanges
from entrepot.domain.exchanges.binding import Binding, DestinationKind
from entrepot.domain.exchanges.exchange import Exchange, exchange_text, exchange_type
from entrepot.domain.queues.declaration import declared_queue, queue_text
from entrepot.gateway.amqp.connections.channel import AmqpChannel
from entrepot.gateway.amqp.connections.names import REPLY_TO_QUEUE, SERVER_NAMED
from entrepot.gateway.amqp.virtual_hosts.vhost import Queue, Vhost
from entrepot.gateway.amqp.virtual_hosts.virtual_hosts import check_owner
from entrepot.protocols.amqp.errors import AmqpError
from entrepot.protocols.amqp.methods_topology import (
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
from entrepot.protocols.amqp.reply_codes import ReplyCode


def queue_of(channel: AmqpChannel, name: str) -> Queue:
    """Return a queue that the client may use; an empty name means the one declared last.  Raises NOT_FOUND,
    RESOURCE_LOCKED."""
    name = name or channel.last_queue
    vhost = channel.vhost
    queue = vhost.queue(name)
    if queue is None:
        raise AmqpError(ReplyCode.NOT_FOUND, f"no {queue_text(name, vhost.name)}")
    check_owner(queue, channel.client.identity, vhost)
    return queue


def queue_to_read(channel: AmqpChannel, name: str) -> Queue:
    """Return a queue that the client may consume from.  Raises ACCESS_REFUSED even where it does not exist; else as
    `queue_of`."""
    name = name or channel.last_queue
    channel.services.access.check_read(channel.client, channel.vhost, name)
    return queue_of(channel, name)


def without_line_ends(name: str) -> str:
    """Return a name as it is declared and deleted: RabbitMQ takes CR and LF out of it."""
    return name.replace("\r", "").replace("\n", "")


# -- exchanges -------------------------------------------------------------------------------------------------------


def exchange_declare(channel: AmqpChannel, method: ExchangeDeclare) -> Awaitable[None] | None:
    method = replace(method, exchange=without_line_ends(method.exchange))
    vhost, services = channel.vhost, channel.services
    exchanges.check_not_default(method.exchange)
    if method.passive:
        services.access.check_know(channel.client, vhost, method.exchange)
        if services.virtual_hosts.exchange(vhost, method.exchange) is None:
            raise exchanges.not_found(method.exchange, vhost.name)
        _answer_exchange(channel, method)
        return None
    services.access.check_change(channel.client, vhost, Action.CREATE, method.exchange)
    wanted = Exchange(
        method.exchange,
        exchange_type(method.type),
        method.durable,
        method.auto_delete,
        method.internal,
        method.arguments,
    )
    services.access.check_alternate(channel.client, vhost, wanted)
    return _declare_exchange(channel, vhost, wanted, method)


async def _declare_exchange(channel: AmqpChannel, vhost: Vhost, wanted: Exchange, method: ExchangeDeclare) -> None:
    if await channel.services.virtual_hosts.declare_exchange(vhost, wanted) and wanted.durable:
        _note(channel, "exchange declared", "exchange", wanted.name)
    _answer_exchange(channel, method)


def _answer_exchange(channel: AmqpChannel, method: ExchangeDeclare) -> None:
    if not method.nowait:
        channel.out.send(ExchangeDeclareOk())


async def exchange_delete(channel: AmqpChannel, method: ExchangeDelete) -> None:
    method = replace(method, exchange=without_line_ends(method.exchange))
    vhost, services = channel.vhost, channel.services
    exchanges.check_deletable(method.exchange, vhost.name)
    services.access.check_change(channel.client, vhost, Action.DELETE, method.exchange)
    if method.if_unused and vhost.routing.is_bound(method.exchange):
        text = f"{exchange_text(method.exchange, vhost.name)} in use"
        raise AmqpError(ReplyCode.PRECONDITION_FAILED, text)
    found = vhost.routing.exchange(method.exchange)
    await services.virtual_hosts.definitions.delete_exchange(vhost, method.exchange)
    if found is not None and found.durable:
        _note(channel, "exchange deleted", "exchange", method.exchange)
    if not method.nowait:
        channel.out.send(ExchangeDeleteOk())


async def exchange_bind(channel: AmqpChannel, method: ExchangeBind) -> None:
    await _bind(channel, _exchange_binding(method))
    if not method.nowait:
        channel.out.send(ExchangeBindOk())


async def exchange_unbind(channel: AmqpChannel, method: ExchangeUnbind) -> None:
    await _unbind(channel, _exchange_binding(method))
    if not method.nowait:
        channel.out.send(ExchangeUnbindOk())


def _exchange_binding(method: ExchangeBind | ExchangeUnbind) -> Binding:
    return Binding(method.source, method.destination, method.routing_key, method.arguments, DestinationKind.EXCHANGE)


# -- queues ----------------------------------------------------------------------------------------------------------


async def queue_declare(channel: AmqpChannel, method: QueueDeclare) -> None:
    method = replace(method, queue=without_line_ends(method.queue))
    vhost, services, name = channel.vhost, channel.services, method.queue
    if name.startswith(REPLY_TO_QUEUE):
        _declare_reply_queue(channel, method)
        return
    if method.passive:
        services.access.check_know(channel.client, vhost, name or channel.last_queue)
        queue = queue_of(channel, name)
        services.virtual_hosts.used(queue)
    else:
        queue = await _declare_queue(channel, vhost, method)
    channel.last_queue = queue.name
    if not method.nowait:
        await channel.publishing.settled()
        ready = await services.virtual_hosts.counting.ready(queue)
        channel.out.send(QueueDeclareOk(queue.name, ready, services.virtual_hosts.consumers_of(queue)))


def _declare_reply_queue(channel: AmqpChannel, method: QueueDeclare) -> None:
    """Say that a client still waits for replies there, as RabbitMQ does for any declaration.  Raises NOT_FOUND."""
    vhost, name = channel.vhost, method.queue
    if name != REPLY_TO_QUEUE and vhost.queue(name) is None:
        raise AmqpError(ReplyCode.NOT_FOUND, f"no {queue_text(name, vhost.name)}")
    channel.last_queue = name
    if not method.nowait:
        channel.out.send(QueueDeclareOk(name, 0, 1))


async def _declare_queue(channel: AmqpChannel, vhost: Vhost, method: QueueDeclare) -> Queue:
    services, name = channel.services, method.queue or SERVER_NAMED + secrets.token_urlsafe(16)
    services.access.check_change(channel.client, vhost, Action.CREATE, name)
    wanted = declared_queue(
        name,
        vhost.name,
        durable=method.durable,
        exclusive=method.exclusive,
        auto_delete=method.auto_delete,
        arguments=method.arguments,
    )
    services.access.check_dead_letters(channel.client, vhost, name, wanted.arguments)
    queue, is_new = await services.virtual_hosts.declare_queue(
        vhost, wanted, channel.client.identity, is_named_here=not method.queue
    )
    if is_new and wanted.is_lasting:
        _note(channel, "queue declared", "queue", name)
    return queue


async def queue_bind(channel: AmqpChannel, method: QueueBind) -> None:
    name, key = method.queue or channel.last_queue, method.routing_key
    if not method.queue and not key:
        key = name
    await _bind(channel, Binding(method.exchange, name, key, method.arguments))
    if not method.nowait:
        channel.out.send(QueueBindOk())


async def queue_unbind(channel: AmqpChannel, method: QueueUnbind) -> None:
    name = method.queue or channel.last_queue
    await _unbind(channel, Binding(method.exchange, name, method.routing_key, method.arguments))
    channel.out.send(QueueUnbindOk())


async def _bind(channel: AmqpChannel, binding: Binding) -> None:
    vhost, services, source = channel.vhost, channel.services, binding.source
    exchanges.check_not_default(source)
    found = services.virtual_hosts.exchange(vhost, source)
    services.access.check_bind(channel.client, vhost, binding, found)
    if binding.destination_kind is DestinationKind.QUEUE:
        queue_of(channel, binding.destination)
    is_new = not vhost.routing.has_binding(binding)
    await services.virtual_hosts.bind(vhost, binding)
    if is_new:
        _note_binding(channel, "binding created", binding)


async def _unbind(channel: AmqpChannel, binding: Binding) -> None:
    vhost = channel.vhost
    exchanges.check_not_default(binding.source)
    channel.services.access.check_change(channel.client, vhost, Action.UPDATE, binding.destination)
    if binding.destination_kind is DestinationKind.QUEUE and (queue := vhost.queue(binding.destination)) is not None:
        check_owner(queue, channel.client.identity, vhost)
    is_there = vhost.routing.has_binding(binding)
    await channel.services.virtual_hosts.definitions.unbind(vhost, binding)
    if is_there:
        _note_binding(channel, "binding deleted", binding)


def _note_binding(channel: AmqpChannel, event: str, binding: Binding) -> None:
    if binding.destination_kind is DestinationKind.QUEUE:
        queue = channel.vhost.queue(binding.destination)
        is_lasting = queue is not None and queue.declared.is_lasting
    else:
        exchange = channel.vhost.routing.exchange(binding.destination)
        is_lasting = exchange is not None and exchange.durable
    if is_lasting:
        _note(channel, event, "binding", f"{binding.source} to {binding.destination}")


def _note(channel: AmqpChannel, event: str, kind: str, name: str) -> None:
    channel.services.access.note_change(channel.client, channel.vhost, event, kind, name)


def _of(channel: AmqpChannel, queue: Queue) -> str:
    return queue_text(queue.name, channel.vhost.name)


async def queue_purge(channel: AmqpChannel, method: QueuePurge) -> None:
    queue = queue_to_read(channel, method.queue)
    if queue.is_stream:
        raise AmqpError(ReplyCode.NOT_IMPLEMENTED, f"purge is not supported by stream {_of(channel, queue)}")
    await channel.publishing.settled()
    count = await channel.services.virtual_hosts.counting.purge(queue)
    if queue.declared.is_lasting:
        _note(channel, "queue purged", "queue", queue.name)
    if not method.nowait:
        channel.out.send(QueuePurgeOk(count))


async def queue_delete(channel: AmqpChannel, method: QueueDelete) -> None:
    vhost, services = channel.vhost, channel.services
    name = without_line_ends(method.queue) or channel.last_queue
    if not name:
        raise AmqpError(ReplyCode.NOT_FOUND, f"no {queue_text(name, vhost.name)}")
    services.access.check_change(channel.client, vhost, Action.DELETE, name)
    queue = vhost.queue(name)
    count = 0
    if queue is not None:
        check_owner(queue, channel.client.identity, vhost)
        of = queue_text(name, vhost.name)
        if method.if_unused and services.virtual_hosts.consumers_of(queue):
            raise AmqpError(ReplyCode.PRECONDITION_FAILED, f"{of} in use")
        await channel.publishing.settled()
        count = await services.virtual_hosts.counting.ready(queue)
        if method.if_empty and count:
            raise AmqpError(ReplyCode.PRECONDITION_FAILED, f"{of} not empty")
        await services.virtual_hosts.definitions.delete_queue(vhost, queue)
        if queue.declared.is_lasting:
            _note(channel, "queue deleted", "queue", name)
    if not method.nowait:
        channel.out.send(QueueDeleteOk(count))
