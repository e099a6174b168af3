"""Virtual hosts, which are namespaces: list, show, create, delete with all AMQP entities in them."""

from __future__ import annotations

from typing import Any

from fastapi import Request, Response

from entrepot.domain.access.model import Action, ResourceType
from entrepot.domain.access.model import Request as Need
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.names import DEFAULT_NAMESPACE, is_hidden_topic, split_name
from entrepot.gateway.amqp.virtual_hosts.vhost import Vhost, namespace_of
from entrepot.gateway.http.asgi import name_in_path
from entrepot.gateway.http.bodies import json_answer
from entrepot.gateway.http.context import HttpContext
from entrepot.gateway.http.rabbitmq.api import (
    created,
    frontend_of,
    new_router,
    nothing,
    vhost_in_path,
    virtual_hosts_of,
)
from entrepot.gateway.http.rabbitmq.listing import listing
from entrepot.gateway.http.rights import Needs, listed
from entrepot.gateway.http.routes import Router
from entrepot.protocols.amqp.reply_codes import ReplyCode


def _of(action: Action) -> Needs:
    def needs(context: HttpContext, request: Request) -> list[Need]:
        return [Need(action, ResourceType.NAMESPACE, namespace_of(name_in_path(request.path_params["name"])))]

    return needs


def vhost_routes(context: HttpContext) -> Router:
    router = new_router()

    @router.get("/vhosts", listed(ResourceType.NAMESPACE), summary="List all virtual hosts")
    async def list_vhosts(request: Request) -> Response:
        return await listing(request, [_shape(each) for each in virtual_hosts_of(context).definitions.vhosts()])

    @router.get("/vhosts/{name}", _of(Action.GET), summary="Get a virtual host")
    async def get_vhost(name: str) -> Response:
        return json_answer(_shape(vhost_in_path(context, name)))

    @router.put("/vhosts/{name}", _of(Action.CREATE), summary="Create a virtual host")
    async def put_vhost(name: str) -> Response:
        return created(await create_vhost(context, name_in_path(name)))

    @router.delete(
        "/vhosts/{name}",
        _of(Action.DELETE),
        summary="Delete a virtual host with its exchanges and queues",
        status_code=204,
    )
    async def delete_vhost(name: str) -> Response:
        await _delete(context, vhost_in_path(context, name))
        return nothing()

    return router


async def create_vhost(context: HttpContext, name: str) -> bool:
    """Create a virtual host; True if it is new.  Raises BAD_REQUEST for an invalid namespace name."""
    namespace = namespace_of(name)
    if namespace in context.store.topology.namespaces():
        return False
    await context.store.topology.put_namespace(namespace)
    return True


async def _delete(context: HttpContext, vhost: Vhost) -> None:
    if vhost.namespace == DEFAULT_NAMESPACE:
        raise EntrepotError(Code.PRECONDITION_FAILED, f"vhost '{vhost.name}' cannot be deleted")
    topics = [topic.name for topic in context.store.topology.topics() if split_name(topic.name)[0] == vhost.namespace]
    others = [name for name in topics if not is_hidden_topic(name)]
    if others:
        raise EntrepotError(
            Code.PRECONDITION_FAILED, f"vhost '{vhost.name}' has topics of other protocols: {', '.join(others[:5])}"
        )
    frontend = frontend_of(context)
    for conversation in tuple(frontend.conversations):
        if conversation.client.vhost is vhost:
            conversation.close_connection(ReplyCode.CONNECTION_FORCED, f"vhost '{vhost.name}' is deleted")
    await frontend.virtual_hosts.definitions.clear(vhost)
    await context.store.topology.delete_namespace(vhost.namespace)


def _shape(vhost: Vhost) -> dict[str, Any]:
    return {
        "name": vhost.name,
        "description": "",
        "tags": [],
        "tracing": False,
        "cluster_state": {},
        "default_queue_type": "classic",
    }
