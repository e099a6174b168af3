"""Declaring and binding for who is no AMQP client: the checks are those of the AMQP door, the refusals RabbitMQ's.

What is declared here and is not durable goes with this gateway.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import structlog

from domain.errors import Code, EntrepotError
from domain.exchanges import exchange as exchanges
from domain.exchanges.binding import Binding, check_binding
from domain.exchanges.exchange import Exchange, exchange_type
from domain.queues import declaration as queue_declaration
from domain.queues.declaration import declared_queue
from domain.queues.policy import Policy
from gateway.amqp.frontend import AmqpFrontend
from gateway.amqp.virtual_hosts.vhost import Queue, Vhost

log = structlog.get_logger(__name__)


async def declare_exchange(frontend: AmqpFrontend, vhost: Vhost, wanted: Exchange) -> bool:
    """Whether it is new.  Raises PRECONDITION_FAILED where there is another one, FORBIDDEN for a system's name."""
    exchanges.check_not_default(wanted.name)
    exchanges.check_exchange(wanted, vhost.name)
    found = vhost.routing.exchange(wanted.name)
    is_new = found is None
    if found is None:
        exchanges.check_new_name(wanted.name)
        found = await frontend.definitions.declare_exchange(vhost, wanted, frontend.gateway)
    text = exchanges.inequivalence(found, wanted, vhost.name)
    if text is not None:
        raise EntrepotError(Code.PRECONDITION_FAILED, text)
    return is_new


def exchange_of(name: str, kind: str, *, arguments: Mapping[str, Any], **flags: bool) -> Exchange:
    """Raises PRECONDITION_FAILED for a type that is not there."""
    return Exchange(name, exchange_type(kind), arguments=arguments, **flags)


async def declare_queue(
    frontend: AmqpFrontend, vhost: Vhost, name: str, *, durable: bool, auto_delete: bool, arguments: Mapping[str, Any]
) -> bool:
    """Whether it is new.  Raises PRECONDITION_FAILED, FORBIDDEN (a system's name)."""
    wanted = declared_queue(name, vhost.name, durable=durable, auto_delete=auto_delete, arguments=arguments)
    found = vhost.queue(name)
    is_new = False
    if found is None:
        queue_declaration.check_new_name(name)
        frontend.check_queue_room()
        now_ms = frontend.clock.now_ms()
        found, is_new = await frontend.definitions.declare_queue(
            vhost, wanted, gateway=frontend.gateway, connection="", now_ms=now_ms
        )
    if not is_new:
        check_not_locked(found, vhost)
        text = queue_declaration.inequivalence(found.declared, wanted, vhost.name)
        if text is not None:
            raise EntrepotError(Code.PRECONDITION_FAILED, text)
    frontend.used(found)
    return is_new


def check_not_locked(queue: Queue, vhost: Vhost) -> None:
    """Raise PRECONDITION_FAILED for a queue that is a connection's own."""
    if queue.connection:
        raise EntrepotError(Code.PRECONDITION_FAILED, queue_declaration.locked(queue.name, vhost.name))


async def bind(frontend: AmqpFrontend, vhost: Vhost, binding: Binding) -> None:
    """Raises TOPIC_NOT_FOUND where an end is missing, FORBIDDEN, PRECONDITION_FAILED."""
    exchanges.check_not_default(binding.source)
    found = frontend.exchange(vhost, binding.source)
    if found is None:
        raise exchanges.not_found(binding.source, vhost.name)
    if vhost.routing.exchange(binding.source) is None:  # a Topic, which is declared by being bound
        found = await frontend.definitions.declare_exchange(vhost, found, frontend.gateway)
    if not frontend.definitions.destination_exists(vhost, binding):
        kind = binding.destination_kind.value
        raise EntrepotError(Code.TOPIC_NOT_FOUND, f"no {kind} '{binding.destination}' in vhost '{vhost.name}'")
    check_binding(binding, found.routing_type)
    await frontend.definitions.bind(vhost, binding)


async def put_policy(frontend: AmqpFrontend, vhost: Vhost, policy: Policy) -> bool:
    """Whether it is new.  Queues that are to hold less than they do are cut before this returns."""
    is_new = all(each.name != policy.name for each in vhost.policies(of_operators=policy.is_operators))
    await frontend.definitions.put_policy(vhost, policy)
    for queue in tuple(vhost.limited.values()):
        if policy in (queue.policy, queue.operator_policy):
            try:
                await frontend.overflow.cut(queue)
            except EntrepotError as error:
                log.warning("a queue is longer than its policy says", queue=queue.name, problem=error.message)
    return is_new
