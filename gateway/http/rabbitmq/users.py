"""Users in RabbitMQ's API: `administrator` is a super user.  For super users only.

Invariant: secrets are never returned.
"""

from __future__ import annotations

from typing import Any, Final

from fastapi import Request, Response
from pydantic import Field, field_validator

from entrepot.gateway.http.asgi import name_in_path
from entrepot.gateway.http.bodies import body_of, json_answer
from entrepot.gateway.http.context import HttpContext
from entrepot.gateway.http.rabbitmq.api import LenientBody, created, new_router, nothing
from entrepot.gateway.http.rabbitmq.listing import listing
from entrepot.gateway.http.rights import SUPER_USERS
from entrepot.gateway.http.routes import Router
from entrepot.gateway.operations.change_names import TOLD_BELOW
from entrepot.gateway.operations.problem import MissingError, bad_request
from entrepot.gateway.security.administration import By, UserChange
from entrepot.gateway.security.records import UserRecord

ADMINISTRATOR: Final = "administrator"
MANAGEMENT: Final = "management"
"""Tag of users with access to this API: every user has it, as rights decide."""


class UserBody(LenientBody):
    """A user.  Tags are an array, or a text with commas."""

    password: str | None = None
    password_hash: str | None = Field(None)
    tags: list[str] = Field(default_factory=list)

    @field_validator("tags", mode="before")
    @classmethod
    def _split(cls, value: Any) -> Any:
        return [tag.strip() for tag in value.split(",") if tag.strip()] if isinstance(value, str) else value or []


def user_routes(context: HttpContext) -> Router:
    router = new_router()
    administration = context.security.administration

    @router.get("/users", SUPER_USERS, summary="List users by name")
    async def list_users(request: Request) -> Response:
        return await listing(request, [user_shape(each) for each in administration.users()])

    @router.get("/users/{name}", SUPER_USERS, summary="Get a user")
    async def get_user(name: str) -> Response:
        name = name_in_path(name)
        user = administration.user(name)
        if user is None:
            raise _missing(name)
        return json_answer(user_shape(user))

    @router.put("/users/{name}", SUPER_USERS, change=TOLD_BELOW, summary="Create or change a user")
    async def put_user(request: Request, name: str) -> Response:
        body = await body_of(request, context, UserBody)
        strange = unknown_tags(body.tags)
        if strange:
            raise bad_request(f"{', '.join(strange)}: tags are {ADMINISTRATOR} and {MANAGEMENT}; give rights instead")
        by = _author(request)
        return created(await create_user(context, by, name_in_path(name), body))

    @router.delete("/users/{name}", SUPER_USERS, change=TOLD_BELOW, summary="Delete a user", status_code=204)
    async def delete_user(request: Request, name: str) -> Response:
        name = name_in_path(name)
        if not await administration.delete_user(_author(request), name):
            raise _missing(name)
        return nothing()

    return router


def _author(request: Request) -> By:
    is_confirmed = request.query_params.get("confirm") == "own-rights"
    return By.principal(request.state.principal, may_lose_own=is_confirmed)


async def create_user(context: HttpContext, by: By, name: str, body: UserBody) -> bool:
    """Create or change a user; True if it is new.  Raises BAD_REQUEST for a hashed password, PRECONDITION_FAILED."""
    if body.password_hash:
        raise bad_request("RabbitMQ's password hashes cannot be used: give the user a password")
    change = UserChange(body.password, ADMINISTRATOR in body.tags)
    _, is_new = await context.security.administration.put_user(by, name, change)
    return is_new


def unknown_tags(tags: list[str]) -> list[str]:
    """Tags without a meaning here."""
    return [tag for tag in tags if tag not in (ADMINISTRATOR, MANAGEMENT)]


def user_shape(user: UserRecord) -> dict[str, Any]:
    return {"name": user.name, "tags": [ADMINISTRATOR] if user.is_super else [], "limits": {}}


def _missing(name: str) -> MissingError:
    return MissingError("user-not-found", "The user does not exist", f"there is no user {name[:80]!r}")
