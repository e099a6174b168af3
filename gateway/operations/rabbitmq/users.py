"""Users in RabbitMQ's API: `administrator` is a super user.  For super users only.

Invariant: secrets are never returned.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

from entrepot.gateway.operations.rabbitmq.listing import ColumnsAsked, ListingAsked, Row, chosen, listing
from entrepot.gateway.operations.rabbitmq.rows import UserRow, UserRows
from entrepot.gateway.operations.rabbitmq.server import new_noun
from entrepot.gateway.operations.row.asked import Asked
from entrepot.gateway.operations.row.change_names import TOLD_BELOW
from entrepot.gateway.operations.row.problem import MissingError, bad_request
from entrepot.gateway.operations.row.rights import SUPER_USERS
from entrepot.gateway.operations.row.shapes import Declared, LenientBody, Like, PlainName
from entrepot.gateway.security.changes import By, UserChange

if TYPE_CHECKING:
    from entrepot.gateway.security.administration import Administration
    from entrepot.gateway.security.records import UserRecord

ADMINISTRATOR: Final = "administrator"
MANAGEMENT: Final = "management"
"""Tag of users with access to this API: every user has it, as rights decide."""

RABBITMQ_USERS: Final = new_noun("/users")
_EXAMPLE: Final = {"password": "a long one", "tags": "administrator"}


class UserBody(LenientBody, frozen=True):
    """A user.  Tags are an array, or a text with commas."""

    password: str | None = None
    password_hash: str | None = None
    tags: Annotated[Any, Like(str | list[str])] = None

    @property
    def all_tags(self) -> list[str]:
        """The tags.  Raises BAD_REQUEST."""
        given = self.tags or []
        if isinstance(given, str):
            return [tag.strip() for tag in given.split(",") if tag.strip()]
        if not (isinstance(given, list) and all(isinstance(each, str) for each in given)):
            raise bad_request("tags: Input should be a valid list")
        return given


class RabbitMqUsers:
    """The operations of users."""

    def __init__(self, administration: Administration) -> None:
        self._administration = administration

    @RABBITMQ_USERS.get("", "listRabbitMqUsers", "List users by name", SUPER_USERS)
    async def listed(self, query: ListingAsked) -> UserRows:
        return await listing(query, [user_shape(each) for each in self._administration.users()])

    @RABBITMQ_USERS.get("/{name}", "getRabbitMqUser", "Get a user", SUPER_USERS)
    async def show(self, name: PlainName, query: ColumnsAsked) -> UserRow:
        user = self._administration.user(name)
        if user is None:
            raise _missing(name)
        return chosen(query, user_shape(user))

    @RABBITMQ_USERS.put(
        "/{name}", "putRabbitMqUser", "Create or change a user", SUPER_USERS, change=TOLD_BELOW, example=_EXAMPLE
    )
    async def put(self, name: PlainName, body: UserBody, asked: Asked) -> Declared:
        strange = unknown_tags(body.all_tags)
        if strange:
            raise bad_request(f"{', '.join(strange)}: tags are {ADMINISTRATOR} and {MANAGEMENT}; give rights instead")
        return Declared(await create_user(self._administration, _author(asked), name, body))

    @RABBITMQ_USERS.delete("/{name}", "deleteRabbitMqUser", "Delete a user", SUPER_USERS, change=TOLD_BELOW)
    async def delete(self, name: PlainName, asked: Asked) -> None:
        if not await self._administration.delete_user(_author(asked), name):
            raise _missing(name)


def _author(asked: Asked) -> By:
    return By.principal(asked.principal, may_lose_own=asked.query.get("confirm") == "own-rights")


async def create_user(administration: Administration, by: By, name: str, body: UserBody) -> bool:
    """Create or change a user; True if it is new.  Raises BAD_REQUEST for a hashed password, PRECONDITION_FAILED."""
    if body.password_hash:
        raise bad_request("RabbitMQ's password hashes cannot be used: give the user a password")
    change = UserChange(body.password, ADMINISTRATOR in body.all_tags)
    _, is_new = await administration.put_user(by, name, change)
    return is_new


def unknown_tags(tags: list[str]) -> list[str]:
    """Tags without a meaning here."""
    return [tag for tag in tags if tag not in (ADMINISTRATOR, MANAGEMENT)]


def user_shape(user: UserRecord) -> Row:
    return {"name": user.name, "tags": [ADMINISTRATOR] if user.is_super else [], "limits": {}}


def _missing(name: str) -> MissingError:
    return MissingError("user-not-found", "The user does not exist", f"there is no user {name[:80]!r}")
