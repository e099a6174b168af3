"""Namespaces: list, show, create, delete."""

from __future__ import annotations

from typing import Any

from fastapi import Request, Response

from entrepot.domain.access.model import Action, ResourceType
from entrepot.domain.access.model import Request as Need
from entrepot.domain.names import split_name
from entrepot.domain.ports import Store
from entrepot.gateway.http.admin.common import CREATED, NO_CONTENT, OK, PREFIX, Body
from entrepot.gateway.http.asgi import name_in_path
from entrepot.gateway.http.bodies import body_of, json_answer
from entrepot.gateway.http.context import HttpContext
from entrepot.gateway.http.namespaced import known_namespace
from entrepot.gateway.http.rights import Needs, listed
from entrepot.gateway.http.routes import Router, Routes


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
    async def list_namespaces() -> Response:
        return json_answer({"value": [_shape(store, name) for name in store.topology.namespaces()]})

    @router.get("/namespaces/{name}", _of(Action.GET), summary="Get a namespace")
    async def get_namespace(name: str) -> Response:
        return json_answer(_shape(store, known_namespace(store, name_in_path(name))))

    @router.put("/namespaces/{name}", _of(Action.CREATE), summary="Create a namespace")
    async def put_namespace(request: Request, name: str) -> Response:
        name = name_in_path(name)
        await body_of(request, context, NamespaceChange)
        is_new = name not in store.topology.namespaces()
        await store.topology.put_namespace(name)
        return json_answer(_shape(store, name), CREATED if is_new else OK)

    @router.delete(
        "/namespaces/{name}", _of(Action.DELETE), summary="Delete an empty namespace", status_code=NO_CONTENT
    )
    async def delete_namespace(name: str) -> Response:
        await store.topology.delete_namespace(known_namespace(store, name_in_path(name)))
        return Response(status_code=NO_CONTENT)


def _shape(store: Store, name: str) -> dict[str, Any]:
    return {
        "name": name,
        "topics": sum(split_name(topic.name)[0] == name for topic in store.topology.topics()),
        "groups": sum(split_name(group.name)[0] == name for group in store.topology.groups()),
    }
