"""Rights of RabbitMQ's routes: the same as AMQP requires (`amqp/connections/access.py`).

Rights that depend on the body are checked in the route by `check`: routing keys, dead-letter and alternate exchanges.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from fastapi import Request

from entrepot.domain.access.model import Action, ResourceType
from entrepot.domain.access.model import Request as Need
from entrepot.gateway.amqp.virtual_hosts.needs import entity_name
from entrepot.gateway.amqp.virtual_hosts.vhost import namespace_of
from entrepot.gateway.http.access import PROTOCOL as HTTP
from entrepot.gateway.http.asgi import name_in_path
from entrepot.gateway.http.context import HttpContext
from entrepot.gateway.http.rights import Needs, fixed, listed


def resource_name(vhost: str, name: str) -> str:
    """The name of an exchange or queue in access checks."""
    return entity_name(namespace_of(vhost), name)


def check(context: HttpContext, request: Request, needs: Iterable[Need]) -> None:
    """Check rights that depend on the body.  Raises FORBIDDEN."""
    for need in needs:
        context.security.check(request.state.principal, need.action, need.resource_type, need.name, HTTP)


def named(*wanted: tuple[Action, ResourceType], parameter: str = "name") -> Needs:
    """Rights on the path's entity."""

    def needs(context: HttpContext, request: Request) -> list[Need]:
        values = request.path_params
        name = resource_name(name_in_path(values["vhost"]), name_in_path(values[parameter]))
        return [Need(action, kind, name) for action, kind in wanted]

    return needs


LIST: Final = listed(ResourceType.TOPIC)
GET: Final = named((Action.GET, ResourceType.TOPIC))
DECLARE: Final = named((Action.CREATE, ResourceType.TOPIC))
DELETE: Final = named((Action.DELETE, ResourceType.TOPIC))
CONSUME: Final = named((Action.SUB, ResourceType.GROUP))
GOVERN: Final = fixed((Action.UPDATE, ResourceType.TOPIC))
"""Changing a policy may affect any queue, so it needs UPDATE on all topics."""
