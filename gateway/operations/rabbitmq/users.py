"""Users in RabbitMQ's API, for super users only: `administrator` is one; other tags are kept and give no rights.

Invariant: secrets are never returned, but for hashes in definitions.
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
from entrepot.gateway.security.rabbitmq_hashes import SHA256, kept_hash, shown_hash

if TYPE_CHECKING:
    from entrepot.gateway.security.administration import Administration
    from entrepot.gateway.security.records import UserRecord

ADMINISTRATOR: Final = "administrator"
MAX_TAGS: Final = 64
MAX_TAG_LENGTH: Final = 256

RABBITMQ_USERS: Final = new_noun("/users")
_EXAMPLE: Final = {"password": "a long one", "tags": "administrator"}


class UserBody(LenientBody, frozen=True):
    """A user.  Tags are an array, or a text with commas."""

    password: str | None = None
    password_hash: str | None = None
    hashing_algorithm: str = SHA256
    tags: Annotated[Any, Like(str | list[str])] = None

    @property
    def all_tags(self) -> list[str]:
        """The tags.  Raises BAD_REQUEST."""
        given = self.tags or []
        if isinstance(given, str):
            return [tag.strip() for tag in given.split(",") if tag.strip()]
        if not (isinstance(given, list) and all(isinstance(each, str) for each in given)):
            raise bad_request("tags: Input should be a valid list")
        if len(given) > MAX_TAGS or any(len(each) > MAX_TAG_LENGTH for each in given):
            raise bad_request(f"tags: up to {MAX_TAGS}, each of up to {MAX_TAG_LENGTH} characters")
        return list(dict.fromkeys(given))

    def change(self) -> UserChange:
        """Return the change that the body asks for.  Raises BAD_REQUEST."""
        tags = self.all_tags
        hashed = self.password_hash
        if hashed and self.password is None:
            hashed = kept_hash(hashed, self.hashing_algorithm)
        others = tuple(each for each in tags if each != ADMINISTRATOR)
        return UserChange(
            self.password,
            ADMINISTRATOR in tags,
            password_hash=None if self.password is not None else hashed,
            tags=others,
        )


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
        return Declared(await create_user(self._administration, _author(asked), name, body))

    @RABBITMQ_USERS.delete("/{name}", "deleteRabbitMqUser", "Delete a user", SUPER_USERS, change=TOLD_BELOW)
    async def delete(self, name: PlainName, asked: Asked) -> None:
        if not await self._administration.delete_user(_author(asked), name):
            raise _missing(name)


def _author(asked: Asked) -> By:
    return By.principal(asked.principal, may_lose_own=asked.query.get("confirm") == "own-rights")


async def create_user(administration: Administration, by: By, name: str, body: UserBody) -> bool:
    """Create or change a user; True if it is new.  Raises BAD_REQUEST, PRECONDITION_FAILED."""
    _, is_new = await administration.put_user(by, name, body.change())
    return is_new


def user_shape(user: UserRecord) -> Row:
    return {"name": user.name, "tags": tags_of(user), "limits": {}}


def tags_of(user: UserRecord) -> list[str]:
    """The tags of a user."""
    return [*([ADMINISTRATOR] if user.is_super else []), *user.tags]


def user_definition(user: UserRecord) -> Row:
    """A user as definitions tell it, with the hash of its password."""
    found: Row = {"name": user.name, "tags": tags_of(user), "limits": {}}
    if user.password_hash is None:
        return {**found, "password_hash": "", "hashing_algorithm": SHA256}
    hashed, algorithm = shown_hash(user.password_hash)
    return {**found, "password_hash": hashed, "hashing_algorithm": algorithm}


def _missing(name: str) -> MissingError:
    return MissingError("user-not-found", "The user does not exist", f"there is no user {name[:80]!r}")
