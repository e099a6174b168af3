"""Definitions of everything, or of one virtual host: export and import.  For super users only.

An import that left something out, or has `report=true`, answers 200 with a report and reasons; else 204 as in RabbitMQ.
"""

from __future__ import annotations

from typing import Any

import orjson
from fastapi import Request, Response

from entrepot.domain.exchanges.exchange import RESERVED_PREFIX
from entrepot.gateway.amqp.virtual_hosts.vhost import Vhost, vhost_of
from entrepot.gateway.http.bodies import json_answer, json_body
from entrepot.gateway.http.changes import tell
from entrepot.gateway.http.context import HttpContext
from entrepot.gateway.http.rabbitmq.api import new_router, nothing, vhost_in_path, virtual_hosts_of
from entrepot.gateway.http.rabbitmq.importing import Import
from entrepot.gateway.http.rabbitmq.permissions import permission_rows
from entrepot.gateway.http.rabbitmq.shapes import binding_shape, exchange_shape, policy_shape
from entrepot.gateway.http.rabbitmq.users import user_shape
from entrepot.gateway.http.rights import SUPER_USERS
from entrepot.gateway.http.routes import Router
from entrepot.gateway.operations.local_views.amqp_shapes import plain
from entrepot.gateway.operations.problem import bad_request
from entrepot.gateway.security.administration import By
from entrepot.gateway.version import own_version

_OF_EXCHANGE = ("name", "vhost", "type", "durable", "auto_delete", "internal", "arguments")
_OF_BINDING = ("source", "vhost", "destination", "destination_type", "routing_key", "arguments")


def definition_routes(context: HttpContext) -> Router:
    router = new_router()

    @router.get("/definitions", SUPER_USERS, summary="Export all definitions")
    async def get_definitions() -> Response:
        vhosts = virtual_hosts_of(context).definitions.vhosts()
        users = [
            {"name": row["name"], "tags": row["tags"]}
            for row in map(user_shape, context.security.administration.users())
        ]
        return json_answer(
            {
                **_head(context),
                "users": users,
                "vhosts": [{"name": vhost.name} for vhost in vhosts],
                "permissions": permission_rows(context, vhosts),
                "topic_permissions": [],
                "parameters": _operator_policies(vhosts),
                "global_parameters": [],
                **_of_vhosts(vhosts),
            }
        )

    @router.get("/definitions/{vhost}", SUPER_USERS, summary="Export the definitions of a virtual host")
    async def get_definitions_of(vhost: str) -> Response:
        found = [vhost_in_path(context, vhost)]
        answer = {**_head(context), "parameters": _operator_policies(found), **_of_vhosts(found)}
        for rows in answer.values():
            if isinstance(rows, list):
                for row in rows:
                    row.pop("vhost", None)
        return json_answer(answer)

    @router.post("/definitions", SUPER_USERS, change="definitions imported", summary="Import definitions")
    async def post_definitions(request: Request) -> Response:
        return await _take_in(context, request, None)

    @router.post(
        "/definitions/{vhost}",
        SUPER_USERS,
        change="definitions imported",
        summary="Import definitions into a virtual host",
    )
    async def post_definitions_of(request: Request, vhost: str) -> Response:
        return await _take_in(context, request, vhost_in_path(context, vhost))

    return router


async def _take_in(context: HttpContext, request: Request, vhost: Vhost | None) -> Response:
    body = await json_body(request, context.settings.http.max_body_bytes)
    try:
        given = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise bad_request(f"the definitions are not JSON: {error}") from None
    if not isinstance(given, dict):
        raise bad_request("definitions are an object")
    by = By.principal(request.state.principal)
    if given.get("users") or given.get("permissions"):  # all of it or nothing
        context.security.administration.check_may_change(by)
    work = Import(context, virtual_hosts_of(context), by, vhost)
    try:
        await work.run(given)
    finally:
        done = ", ".join(f"{count} {kind}" for kind, count in work.done.items()) or "nothing"
        tell(request, detail=f"{done}; {len(work.left_out)} left out")
    if not work.left_out and request.query_params.get("report") != "true":
        return nothing()
    return json_answer({"done": work.done, "left_out": work.left_out})


def _head(context: HttpContext) -> dict[str, Any]:
    version = context.settings.amqp.product_version
    return {
        "rabbit_version": version,
        "rabbitmq_version": version,
        "product_name": "Entrepôt",
        "product_version": own_version(),
    }


def _of_vhosts(vhosts: list[Vhost]) -> dict[str, Any]:
    """Durable definitions only: no exclusive queues, no predeclared exchanges."""
    return {
        "policies": [policy_shape(each, vhost) for vhost in vhosts for each in vhost.policies()],
        "queues": [_queue(queue, vhost) for vhost in vhosts for queue in vhost.queues.values() if not queue.connection],
        "exchanges": [
            {name: row[name] for name in _OF_EXCHANGE}
            for vhost in vhosts
            for exchange in vhost.routing.exchanges()
            if exchange.name and not exchange.name.startswith(RESERVED_PREFIX)
            for row in (exchange_shape(exchange, vhost),)
        ],
        "bindings": [
            {name: row[name] for name in _OF_BINDING}
            for vhost in vhosts
            for binding in vhost.bindings()
            if not _is_exclusive(vhost, binding.destination_kind.value, binding.destination)
            for row in (binding_shape(binding, vhost),)
        ],
    }


def _queue(queue: Any, vhost: Vhost) -> dict[str, Any]:
    declared = queue.declared
    return {
        "name": declared.name,
        "vhost": vhost_of(vhost.namespace),
        "durable": declared.durable,
        "auto_delete": declared.auto_delete,
        "arguments": plain(declared.arguments.given),
    }


def _is_exclusive(vhost: Vhost, kind: str, destination: str) -> bool:
    queue = vhost.queue(destination) if kind == "queue" else None
    return queue is not None and bool(queue.connection)


def _operator_policies(vhosts: list[Vhost]) -> list[dict[str, Any]]:
    """Operator policies in RabbitMQ's form: parameters of a component."""
    return [
        {
            "component": "operator_policy",
            "vhost": vhost.name,
            "name": policy.name,
            "value": {
                name: value for name, value in policy_shape(policy, vhost).items() if name not in ("vhost", "name")
            },
        }
        for vhost in vhosts
        for policy in vhost.policies(of_operators=True)
    ]
