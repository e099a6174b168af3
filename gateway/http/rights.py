"""Rights of routes: declarations, and the guard that checks them before a handler runs.

Invariant: a route without declared rights makes the start fail (`routes.RouteTable`).  A refusal is the same whether or
not the named entity exists.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from fastapi import Request

from entrepot.domain.access.model import EVERYTHING, Action, ResourceType, access_name, whole_topic
from entrepot.domain.access.model import Request as Need
from entrepot.gateway.http.access import HttpAccess
from entrepot.gateway.http.context import HttpContext
from entrepot.gateway.http.namespaced import asked_group, asked_topic

DEFAULT_CLUSTER: Final = "default"
"""Name of the Cluster resource if the settings have none."""

Needs: TypeAlias = Callable[[HttpContext, Request], list[Need]]


@dataclass(frozen=True)
class Open:
    """Open to everybody if the security setting of that name allows it; None: always."""

    setting: str | None
    otherwise: Needs | None = None


class SuperUsers:
    """For super users only."""


Rule: TypeAlias = Needs | Open | SuperUsers


def contents(parameter: str = "name") -> Needs:
    """Reading all messages of the path's topic."""

    def needs(context: HttpContext, request: Request) -> list[Need]:
        stored = asked_topic(request, request.path_params[parameter])
        return [Need(Action.SUB, ResourceType.TOPIC, whole_topic(stored))]

    return needs


def group(action: Action, parameter: str = "name") -> Needs:
    """A right on the path's consumer group."""

    def needs(context: HttpContext, request: Request) -> list[Need]:
        stored = asked_group(request, request.path_params[parameter])
        return [Need(action, ResourceType.GROUP, access_name(stored))]

    return needs


def consuming(of_topic: str, of_group: str) -> Needs:
    """Consuming a topic as a member of a group, by the path's parameters."""
    first, second = contents(of_topic), group(Action.SUB, of_group)
    return lambda context, request: [*first(context, request), *second(context, request)]


def listed(resource_type: ResourceType) -> Needs:
    """Listing all entities of a kind."""
    return fixed((Action.LIST, resource_type))


def fixed(*wanted: tuple[Action, ResourceType]) -> Needs:
    """Rights on everything of some kinds."""
    return lambda context, request: [Need(action, kind, EVERYTHING) for action, kind in wanted]


def cluster(action: Action) -> Needs:
    """A right on the cluster."""

    def needs(context: HttpContext, request: Request) -> list[Need]:
        return [Need(action, ResourceType.CLUSTER, context.settings.cluster.name or DEFAULT_CLUSTER)]

    return needs


def no_rights(context: HttpContext, request: Request) -> list[Need]:
    """No right, only a principal."""
    return []


IN_THE_BODY: Final = no_rights
"""Rights that the handler checks, because the body names the subject."""
PER_TOPIC: Final = no_rights
"""Rights that the handler checks for each listed entity."""
SUPER_USERS: Final = SuperUsers()


async def check_rights(context: HttpContext, access: HttpAccess, request: Request, rule: Rule) -> None:
    """Raise UNAUTHORIZED or FORBIDDEN; else set `request.state.principal`."""
    if isinstance(rule, Open):
        if rule.setting is None or getattr(context.settings.security, rule.setting):
            return
        assert rule.otherwise is not None
        rule = rule.otherwise
    principal = await access.principal(request.scope)
    request.state.principal = principal
    if isinstance(rule, SuperUsers):
        access.check_administration(principal)
        return
    for need in rule(context, request):
        access.check(principal, need.action, need.resource_type, need.name)
