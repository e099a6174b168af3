"""What each route needs: one table, and the guard that asks for it before a handler runs.

Invariant: a route that stands in no row makes the start fail, so nothing is served that nobody thought about.  The hot
publish route, which is no FastAPI route, asks by itself.  A row counts for the plain path and for the one below
`/namespaces/{namespace}`.

Who lacks rights hears the same whether or not there is what the path names.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final

from fastapi import FastAPI, Request
from fastapi.routing import APIRoute, iter_route_contexts

from domain.access.model import EVERYTHING, Action, ResourceType, access_name, whole_topic
from domain.access.model import Request as Need
from domain.errors import Code, EntrepotError
from domain.recall_handle import RecallHandle
from gateway.http.access import PROTOCOL, HttpAccess
from gateway.http.admin.common import PREFIX
from gateway.http.asgi import name_in_path
from gateway.http.context import HttpContext
from gateway.http.namespaced import NAMESPACE_PATH, asked_group, asked_namespace, asked_topic
from gateway.http.rabbitmq.rights import FOR_SUPER_USERS, rabbitmq_rules
from gateway.http.receive import SUBSCRIPTION_PATH
from gateway.security.security import refusal_of

DEFAULT_CLUSTER: Final = "default"
"""Name of the Cluster resource where the settings name none."""

Needs = Callable[[HttpContext, Request], list[Need]]


class Open:
    """Everybody may: which setting says so; None: always."""

    def __init__(self, setting: str | None, otherwise: Needs | None = None) -> None:
        self.setting = setting
        self.otherwise = otherwise


class SuperUsers:
    """Super users only."""


@dataclass(frozen=True)
class Veiled:
    """Needs that depend on what there is: the refusal is another sentence, which does not."""

    needs: Needs
    refusal: Callable[[Request], str]


Rule = Needs | Open | SuperUsers | Veiled


def _topic(action: Action, parameter: str = "name") -> Needs:
    def needs(context: HttpContext, request: Request) -> list[Need]:
        stored = asked_topic(request, request.path_params[parameter])
        return [Need(action, ResourceType.TOPIC, access_name(stored))]

    return needs


def _contents(parameter: str = "name") -> Needs:
    """Reading all that is in a topic."""

    def needs(context: HttpContext, request: Request) -> list[Need]:
        stored = asked_topic(request, request.path_params[parameter])
        return [Need(Action.SUB, ResourceType.TOPIC, whole_topic(stored))]

    return needs


def _group(action: Action, parameter: str = "name") -> Needs:
    def needs(context: HttpContext, request: Request) -> list[Need]:
        stored = asked_group(request, request.path_params[parameter])
        return [Need(action, ResourceType.GROUP, access_name(stored))]

    return needs


def _consuming(topic: str, group: str) -> Needs:
    """Consuming a topic as a member of a group."""
    of_topic, of_group = _contents(topic), _group(Action.SUB, group)
    return lambda context, request: [*of_topic(context, request), *of_group(context, request)]


def _fixed(action: Action, resource_type: ResourceType, name: str = EVERYTHING) -> Needs:
    return lambda context, request: [Need(action, resource_type, name)]


def _cluster(action: Action) -> Needs:
    def needs(context: HttpContext, request: Request) -> list[Need]:
        return [Need(action, ResourceType.CLUSTER, context.settings.cluster.name or DEFAULT_CLUSTER)]

    return needs


def _namespace(action: Action) -> Needs:
    def needs(context: HttpContext, request: Request) -> list[Need]:
        return [Need(action, ResourceType.NAMESPACE, name_in_path(request.path_params["name"]))]

    return needs


def _putting(kind: str) -> Callable[[Request], str]:
    return lambda request: f"to create or change the {kind} {_shown(request, 'name')} is not allowed"


def _shown(request: Request, parameter: str) -> str:
    return repr(name_in_path(request.path_params[parameter])[:80])


def _put_topic(context: HttpContext, request: Request) -> list[Need]:
    stored = asked_topic(request, request.path_params["name"])
    action = Action.CREATE if context.store.topology.topic(stored) is None else Action.UPDATE
    return [Need(action, ResourceType.TOPIC, access_name(stored))]


def _put_topics(context: HttpContext, request: Request) -> list[Need]:
    """Their names are in the body: the right to make and change any."""
    return [Need(action, ResourceType.TOPIC, EVERYTHING) for action in (Action.CREATE, Action.UPDATE)]


def _put_group(context: HttpContext, request: Request) -> list[Need]:
    stored = asked_group(request, request.path_params["name"])
    action = Action.CREATE if context.store.topology.group(stored) is None else Action.UPDATE
    return [Need(action, ResourceType.GROUP, access_name(stored))]


def _query_topic(action: Action, *, contents: bool) -> Needs:
    """The topic that the query names; all of them if it names none."""

    def needs(context: HttpContext, request: Request) -> list[Need]:
        # the route takes the last of several, as the framework does
        plain = request.query_params.getlist("topic")
        if not plain or not plain[-1]:
            return [Need(action, ResourceType.TOPIC, EVERYTHING)]
        stored = asked_topic(request, plain[-1])
        return [Need(action, ResourceType.TOPIC, whole_topic(stored) if contents else access_name(stored))]

    return needs


def _retained(action: Action) -> Needs:
    """Reading what is retained under a name is subscribing to it, taking it away is publishing."""

    def needs(context: HttpContext, request: Request) -> list[Need]:
        return [Need(action, ResourceType.TOPIC, name_in_path(request.path_params["name"]))]

    return needs


def _retained_matching(action: Action) -> Needs:
    def needs(context: HttpContext, request: Request) -> list[Need]:
        given = request.query_params.getlist("filter")
        return [Need(action, ResourceType.TOPIC, given[-1] if given else EVERYTHING)]

    return needs


def _timer(context: HttpContext, request: Request) -> list[Need]:
    """Taking back or moving what was published is for who may publish."""
    handle = RecallHandle.decode(name_in_path(request.path_params["handle"]))
    return [Need(Action.PUB, ResourceType.TOPIC, whole_topic(handle.topic))]


def _in_the_body(context: HttpContext, request: Request) -> list[Need]:
    """The handler asks: which topic it is about stands in the body."""
    return []


def _subscription(context: HttpContext, request: Request) -> list[Need]:
    """Of a subscription that is there: consuming its topic.  Of another: all topics, so that nobody learns of them."""
    known = context.subscriptions.get(asked_namespace(request), name_in_path(request.path_params["id"]))
    name = EVERYTHING if known is None else whole_topic(known.topic)
    return [Need(Action.SUB, ResourceType.TOPIC, name)]


_MEMBER_PATH: Final = f"{PREFIX}/groups/{{name}}/topics/{{topic}}"
_CONSUMING: Final = _consuming("topic", "group")
_MEMBER: Final = _consuming("topic", "name")
_ANY_CONTENTS: Final = _fixed(Action.SUB, ResourceType.TOPIC)
_SUPER: Final = SuperUsers()
_SUBSCRIPTION: Final = Veiled(
    _subscription, lambda request: f"to consume the topic of subscription {_shown(request, 'id')} is not allowed"
)

RULES: Final[Mapping[tuple[str, str], Rule]] = {
    **{("POST", f"{SUBSCRIPTION_PATH}:{verb}"): _CONSUMING for verb in ("receive", "acknowledge", "release", "reject")},
    ("POST", f"{SUBSCRIPTION_PATH}:renewLock"): _CONSUMING,
    ("GET", "/topics/{topic}/events"): _contents("topic"),
    ("POST", "/subscriptions"): _in_the_body,
    ("GET", "/asyncapi.json"): _in_the_body,  # topics that may be seen
    ("GET", "/subscriptions"): _in_the_body,  # those that may be seen
    ("GET", "/subscriptions/{id}"): _SUBSCRIPTION,
    ("PUT", "/subscriptions/{id}"): _SUBSCRIPTION,
    ("DELETE", "/subscriptions/{id}"): _SUBSCRIPTION,
    ("GET", "/webhooks/consent/{namespace}/{id}/{token}"): Open(None),  # the token is the right
    ("POST", "/webhooks/consent/{namespace}/{id}/{token}"): Open(None),
    ("GET", "/healthz"): Open("open_health", _cluster(Action.GET)),
    ("GET", "/readyz"): Open("open_health", _cluster(Action.GET)),
    ("GET", "/metrics"): Open("open_metrics", _cluster(Action.GET)),
    ("GET", f"{PREFIX}/topics"): _fixed(Action.LIST, ResourceType.TOPIC),
    ("PUT", f"{PREFIX}/topics"): _put_topics,
    ("GET", f"{PREFIX}/topics/{{name}}"): _topic(Action.GET),
    ("PUT", f"{PREFIX}/topics/{{name}}"): Veiled(_put_topic, _putting("topic")),
    ("DELETE", f"{PREFIX}/topics/{{name}}"): _topic(Action.DELETE),
    ("GET", f"{PREFIX}/tiering"): _fixed(Action.LIST, ResourceType.TOPIC),
    ("POST", f"{PREFIX}/topics/{{name}}:restore"): _cluster(Action.UPDATE),  # it takes a table from another broker
    ("POST", f"{PREFIX}/tiering:attach"): _cluster(Action.UPDATE),  # it has the broker read what it is told to
    ("GET", f"{PREFIX}/topics/{{name}}/event-rules"): _topic(Action.GET),
    ("PUT", f"{PREFIX}/topics/{{name}}/event-rules"): _topic(Action.UPDATE),
    ("DELETE", f"{PREFIX}/topics/{{name}}/event-rules"): _topic(Action.UPDATE),
    ("GET", f"{PREFIX}/topics/{{name}}/queues/{{queue}}/messages"): _contents(),
    ("GET", f"{PREFIX}/groups"): _fixed(Action.LIST, ResourceType.GROUP),
    ("GET", f"{PREFIX}/groups/{{name}}"): _group(Action.GET),
    ("PUT", f"{PREFIX}/groups/{{name}}"): Veiled(_put_group, _putting("group")),
    ("DELETE", f"{PREFIX}/groups/{{name}}"): _group(Action.DELETE),
    ("POST", f"{PREFIX}/groups/{{name}}:reset"): _group(Action.UPDATE),
    ("GET", f"{PREFIX}/groups/{{name}}/dead-letters"): _group(Action.SUB),
    ("GET", f"{PREFIX}/groups/{{name}}/dead-letters:export"): _group(Action.SUB),
    ("POST", f"{PREFIX}/groups/{{name}}/dead-letters:resend"): _group(Action.UPDATE),
    ("GET", f"{_MEMBER_PATH}/members"): _MEMBER,
    ("POST", f"{_MEMBER_PATH}/members/{{member}}"): _MEMBER,
    ("DELETE", f"{_MEMBER_PATH}/members/{{member}}"): _MEMBER,
    ("POST", f"{_MEMBER_PATH}/offsets"): _MEMBER,
    ("GET", f"{PREFIX}/messages"): _query_topic(Action.SUB, contents=True),
    ("GET", f"{PREFIX}/messages/{{id}}"): _ANY_CONTENTS,  # an id tells no topic
    ("GET", f"{PREFIX}/messages/{{id}}/consumers"): _ANY_CONTENTS,
    ("GET", f"{PREFIX}/messages/{{id}}/trace"): _ANY_CONTENTS,
    ("GET", f"{PREFIX}/timers"): _query_topic(Action.SUB, contents=True),
    ("DELETE", f"{PREFIX}/timers/{{handle}}"): _timer,
    ("PUT", f"{PREFIX}/timers/{{handle}}"): _timer,
    ("GET", f"{PREFIX}/retained"): _retained_matching(Action.SUB),
    ("GET", f"{PREFIX}/retained/{{name}}"): _retained(Action.SUB),
    ("DELETE", f"{PREFIX}/retained"): _retained_matching(Action.PUB),
    ("DELETE", f"{PREFIX}/retained/{{name}}"): _retained(Action.PUB),
    ("GET", f"{PREFIX}/clients"): _cluster(Action.LIST),
    ("GET", f"{PREFIX}/clients/{{id}}"): _cluster(Action.GET),
    ("DELETE", f"{PREFIX}/clients/{{id}}"): _cluster(Action.UPDATE),
    ("GET", f"{PREFIX}/subscriptions"): _cluster(Action.LIST),
    ("GET", f"{PREFIX}/slow-subscribers"): _cluster(Action.LIST),
    ("GET", f"{PREFIX}/sessions"): _cluster(Action.LIST),
    ("GET", f"{PREFIX}/sessions/{{id}}"): _cluster(Action.GET),
    ("DELETE", f"{PREFIX}/sessions/{{id}}"): _cluster(Action.UPDATE),
    ("PUT", f"{PREFIX}/traces/{{client}}"): _SUPER,  # it shows what anybody publishes
    ("GET", f"{PREFIX}/traces/{{client}}"): _SUPER,
    ("DELETE", f"{PREFIX}/traces/{{client}}"): _SUPER,
    ("GET", f"{PREFIX}/namespaces"): _fixed(Action.LIST, ResourceType.NAMESPACE),
    ("GET", f"{PREFIX}/namespaces/{{name}}"): _namespace(Action.GET),
    ("PUT", f"{PREFIX}/namespaces/{{name}}"): _namespace(Action.CREATE),
    ("DELETE", f"{PREFIX}/namespaces/{{name}}"): _namespace(Action.DELETE),
    ("GET", f"{PREFIX}/brokers"): _cluster(Action.LIST),
    ("PUT", f"{PREFIX}/brokers/{{name}}"): _cluster(Action.UPDATE),
    ("POST", f"{PREFIX}/brokers/{{name}}:elect"): _cluster(Action.UPDATE),
    ("DELETE", f"{PREFIX}/brokers/{{name}}"): _cluster(Action.DELETE),
    ("PUT", f"{PREFIX}/brokers/{{name}}/replicas/{{replica}}"): _cluster(Action.UPDATE),
    ("DELETE", f"{PREFIX}/brokers/{{name}}/replicas/{{replica}}"): _cluster(Action.DELETE),
    ("GET", f"{PREFIX}/controllers"): _cluster(Action.LIST),
    ("POST", f"{PREFIX}/controllers"): _cluster(Action.UPDATE),
    ("DELETE", f"{PREFIX}/controllers/{{controller}}"): _cluster(Action.DELETE),
    ("GET", f"{PREFIX}/bridges"): _cluster(Action.LIST),
    ("GET", f"{PREFIX}/users"): _SUPER,
    ("GET", f"{PREFIX}/users/{{name}}"): _SUPER,
    ("PUT", f"{PREFIX}/users/{{name}}"): _SUPER,
    ("DELETE", f"{PREFIX}/users/{{name}}"): _SUPER,
    ("GET", f"{PREFIX}/acls"): _SUPER,
    ("GET", f"{PREFIX}/acls:explain"): _SUPER,
    ("GET", f"{PREFIX}/acls/{{subject}}"): _SUPER,
    ("PUT", f"{PREFIX}/acls/{{subject}}"): _SUPER,
    ("DELETE", f"{PREFIX}/acls/{{subject}}"): _SUPER,
    ("GET", f"{PREFIX}/audit"): _SUPER,
    **rabbitmq_rules(_cluster),
    **dict.fromkeys(FOR_SUPER_USERS, _SUPER),
}
"""The rule of each route, by method and plain path."""

DOCUMENTATION: Final = frozenset({"/openapi.json", "/docs", "/docs/page.js", "/docs/page.css"})
"""Paths that tell what the routes are, which is public."""


class MissingRuleError(Exception):
    """A route that says nothing of the rights it needs."""


def guard_of(context: HttpContext, access: HttpAccess) -> Callable[[Request], Awaitable[None]]:
    """The dependency of every route: raises UNAUTHORIZED or FORBIDDEN.  `request.state.principal` is who asks."""

    async def guard(request: Request) -> None:
        await check_rights(context, access, request, request.scope["route"].path)

    return guard


async def check_rights(context: HttpContext, access: HttpAccess, request: Request, path: str) -> None:
    """The same for a request of the route of a path."""
    rule = rule_of(request.method, path)
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


def rule_of(method: str, path: str) -> Rule:
    """The rule of a route.  Raises MissingRuleError."""
    rule = RULES.get((method, path.replace(NAMESPACE_PATH, "")))
    if rule is None:
        raise MissingRuleError(f"{method} {path} says nothing of the rights it needs")
    return rule


def check_rules(app: FastAPI) -> None:
    """Raise MissingRuleError for a route without a rule."""
    for method, path in routes_of(app):
        if path not in DOCUMENTATION:
            rule_of(method, path)


def routes_of(app: FastAPI) -> list[tuple[str, str]]:
    """Method and path of every route.  What is not FastAPI's own, such as a mount, has no method."""
    found: list[tuple[str, str]] = []
    for context in iter_route_contexts(app.routes):
        route = context.original_route
        methods = sorted(route.methods or ()) if isinstance(route, APIRoute) else [""]
        found += [(method, context.path or repr(route)) for method in methods]
    return found
