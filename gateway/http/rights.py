"""Rights that routes need, as words for their declarations, and the guard that asks for them before a handler runs.

Invariant: a route that declares none makes the start fail (`routes.RouteTable`), so nothing is served that nobody
thought about.  Who lacks rights hears the same whether or not there is what the path names.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from fastapi import Request

from entrepot.domain.access.model import EVERYTHING, Action, ResourceType, access_name, whole_topic
from entrepot.domain.access.model import Request as Need
from entrepot.domain.errors import Code, EntrepotError
from entrepot.gateway.http.access import PROTOCOL, HttpAccess
from entrepot.gateway.http.asgi import name_in_path
from entrepot.gateway.http.context import HttpContext
from entrepot.gateway.http.namespaced import asked_group, asked_topic
from entrepot.gateway.security.security import refusal_of

DEFAULT_CLUSTER: Final = "default"
"""Name of the Cluster resource where the settings name none."""

Needs: TypeAlias = Callable[[HttpContext, Request], list[Need]]


@dataclass(frozen=True)
class Open:
    """Everybody may, where the security setting of that name says so; None: always."""

    setting: str | None
    otherwise: Needs | None = None


class SuperUsers:
    """Super users only."""


@dataclass(frozen=True)
class Veiled:
    """Needs that depend on what there is: the refusal is another sentence, which does not."""

    needs: Needs
    refusal: Callable[[Request], str]


Rule: TypeAlias = Needs | Open | SuperUsers | Veiled


def topic(action: Action, parameter: str = "name") -> Needs:
    """A right on the topic that the path names."""

    def needs(context: HttpContext, request: Request) -> list[Need]:
        stored = asked_topic(request, request.path_params[parameter])
        return [Need(action, ResourceType.TOPIC, access_name(stored))]

    return needs


def contents(parameter: str = "name") -> Needs:
    """Reading all that is in the topic that the path names."""

    def needs(context: HttpContext, request: Request) -> list[Need]:
        stored = asked_topic(request, request.path_params[parameter])
        return [Need(Action.SUB, ResourceType.TOPIC, whole_topic(stored))]

    return needs


def group(action: Action, parameter: str = "name") -> Needs:
    """A right on the consumer group that the path names."""

    def needs(context: HttpContext, request: Request) -> list[Need]:
        stored = asked_group(request, request.path_params[parameter])
        return [Need(action, ResourceType.GROUP, access_name(stored))]

    return needs


def consuming(of_topic: str, of_group: str) -> Needs:
    """Consuming a topic as a member of a group, by the path's parameters."""
    first, second = contents(of_topic), group(Action.SUB, of_group)
    return lambda context, request: [*first(context, request), *second(context, request)]


def listed(resource_type: ResourceType) -> Needs:
    """Listing all of a kind."""
    return fixed((Action.LIST, resource_type))


def fixed(*wanted: tuple[Action, ResourceType]) -> Needs:
    """Rights on everything of some kinds."""
    return lambda context, request: [Need(action, kind, EVERYTHING) for action, kind in wanted]


def cluster(action: Action) -> Needs:
    """A right on the cluster."""

    def needs(context: HttpContext, request: Request) -> list[Need]:
        return [Need(action, ResourceType.CLUSTER, context.settings.cluster.name or DEFAULT_CLUSTER)]

    return needs


def topic_in_query(action: Action, *, contents: bool) -> Needs:
    """The topic that the query names; all of them if it names none."""

    def needs(context: HttpContext, request: Request) -> list[Need]:
        # the route takes the last of several, as the framework does
        plain = request.query_params.getlist("topic")
        if not plain or not plain[-1]:
            return [Need(action, ResourceType.TOPIC, EVERYTHING)]
        stored = asked_topic(request, plain[-1])
        return [Need(action, ResourceType.TOPIC, whole_topic(stored) if contents else access_name(stored))]

    return needs


def no_rights(context: HttpContext, request: Request) -> list[Need]:
    """A principal, and no right."""
    return []


IN_THE_BODY: Final = no_rights
"""The handler asks: what it is about stands in the body."""
PER_TOPIC: Final = no_rights
"""The handler leaves out what may not be seen."""
ANY_CONTENTS: Final = fixed((Action.SUB, ResourceType.TOPIC))
"""Reading every topic: what the path names tells none."""
SUPER_USERS: Final = SuperUsers()


def putting(kind: str, needs: Needs) -> Veiled:
    """Creating what the path names, or changing it: the refusal does not tell which."""
    return Veiled(needs, lambda request: f"to create or change the {kind} {shown(request, 'name')} is not allowed")


def shown(request: Request, parameter: str) -> str:
    """A path parameter in a sentence."""
    return repr(name_in_path(request.path_params[parameter])[:80])


async def check_rights(context: HttpContext, access: HttpAccess, request: Request, rule: Rule) -> None:
    """Raise UNAUTHORIZED or FORBIDDEN; else `request.state.principal` is who asks."""
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
    needs = rule.needs if isinstance(rule, Veiled) else rule
    for need in needs(context, request):
        if not access.security.allows(principal, need.action, need.resource_type, need.name, PROTOCOL):
            if isinstance(rule, Veiled):
                raise EntrepotError(Code.FORBIDDEN, rule.refusal(request))
            raise refusal_of(need.action, need.resource_type, need.name)
