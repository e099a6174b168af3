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
    from entrepot.gateway.operations.rabbitmq.server import RabbitMq
    from entrepot.gateway.security.administration import Administration
    from entrepot.gateway.security.records import UserRecord

ADMINISTRATOR: Final = "administrator"
MAX_TAGS: Final = 64
MAX_TAG_LENGTH: Final = 256
MAX_AT_ONCE: Final = 1000
"""Largest number of users that one request deletes."""

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
        return tags_in(self.tags)

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


def tags_in(given: Any) -> list[str]:
    """Return the tags of a body.  Raises BAD_REQUEST."""
    found = given or []
    if isinstance(found, str):
        found = [tag.strip() for tag in found.split(",") if tag.strip()]
    if not (isinstance(found, list) and all(isinstance(each, str) for each in found)):
        raise bad_request("tags: Input should be a valid list")
    if len(found) > MAX_TAGS or any(len(each) > MAX_TAG_LENGTH for each in found):
        raise bad_request(f"tags: up to {MAX_TAGS}, each of up to {MAX_TAG_LENGTH} characters")
    return list(dict.fromkeys(found))


class BulkBody(LenientBody, frozen=True):
    """Names of users."""

    users: list[str]


class RabbitMqUsers:
    """The operations of users."""

    def __init__(self, rabbitmq: RabbitMq) -> None:
        self._rabbitmq, self._administration = rabbitmq, rabbitmq.security.administration

    @RABBITMQ_USERS.get("", "listRabbitMqUsers", "List users by name", SUPER_USERS)
    async def listed(self, query: ListingAsked) -> UserRows:
        return await listing(query, [user_shape(each, self._rabbitmq) for each in self._administration.users()])

    @RABBITMQ_USERS.get(
        "/without-permissions", "listUsersWithoutPermissions", "List users who may do nothing", SUPER_USERS
    )
    async def without_permissions(self, query: ListingAsked) -> UserRows:
        found = (each for each in self._administration.users() if not each.is_super)
        users = [each for each in found if not _statements_of(self._administration, each.name)]
        return await listing(query, [user_shape(each, self._rabbitmq) for each in users])

    @RABBITMQ_USERS.post(
        "/bulk-delete",
        "deleteRabbitMqUsers",
        "Delete several users",
        SUPER_USERS,
        change=TOLD_BELOW,
        example={"users": ["bob"]},
    )
    async def delete_several(self, body: BulkBody, asked: Asked) -> None:
        if len(body.users) > MAX_AT_ONCE:
            raise bad_request(f"users: at most {MAX_AT_ONCE}")
        missing = [name for name in body.users if not await self._delete(name, asked)]
        if missing:
            raise bad_request(f"no_such_user: {', '.join(missing)[:400]}; the others are deleted")

    @RABBITMQ_USERS.get("/{name}", "getRabbitMqUser", "Get a user", SUPER_USERS)
    async def show(self, name: PlainName, query: ColumnsAsked) -> UserRow:
        user = self._administration.user(name)
        if user is None:
            raise missing_user(name)
        return chosen(query, user_shape(user, self._rabbitmq))

    @RABBITMQ_USERS.put(
        "/{name}", "putRabbitMqUser", "Create or change a user", SUPER_USERS, change=TOLD_BELOW, example=_EXAMPLE
    )
    async def put(self, name: PlainName, body: UserBody, asked: Asked) -> Declared:
        return Declared(await create_user(self._administration, _author(asked), name, body))

    @RABBITMQ_USERS.delete("/{name}", "deleteRabbitMqUser", "Delete a user", SUPER_USERS, change=TOLD_BELOW)
    async def delete(self, name: PlainName, asked: Asked) -> None:
        if not await self._delete(name, asked):
            raise missing_user(name)

    async def _delete(self, name: str, asked: Asked) -> bool:
        """Delete a user with its limits and topic permissions; True if there was one."""
        if not await self._administration.delete_user(_author(asked), name):
            return False
        if self._rabbitmq.amqp is not None:
            await self._rabbitmq.virtual_hosts.parameters.forget_user(name)
        return True


def _author(asked: Asked) -> By:
    return By.principal(asked.principal, may_lose_own=asked.query.get("confirm") == "own-rights")


async def create_user(administration: Administration, by: By, name: str, body: UserBody) -> bool:
    """Create or change a user; True if it is new.  Raises BAD_REQUEST, PRECONDITION_FAILED."""
    _, is_new = await administration.put_user(by, name, body.change())
    return is_new


def _statements_of(administration: Administration, name: str) -> int:
    policy = administration.policy(name)
    return 0 if policy is None else len(policy.statements)


def user_shape(user: UserRecord, rabbitmq: RabbitMq) -> Row:
    limits = {} if rabbitmq.amqp is None else dict(rabbitmq.virtual_hosts.parameters.user_limits(user.name))
    return {"name": user.name, "tags": tags_of(user), "limits": limits}


def tags_of(user: UserRecord) -> list[str]:
    """The tags of a user."""
    return [*([ADMINISTRATOR] if user.is_super else []), *user.tags]


def user_definition(user: UserRecord, rabbitmq: RabbitMq) -> Row:
    """A user as definitions tell it, with the hash of its password."""
    found = user_shape(user, rabbitmq)
    if user.password_hash is None:
        return {**found, "password_hash": "", "hashing_algorithm": SHA256}
    hashed, algorithm = shown_hash(user.password_hash)
    return {**found, "password_hash": hashed, "hashing_algorithm": algorithm}


def missing_user(name: str) -> MissingError:
    return MissingError("user-not-found", "The user does not exist", f"there is no user {name[:80]!r}")
