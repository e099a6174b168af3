"""Permissions of users in virtual hosts, kept as statements of the access policies.  For super users only.

Other statements of a policy, which permissions cannot express, stay unchanged and are not shown.
"""

from __future__ import annotations

from typing import Any

from fastapi import Request, Response

from entrepot.domain.access.model import ANONYMOUS, EVERYBODY
from entrepot.domain.access.vhost_permission import VhostPermission, is_of_vhost, permission_of, statements_of
from entrepot.gateway.amqp.virtual_hosts.vhost import Vhost
from entrepot.gateway.http.asgi import name_in_path
from entrepot.gateway.http.bodies import body_of, json_answer
from entrepot.gateway.http.context import HttpContext
from entrepot.gateway.http.rabbitmq.api import (
    LenientBody,
    created,
    new_router,
    nothing,
    vhost_in_path,
    virtual_hosts_of,
)
from entrepot.gateway.http.rabbitmq.listing import listing
from entrepot.gateway.http.rights import SUPER_USERS
from entrepot.gateway.http.routes import Router
from entrepot.gateway.operations.change_names import TOLD_BELOW
from entrepot.gateway.operations.problem import MissingError
from entrepot.gateway.security.administration import By


class PermissionBody(LenientBody):
    """Regular expressions of names."""

    configure: str
    write: str
    read: str

    def permission(self) -> VhostPermission:
        return VhostPermission(self.configure, self.write, self.read)


def permission_routes(context: HttpContext) -> Router:
    router = new_router()
    _add_lists(router, context)

    @router.get("/permissions/{vhost}/{user}", SUPER_USERS, summary="Get a user's permissions in a virtual host")
    async def get_permission(vhost: str, user: str) -> Response:
        return json_answer(_one(context, vhost_in_path(context, vhost), name_in_path(user)))

    @router.put(
        "/permissions/{vhost}/{user}",
        SUPER_USERS,
        change=TOLD_BELOW,
        summary="Set a user's permissions in a virtual host",
    )
    async def put_permission(request: Request, vhost: str, user: str) -> Response:
        found = vhost_in_path(context, vhost)
        body = await body_of(request, context, PermissionBody)
        by = By.principal(request.state.principal)
        return created(await set_permission(context, by, found, name_in_path(user), body.permission()))

    @router.delete(
        "/permissions/{vhost}/{user}",
        SUPER_USERS,
        change=TOLD_BELOW,
        summary="Delete a user's permissions in a virtual host",
        status_code=204,
    )
    async def delete_permission(request: Request, vhost: str, user: str) -> Response:
        found, name = vhost_in_path(context, vhost), name_in_path(user)
        _one(context, found, name)
        by = By.principal(request.state.principal)
        await set_permission(context, by, found, name, VhostPermission("", "", ""))
        return nothing()

    return router


def _add_lists(router: Router, context: HttpContext) -> None:
    @router.get("/permissions", SUPER_USERS, summary="List the permissions of all users")
    async def list_permissions(request: Request) -> Response:
        return await listing(request, permission_rows(context, virtual_hosts_of(context).definitions.vhosts()))

    @router.get("/vhosts/{name}/permissions", SUPER_USERS, summary="List the permissions in a virtual host")
    async def list_permissions_in(request: Request, name: str) -> Response:
        return await listing(request, permission_rows(context, [vhost_in_path(context, name)]))

    @router.get("/users/{name}/permissions", SUPER_USERS, summary="List the permissions of a user")
    async def list_permissions_of(request: Request, name: str) -> Response:
        rows = permission_rows(context, virtual_hosts_of(context).definitions.vhosts())
        return await listing(request, [row for row in rows if row["user"] == name_in_path(name)])

    @router.get("/topic-permissions", SUPER_USERS, summary="List topic permissions: always none")
    async def list_topic_permissions(request: Request) -> Response:
        return await listing(request, [])


async def set_permission(context: HttpContext, by: By, vhost: Vhost, user: str, permission: VhostPermission) -> bool:
    """Replace the user's permission there; True if there was none.  Raises BAD_REQUEST."""
    wanted = statements_of(permission, vhost.namespace)
    record = context.security.administration.policy(user)
    before = [] if record is None else [each.statement() for each in record.statements]
    others = [each for each in before if not is_of_vhost(each, vhost.namespace)]
    await context.security.administration.put_policy(by, user, [*others, *wanted])
    return len(others) == len(before)


def permission_rows(context: HttpContext, vhosts: list[Vhost]) -> list[dict[str, Any]]:
    return [
        _shape(permission, record.subject, vhost)
        for vhost in vhosts
        for record in context.security.administration.policies()
        if record.subject not in (EVERYBODY, ANONYMOUS)
        and (permission := permission_of((each.statement() for each in record.statements), vhost.namespace))
    ]


def _one(context: HttpContext, vhost: Vhost, user: str) -> dict[str, Any]:
    record = context.security.administration.policy(user)
    statements = [] if record is None else [each.statement() for each in record.statements]
    permission = permission_of(statements, vhost.namespace)
    if permission is None:
        raise MissingError(
            "permission-not-found", "There is no permission", f"{user[:80]!r} has none in vhost '{vhost.name}'"
        )
    return _shape(permission, user, vhost)


def _shape(permission: VhostPermission, user: str, vhost: Vhost) -> dict[str, Any]:
    return {
        "user": user,
        "vhost": vhost.name,
        "configure": permission.configure,
        "write": permission.write,
        "read": permission.read,
    }
