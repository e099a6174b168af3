"""Users: list, show, create and change, delete.  For super users only.

Invariant: secrets are never returned; an answer only tells if one exists.
"""

from __future__ import annotations

from typing import Any, Final, Literal

from fastapi import Header, Query, Request, Response

from entrepot.gateway.http.admin.common import CREATED, NO_CONTENT, OK, PREFIX, Change, schema_of
from entrepot.gateway.http.asgi import name_in_path
from entrepot.gateway.http.bodies import body_of, json_answer, schema_of_body
from entrepot.gateway.http.context import HttpContext
from entrepot.gateway.http.rights import SUPER_USERS
from entrepot.gateway.http.routes import Router, Routes
from entrepot.gateway.operations.change_names import TOLD_BELOW
from entrepot.gateway.operations.problem import MissingError
from entrepot.gateway.security.administration import By, UserChange
from entrepot.gateway.security.records import PolicyRecord, UserRecord

MAX_LIMIT: Final = 1000
MAX_TEXT: Final = 1024


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
    administration = context.security.administration

    def shape(user: UserRecord) -> dict[str, Any]:
        return _shape(user, administration.policy(user.name))

    @router.get("/users", SUPER_USERS, summary="List users by name")
    async def list_users(
        after: str = Query("", description="Name after which the list begins"),
        find: str = Query("", max_length=MAX_TEXT, description="Part of the name, in any case"),
        is_super: bool | None = Query(None, alias="super"),
        enabled: bool | None = Query(None),
        limit: int = Query(100, ge=1, le=MAX_LIMIT),
    ) -> Response:
        part = find.casefold()
        found = [
            user
            for user in administration.users()
            if user.name > after
            and part in user.name.casefold()
            and is_super in (None, user.is_super)
            and enabled in (None, user.is_enabled)
        ]
        following = found[limit - 1].name if len(found) > limit else None
        return json_answer({"value": [shape(user) for user in found[:limit]], "next": following})

    @router.get("/users/{name}", SUPER_USERS, summary="Get a user")
    async def get_user(name: str) -> Response:
        name = name_in_path(name)
        user = administration.user(name)
        if user is None:
            raise _missing(name)
        return json_answer(shape(user))


def _add_changing(router: Router, context: HttpContext) -> None:
    administration = context.security.administration

    @router.put(
        "/users/{name}",
        SUPER_USERS,
        change=TOLD_BELOW,
        summary="Create or change a user",
        openapi_extra=_BODY,
    )
    async def put_user(
        request: Request,
        name: str,
        confirm: Literal["own-rights"] | None = Query(None, description="The caller may lose the own rights by this"),
        if_none_match: Literal["*"] | None = Header(None, description="`*`: an existing user is not changed"),
    ) -> Response:
        given = (await body_of(request, context, UserBody)).given()
        change = UserChange(
            given.get("password"), given.get("super"), given.get("enabled"), given.get("signing_secret")
        )
        by = By.principal(request.state.principal, may_lose_own=confirm is not None)
        only_new = if_none_match is not None
        user, is_new = await administration.put_user(by, name_in_path(name), change, only_new=only_new)
        return json_answer(_shape(user, administration.policy(user.name)), CREATED if is_new else OK)

    @router.delete("/users/{name}", SUPER_USERS, change=TOLD_BELOW, summary="Delete a user", status_code=NO_CONTENT)
    async def delete_user(
        request: Request,
        name: str,
        confirm: Literal["own-rights"] | None = Query(None, description="The caller may delete the own user"),
    ) -> Response:
        name = name_in_path(name)
        by = By.principal(request.state.principal, may_lose_own=confirm is not None)
        if not await administration.delete_user(by, name):
            raise _missing(name)
        return Response(status_code=NO_CONTENT)


def _missing(name: str) -> MissingError:
    return MissingError("user-not-found", "The user does not exist", f"there is no user {name[:80]!r}")


def _shape(user: UserRecord, policy: PolicyRecord | None) -> dict[str, Any]:
    return {
        "name": user.name,
        "super": user.is_super,
        "enabled": user.is_enabled,
        "hasPassword": user.password_hash is not None,
        "hasSigningSecret": user.signing_secret is not None,
        "statements": 0 if policy is None else len(policy.statements),
    }
