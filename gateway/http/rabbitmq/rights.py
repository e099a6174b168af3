"""What each route of RabbitMQ's API needs: the rights that the AMQP door asks for the same
(`amqp/connections/access.py`), LIST and GET for looking, and of the Cluster for what is about connections.

What only the body tells, the route itself asks for by `check`: routing keys of what is published and bound, and where
dead letters and unrouted messages are to go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from fastapi import Request

from domain.access.model import EVERYTHING, Action, ResourceType
from domain.access.model import Request as Need
from gateway.amqp.virtual_hosts.needs import entity_name
from gateway.amqp.virtual_hosts.vhost import namespace_of
from gateway.http.access import PROTOCOL as HTTP
from gateway.http.asgi import name_in_path
from gateway.http.context import HttpContext
from gateway.http.rabbitmq.door import PREFIX

Needs = Callable[[HttpContext, Request], list[Need]]
_TOPIC, _GROUP, _NAMESPACE = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.NAMESPACE


def resource_name(vhost: str, name: str) -> str:
    """The name, in requests, of an exchange or queue of a virtual host."""
    return entity_name(namespace_of(vhost), name)


def check(context: HttpContext, request: Request, needs: Iterable[Need]) -> None:
    """Ask for rights that only the body tells.  Raises FORBIDDEN."""
    for need in needs:
        context.security.check(request.state.principal, need.action, need.resource_type, need.name, HTTP)


def _named(*wanted: tuple[Action, ResourceType], parameter: str = "name") -> Needs:
    """Rights on what the path names."""

    def needs(context: HttpContext, request: Request) -> list[Need]:
        values = request.path_params
        name = resource_name(name_in_path(values["vhost"]), name_in_path(values[parameter]))
        return [Need(action, kind, name) for action, kind in wanted]

    return needs


def _fixed(*wanted: tuple[Action, ResourceType]) -> Needs:
    return lambda context, request: [Need(action, kind, EVERYTHING) for action, kind in wanted]


def _aliveness(context: HttpContext, request: Request) -> list[Need]:
    name = resource_name(name_in_path(request.path_params["vhost"]), "aliveness-test")
    return [Need(Action.CREATE, _TOPIC, name), Need(Action.PUB, _TOPIC, name), Need(Action.SUB, _GROUP, name)]


def _vhost(action: Action) -> Needs:
    def needs(context: HttpContext, request: Request) -> list[Need]:
        return [Need(action, _NAMESPACE, namespace_of(name_in_path(request.path_params["name"])))]

    return needs


def _nothing(context: HttpContext, request: Request) -> list[Need]:
    """Nothing is needed, or the handler asks for what the body names."""
    return []


_LIST: Final = _fixed((Action.LIST, _TOPIC))
_GET: Final = _named((Action.GET, _TOPIC))
_DECLARE: Final = _named((Action.CREATE, _TOPIC))
_DELETE: Final = _named((Action.DELETE, _TOPIC))
_CONSUME: Final = _named((Action.SUB, _GROUP))
_GOVERN: Final = _fixed((Action.UPDATE, _TOPIC))
"""A policy changes whatever its pattern matches."""
_BETWEEN: Final = f"{PREFIX}/bindings/{{vhost}}/e/{{source}}/{{kind}}/{{destination}}"


def rabbitmq_rules(cluster: Callable[[Action], Needs]) -> Mapping[tuple[str, str], Needs]:
    """The rule of each route but those for super users, by method and path.  `cluster`: a right on the Cluster."""
    looking, listing = cluster(Action.GET), cluster(Action.LIST)
    relative: dict[tuple[str, str], Needs] = {
        ("GET", "/overview"): looking,
        ("GET", "/whoami"): _nothing,
        ("GET", "/cluster-name"): looking,
        ("GET", "/extensions"): _nothing,
        ("GET", "/feature-flags"): looking,
        ("GET", "/nodes"): looking,
        ("GET", "/nodes/{name}"): looking,
        ("GET", "/health/checks/alarms"): looking,
        ("GET", "/health/checks/local-alarms"): looking,
        ("GET", "/healthchecks/node"): looking,
        ("GET", "/aliveness-test/{vhost}"): _aliveness,
        ("GET", "/vhosts"): _fixed((Action.LIST, _NAMESPACE)),
        ("GET", "/vhosts/{name}"): _vhost(Action.GET),
        ("PUT", "/vhosts/{name}"): _vhost(Action.CREATE),
        ("DELETE", "/vhosts/{name}"): _vhost(Action.DELETE),
        ("GET", "/vhosts/{name}/connections"): listing,
        ("GET", "/connections"): listing,
        ("GET", "/connections/{name}"): looking,
        ("GET", "/connections/{name}/channels"): looking,
        ("DELETE", "/connections/{name}"): cluster(Action.UPDATE),
        ("GET", "/channels"): listing,
        ("GET", "/channels/{name}"): looking,
        ("GET", "/consumers"): listing,
        ("GET", "/consumers/{vhost}"): listing,
        ("GET", "/exchanges"): _LIST,
        ("GET", "/exchanges/{vhost}"): _LIST,
        ("GET", "/exchanges/{vhost}/{name}"): _GET,
        ("PUT", "/exchanges/{vhost}/{name}"): _DECLARE,
        ("DELETE", "/exchanges/{vhost}/{name}"): _DELETE,
        ("GET", "/exchanges/{vhost}/{name}/bindings/source"): _GET,
        ("GET", "/exchanges/{vhost}/{name}/bindings/destination"): _GET,
        ("POST", "/exchanges/{vhost}/{name}/publish"): _nothing,
        ("GET", "/queues"): _LIST,
        ("GET", "/queues/{vhost}"): _LIST,
        ("GET", "/queues/{vhost}/{name}"): _GET,
        ("PUT", "/queues/{vhost}/{name}"): _DECLARE,
        ("DELETE", "/queues/{vhost}/{name}"): _DELETE,
        ("GET", "/queues/{vhost}/{name}/bindings"): _GET,
        ("DELETE", "/queues/{vhost}/{name}/contents"): _CONSUME,
        ("POST", "/queues/{vhost}/{name}/get"): _CONSUME,
        ("GET", "/bindings"): _LIST,
        ("GET", "/bindings/{vhost}"): _LIST,
        ("GET", "/parameters"): _LIST,
        ("GET", "/vhost-limits"): _LIST,
    }
    for path in ("/policies", "/operator-policies"):
        relative["GET", path] = relative["GET", f"{path}/{{vhost}}"] = _LIST
        relative["GET", f"{path}/{{vhost}}/{{name}}"] = _LIST
        relative["PUT", f"{path}/{{vhost}}/{{name}}"] = relative["DELETE", f"{path}/{{vhost}}/{{name}}"] = _GOVERN
    rules = {(method, PREFIX + path): needs for (method, path), needs in relative.items()}
    rules["GET", _BETWEEN] = _named((Action.GET, _TOPIC), parameter="source")
    rules["GET", f"{_BETWEEN}/{{props}}"] = rules["GET", _BETWEEN]
    rules["POST", _BETWEEN] = _named((Action.UPDATE, _TOPIC), parameter="destination")
    rules["DELETE", f"{_BETWEEN}/{{props}}"] = _named((Action.UPDATE, _TOPIC), parameter="destination")
    return rules


FOR_SUPER_USERS: Final = tuple(
    (method, PREFIX + path)
    for method, path in (
        ("GET", "/users"),
        ("GET", "/users/{name}"),
        ("PUT", "/users/{name}"),
        ("DELETE", "/users/{name}"),
        ("GET", "/users/{name}/permissions"),
        ("GET", "/vhosts/{name}/permissions"),
        ("GET", "/permissions"),
        ("GET", "/permissions/{vhost}/{user}"),
        ("PUT", "/permissions/{vhost}/{user}"),
        ("DELETE", "/permissions/{vhost}/{user}"),
        ("GET", "/topic-permissions"),
        ("GET", "/definitions"),
        ("GET", "/definitions/{vhost}"),
        ("POST", "/definitions"),
        ("POST", "/definitions/{vhost}"),
    )
)
