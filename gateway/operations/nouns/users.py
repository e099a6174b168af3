"""Users: list, show, create and change, delete.  For super users only.

Invariant: secrets are never returned; an answer only tells if one exists.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from entrepot.gateway.operations.row.asked import Asked
from entrepot.gateway.operations.row.change_names import TOLD_BELOW
from entrepot.gateway.operations.row.operation import Noun, Words
from entrepot.gateway.operations.row.problem import MissingError
from entrepot.gateway.operations.row.rights import SUPER_USERS
from entrepot.gateway.operations.row.shapes import Body, Continued, Flag, Head, Made, PlainName, Query, Shown, shown_as
from entrepot.gateway.security.changes import By, UserChange

if TYPE_CHECKING:
    from entrepot.gateway.security.administration import Administration
    from entrepot.gateway.security.records import UserRecord

MAX_LIMIT: Final = 1000
MAX_TEXT: Final = 1024
_OwnRights = Literal["own-rights"] | None
_OWN: Final = Flag("Allow losing your own rights.", name="--own", sends="own-rights")
_SHOWN: Final = ("super", "enabled", "hasPassword", "hasSigningSecret", "statements")


class UserShown(Shown, frozen=True):
    """A user, without secrets; `statements`: number of those in its policy"""

    name: str
    is_super: bool = msgspec.field(name="super")
    is_enabled: bool = msgspec.field(name="enabled")
    has_password: bool
    has_signing_secret: bool
    statements: int


shown_as(UserShown("bob", False, True, True, False, 2))


class UserBody(Body, frozen=True):
    """Change of a user."""

    password: str | UnsetType = UNSET
    is_super: Annotated[bool | UnsetType, Flag("Exempt the user from policies.", name="--super")] = msgspec.field(
        default=UNSET, name="super"
    )
    is_enabled: Annotated[bool | UnsetType, Flag("Allow or forbid logins.", name="--enable/--disable")] = msgspec.field(
        default=UNSET, name="enabled"
    )
    signing_secret: str | UnsetType = UNSET


class UsersAsked(Query, frozen=True):
    after: Annotated[str, Meta(description="Name after which the list begins")] = ""
    find: Annotated[
        str, Meta(max_length=MAX_TEXT, description="Part of the name, in any case"), Flag("Part of the user's name.")
    ] = ""
    is_super: bool | None = msgspec.field(default=None, name="super")
    is_enabled: bool | None = msgspec.field(default=None, name="enabled")
    limit: Annotated[int, Meta(ge=1, le=MAX_LIMIT)] = 100


class UserChangeAsked(Query, frozen=True):
    confirm: Annotated[_OwnRights, Meta(description="The caller may lose rights by this"), _OWN] = None


class UserDeletionAsked(Query, frozen=True):
    confirm: Annotated[_OwnRights, Meta(description="The caller may delete their own user"), _OWN] = None


class UserHead(Head, frozen=True, rename="kebab"):
    if_none_match: Annotated[Literal["*"] | None, Meta(description="`*`: an existing user is not changed")] = None


USERS: Final = Noun("users", "/users", "user", "Users of a running server.")


class Users:
    """The operations of users, which are in no namespace."""

    def __init__(self, administration: Administration) -> None:
        self._administration = administration

    @USERS.get(
        "",
        "listUsers",
        "List users by name",
        SUPER_USERS,
        shows={"next": "bob"},
        words=Words(
            "list",
            "List users.",
            columns=("user", "super", "enabled", "has password", "has signing secret", "statements"),
            cells=("name", *_SHOWN),
            whole=MAX_LIMIT,
        ),
    )
    async def listed(self, query: UsersAsked) -> Continued[UserShown]:
        part = query.find.casefold()
        found = [
            user
            for user in self._administration.users()
            if user.name > query.after
            and part in user.name.casefold()
            and query.is_super in (None, user.is_super)
            and query.is_enabled in (None, user.is_enabled)
        ]
        following = found[query.limit - 1].name if len(found) > query.limit else None
        return Continued([self._shown(user) for user in found[: query.limit]], following)

    @USERS.get(
        "/{name}",
        "getUser",
        "Get a user",
        SUPER_USERS,
        words=Words(
            "show",
            "Show one user.",
            tables=lambda user: [(("user", user["name"]), ((key, user[key]) for key in _SHOWN))],
        ),
    )
    async def show(self, name: PlainName) -> UserShown:
        user = self._administration.user(name)
        if user is None:
            raise _missing(name)
        return self._shown(user)

    @USERS.put(
        "/{name}",
        "putUser",
        "Create or change a user",
        SUPER_USERS,
        change=TOLD_BELOW,
        example={"password": "a long one", "super": False},
        words=Words(
            "update",
            "Change a user; omitted options keep their value.",
            outcome="user {name} is changed",
            must_exist=True,
        ),
    )
    async def put(
        self, name: PlainName, asked: Asked, query: UserChangeAsked, head: UserHead, body: UserBody
    ) -> Made[UserShown]:
        by = By.principal(asked.principal, may_lose_own=query.confirm is not None)
        only_new = head.if_none_match is not None
        user, is_new = await self._administration.put_user(by, name, UserChange(**body.given()), only_new=only_new)
        return Made(self._shown(user), is_new)

    @USERS.delete(
        "/{name}",
        "deleteUser",
        "Delete a user",
        SUPER_USERS,
        change=TOLD_BELOW,
        words=Words(
            "delete",
            "Delete a user; its policy is kept. Asks for confirmation.",
            outcome="user {name} deleted",
            confirm="Delete the user {name}?",
        ),
    )
    async def delete(self, name: PlainName, asked: Asked, query: UserDeletionAsked) -> None:
        by = By.principal(asked.principal, may_lose_own=query.confirm is not None)
        if not await self._administration.delete_user(by, name):
            raise _missing(name)

    def _shown(self, user: UserRecord) -> UserShown:
        policy = self._administration.policy(user.name)
        return UserShown(
            user.name,
            user.is_super,
            user.is_enabled,
            user.password_hash is not None,
            user.signing_secret is not None,
            0 if policy is None else len(policy.statements),
        )


def _missing(name: str) -> MissingError:
    return MissingError("user-not-found", "The user does not exist", f"there is no user {name[:80]!r}")
