"""Policies of virtual hosts, users' and operators': list, show, put, delete."""

from __future__ import annotations

from typing import Any

from fastapi import Request, Response
from pydantic import Field

from entrepot.domain.queues.policy import ApplyTo, Policy
from entrepot.gateway.amqp.virtual_hosts import needs
from entrepot.gateway.amqp.virtual_hosts.vhost import Vhost
from entrepot.gateway.http.asgi import name_in_path
from entrepot.gateway.http.bodies import body_of, json_answer
from entrepot.gateway.http.context import HttpContext
from entrepot.gateway.http.rabbitmq.api import (
    LenientBody,
    created,
    missing,
    new_router,
    nothing,
    vhost_in_path,
    virtual_hosts_of,
)
from entrepot.gateway.http.rabbitmq.listing import listing
from entrepot.gateway.http.rabbitmq.rights import GOVERN, LIST, check
from entrepot.gateway.http.rabbitmq.shapes import policy_shape
from entrepot.gateway.http.routes import Router


class PolicyBody(LenientBody):
    """A policy."""

    pattern: str
    definition: dict[str, Any]
    priority: int = 0
    apply_to: ApplyTo | None = Field(None, alias="apply-to")

    def policy(self, name: str, *, is_operators: bool) -> Policy:
        """Return the policy.  Raises BAD_REQUEST."""
        default = ApplyTo.QUEUES if is_operators else ApplyTo.ALL
        return Policy(name, self.pattern, self.definition, self.priority, self.apply_to or default, is_operators)


def policy_routes(context: HttpContext) -> Router:
    router = new_router()
    _add(router, context, "/policies", is_operators=False)
    _add(router, context, "/operator-policies", is_operators=True)

    @router.get("/parameters", LIST, summary="List runtime parameters: always none")
    async def list_parameters(request: Request) -> Response:
        return await listing(request, [])

    @router.get("/vhost-limits", LIST, summary="List limits of virtual hosts: always none")
    async def list_limits(request: Request) -> Response:
        return await listing(request, [])

    return router


def _add(router: Router, context: HttpContext, path: str, *, is_operators: bool) -> None:
    whose = "operators' policies" if is_operators else "policies"
    what = "operator policy" if is_operators else "queue policy"

    def rows(vhosts: list[Vhost]) -> list[dict[str, Any]]:
        return [policy_shape(each, vhost) for vhost in vhosts for each in vhost.policies(of_operators=is_operators)]

    @router.get(path, LIST, summary=f"List all {whose}")
    async def list_policies(request: Request) -> Response:
        return await listing(request, rows(virtual_hosts_of(context).definitions.vhosts()))

    @router.get(f"{path}/{{vhost}}", LIST, summary=f"List the {whose} of a virtual host")
    async def list_policies_of(request: Request, vhost: str) -> Response:
        return await listing(request, rows([vhost_in_path(context, vhost)]))

    @router.get(f"{path}/{{vhost}}/{{name}}", LIST, summary=f"Get one of the {whose}")
    async def get_policy(vhost: str, name: str) -> Response:
        found, name = vhost_in_path(context, vhost), name_in_path(name)
        for row in rows([found]):
            if row["name"] == name:
                return json_answer(row)
        raise missing("policy", name, found)

    @router.put(
        f"{path}/{{vhost}}/{{name}}",
        GOVERN,
        change=f"{what} changed",
        summary=f"Put one of the {whose}, effective at once",
    )
    async def put_policy(request: Request, vhost: str, name: str) -> Response:
        found = vhost_in_path(context, vhost)
        body = await body_of(request, context, PolicyBody)
        policy = body.policy(name_in_path(name), is_operators=is_operators)
        check(context, request, needs.to_put_policy(found.namespace, policy.definition))
        return created(await virtual_hosts_of(context).put_policy(found, policy))

    @router.delete(
        f"{path}/{{vhost}}/{{name}}",
        GOVERN,
        change=f"{what} deleted",
        summary=f"Delete one of the {whose}",
        status_code=204,
    )
    async def delete_policy(vhost: str, name: str) -> Response:
        found, name = vhost_in_path(context, vhost), name_in_path(name)
        if not await virtual_hosts_of(context).definitions.delete_policy(found, name, is_operators=is_operators):
            raise missing("policy", name, found)
        return nothing()
