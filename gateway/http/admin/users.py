"""Users: list, show, create and change, delete; and the audit log.  For super users only.

Invariant: secrets are never returned; an answer only tells if one exists.
"""

from __future__ import annotations

from typing import Any, Final

from fastapi import Query, Request, Response

from entrepot.domain.timestamp import to_rfc3339
from entrepot.gateway.http.admin.common import CREATED, MAX_NUMBER, NO_CONTENT, OK, PREFIX, Change, schema_of
from entrepot.gateway.http.asgi import name_in_path
from entrepot.gateway.http.bodies import body_of, json_answer, schema_of_body
from entrepot.gateway.http.context import HttpContext
from entrepot.gateway.http.problems import MissingError
from entrepot.gateway.http.rights import SUPER_USERS
from entrepot.gateway.http.routes import Router, Routes
from entrepot.gateway.security.administration import By, UserChange
from entrepot.gateway.security.audit import AuditEntry
from entrepot.gateway.security.records import UserRecord

MAX_LIMIT: Final = 1000


class UserBody(Change):
    """Change of a user."""

    password: str | None = None
    super: bool | None = None
    enabled: bool | None = None
    signing_secret: str | None = None


_BODY: Final = schema_of_body(schema_of(UserBody), required=False)


def user_routes(context: HttpContext) -> Routes:
    """The routes of users, which are in no namespace."""
    routes = Routes(["users"], PREFIX)
    _add_reading(routes.plain, context)
    _add_changing(routes.plain, context)
    return routes


def _add_reading(router: Router, context: HttpContext) -> None:
    administration, audit = context.security.administration, context.security.audit

    @router.get("/users", SUPER_USERS, summary="List users by name")
    async def list_users(
        after: str = Query("", description="Name after which the list begins"),
        limit: int = Query(100, ge=1, le=MAX_LIMIT),
    ) -> Response:
        names = [user for user in administration.users() if user.name > after]
        following = names[limit - 1].name if len(names) > limit else None
        return json_answer({"value": [_shape(user) for user in names[:limit]], "next": following})

    @router.get("/users/{name}", SUPER_USERS, summary="Get a user")
    async def get_user(name: str) -> Response:
        name = name_in_path(name)
        user = administration.user(name)
        if user is None:
            raise _missing(name)
        return json_answer(_shape(user))

    @router.get(
        "/audit",
        SUPER_USERS,
        summary="List failed logins, denials and changes of rights of this process, the newest first",
    )
    async def list_audit(
        before: int | None = Query(None, ge=1, le=MAX_NUMBER, description="Entry number before which the list begins"),
        limit: int = Query(100, ge=1, le=MAX_LIMIT),
    ) -> Response:
        entries = audit.newest(limit, before)
        return json_answer({"value": [_entry_shape(entry) for entry in entries], "suppressed": audit.suppressed})


def _add_changing(router: Router, context: HttpContext) -> None:
    administration = context.security.administration

    @router.put("/users/{name}", SUPER_USERS, summary="Create or change a user", openapi_extra=_BODY)
    async def put_user(request: Request, name: str) -> Response:
        given = (await body_of(request, context, UserBody)).given()
        change = UserChange(
            given.get("password"), given.get("super"), given.get("enabled"), given.get("signing_secret")
        )
        by = By.principal(request.state.principal)
        user, is_new = await administration.put_user(by, name_in_path(name), change)
        return json_answer(_shape(user), CREATED if is_new else OK)

    @router.delete("/users/{name}", SUPER_USERS, summary="Delete a user", status_code=NO_CONTENT)
    async def delete_user(request: Request, name: str) -> Response:
        name = name_in_path(name)
        if not await administration.delete_user(By.principal(request.state.principal), name):
            raise _missing(name)
        return Response(status_code=NO_CONTENT)


def _missing(name: str) -> MissingError:
    return MissingError("user-not-found", "The user does not exist", f"there is no user {name[:80]!r}")


def _shape(user: UserRecord) -> dict[str, Any]:
    return {
        "name": user.name,
        "super": user.is_super,
        "enabled": user.is_enabled,
        "hasPassword": user.password_hash is not None,
        "hasSigningSecret": user.signing_secret is not None,
    }


def _entry_shape(entry: AuditEntry) -> dict[str, Any]:
    return {
        "number": entry.number,
        "time": to_rfc3339(entry.at_ms),
        "event": entry.event,
        "subject": entry.subject,
        "source": entry.source,
        "protocol": entry.protocol,
        "action": entry.action,
        "resource": entry.resource,
        "detail": entry.detail,
    }
