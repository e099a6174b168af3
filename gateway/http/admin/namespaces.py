"""Namespaces: list, show, create, delete."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, Final

from fastapi import Query, Request, Response

from entrepot.domain.access.model import Action, ResourceType
from entrepot.domain.access.model import Request as Need
from entrepot.domain.names import DEFAULT_NAMESPACE, split_name
from entrepot.gateway.http.admin.common import CREATED, NO_CONTENT, OK, PREFIX, Body
from entrepot.gateway.http.asgi import name_in_path
from entrepot.gateway.http.bodies import body_of, json_answer
from entrepot.gateway.http.context import HttpContext
from entrepot.gateway.http.namespaced import known_namespace
from entrepot.gateway.http.rights import Needs, listed
from entrepot.gateway.http.routes import Router, Routes

MAX_LIMIT: Final = 10_000
MAX_TEXT: Final = 1024


class NamespaceChange(Body):
    """Change of a namespace: empty so far."""


def _of(action: Action) -> Needs:
    def needs(context: HttpContext, request: Request) -> list[Need]:
        return [Need(action, ResourceType.NAMESPACE, name_in_path(request.path_params["name"]))]

    return needs


def namespace_routes(context: HttpContext) -> Routes:
    """The routes of namespaces, themselves in no namespace."""
    routes = Routes(["namespaces"], PREFIX)
    _add(routes.plain, context)
    return routes


def _add(router: Router, context: HttpContext) -> None:
    store = context.store

    @router.get("/namespaces", listed(ResourceType.NAMESPACE), summary="List all namespaces, `default` first")
    async def list_namespaces(
        after: str = Query("", max_length=MAX_TEXT, description="Namespace after which the list begins"),
        find: str = Query("", max_length=MAX_TEXT, description="Part of the name, in any case"),
        limit: int = Query(MAX_LIMIT, ge=1, le=MAX_LIMIT),
    ) -> Response:
        part, behind = find.casefold(), _place(after) if after else None
        found = [
            name
            for name in sorted(store.topology.namespaces(), key=_place)
            if part in name.casefold() and (behind is None or _place(name) > behind)
        ]
        shape = _shapes(context)
        following = found[limit - 1] if len(found) > limit else None
        return json_answer({"value": [shape(name) for name in found[:limit]], "next": following})

    @router.get("/namespaces/{name}", _of(Action.GET), summary="Get a namespace")
    async def get_namespace(name: str) -> Response:
        return json_answer(_shapes(context)(known_namespace(store, name_in_path(name))))

    @router.put("/namespaces/{name}", _of(Action.CREATE), summary="Create a namespace")
    async def put_namespace(request: Request, name: str) -> Response:
        name = name_in_path(name)
        await body_of(request, context, NamespaceChange)
        is_new = name not in store.topology.namespaces()
        await store.topology.put_namespace(name)
        return json_answer(_shapes(context)(name), CREATED if is_new else OK)

    @router.delete(
        "/namespaces/{name}", _of(Action.DELETE), summary="Delete an empty namespace", status_code=NO_CONTENT
    )
    async def delete_namespace(name: str) -> Response:
        await store.topology.delete_namespace(known_namespace(store, name_in_path(name)))
        return Response(status_code=NO_CONTENT)


def _place(name: str) -> tuple[bool, str]:
    """Sort key: the default namespace first."""
    return name != DEFAULT_NAMESPACE, name


def _shapes(context: HttpContext) -> Callable[[str], dict[str, Any]]:
    """A function that returns a namespace as JSON; all topics and groups are counted once for it."""
    topology, amqp = context.store.topology, context.amqp
    topics = Counter(split_name(topic.name)[0] for topic in topology.topics())
    groups = Counter(split_name(group.name)[0] for group in topology.groups())

    def shape(name: str) -> dict[str, Any]:
        vhost = None if amqp is None else amqp.virtual_hosts.definitions.vhost_in(name)
        return {
            "name": name,
            "topics": topics[name],
            "groups": groups[name],
            "vhost": None if vhost is None else vhost.name,
            "queues": None if vhost is None else len(vhost.queues),
            "exchanges": None if vhost is None else sum(1 for _ in vhost.routing.exchanges()),
            "queuePolicies": None if vhost is None else len(vhost.policies()),
        }

    return shape
