"""Permissions of users in virtual hosts, kept as statements of the access policies.  For super users only.

Other statements of a policy, which permissions cannot express, stay unchanged and are not shown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from entrepot.domain.access.model import ANONYMOUS, EVERYBODY
from entrepot.domain.access.vhost_permission import VhostPermission, is_of_vhost, permission_of, statements_of
from entrepot.gateway.operations.rabbitmq.listing import ColumnsAsked, ListingAsked, Row, chosen, listing
from entrepot.gateway.operations.rabbitmq.rows import PermissionRow, PermissionRows
from entrepot.gateway.operations.rabbitmq.server import new_noun
from entrepot.gateway.operations.row.asked import Asked
from entrepot.gateway.operations.row.change_names import TOLD_BELOW
from entrepot.gateway.operations.row.problem import MissingError, bad_request
from entrepot.gateway.operations.row.rights import SUPER_USERS
from entrepot.gateway.operations.row.shapes import Declared, LenientBody, PlainName
from entrepot.gateway.security.changes import By

if TYPE_CHECKING:
    from entrepot.domain.access.model import Statement
    from entrepot.gateway.amqp.virtual_hosts.vhost import Vhost
    from entrepot.gateway.operations.rabbitmq.server import RabbitMq
    from entrepot.gateway.security.administration import Administration
    from entrepot.gateway.security.records import PolicyRecord

PERMISSIONS: Final = new_noun()
NOT_FOUND: Final = "vhost_or_user_not_found"
"""RabbitMQ's word for a permission whose virtual host or user is not there."""
_ONE: Final = "/permissions/{vhost}/{user}"


class PermissionBody(LenientBody, frozen=True):
    """Regular expressions of names."""

    configure: str
    write: str
    read: str

    def permission(self) -> VhostPermission:
        return VhostPermission(self.configure, self.write, self.read)


class Permissions:
    """The operations of permissions."""

    def __init__(self, rabbitmq: RabbitMq) -> None:
        self._rabbitmq, self._administration = rabbitmq, rabbitmq.security.administration

    @PERMISSIONS.get("/permissions", "listPermissions", "List the permissions of all users", SUPER_USERS)
    async def listed(self, query: ListingAsked) -> PermissionRows:
        return await listing(query, permission_rows(self._administration, self._rabbitmq.vhosts))

    @PERMISSIONS.get(
        "/vhosts/{name}/permissions", "listVhostPermissions", "List the permissions in a virtual host", SUPER_USERS
    )
    async def listed_in(self, name: PlainName, query: ListingAsked) -> PermissionRows:
        return await listing(query, permission_rows(self._administration, [self._rabbitmq.vhost(name)]))

    @PERMISSIONS.get("/users/{name}/permissions", "listUserPermissions", "List the permissions of a user", SUPER_USERS)
    async def listed_of(self, name: PlainName, query: ListingAsked) -> PermissionRows:
        rows = permission_rows(self._administration, self._rabbitmq.vhosts)
        return await listing(query, [row for row in rows if row["user"] == name])

    @PERMISSIONS.get(_ONE, "getPermissions", "Get a user's permissions in a virtual host", SUPER_USERS)
    async def show(self, vhost: PlainName, user: PlainName, query: ColumnsAsked) -> PermissionRow:
        return chosen(query, self._one(self._rabbitmq.vhost(vhost), user))

    @PERMISSIONS.put(
        _ONE,
        "setPermissions",
        "Set a user's permissions in a virtual host",
        SUPER_USERS,
        change=TOLD_BELOW,
        example={"configure": "^jobs", "write": ".*", "read": ".*"},
    )
    async def put(self, vhost: PlainName, user: PlainName, body: PermissionBody, asked: Asked) -> Declared:
        found, by = self._rabbitmq.virtual_hosts.definitions.vhost(vhost), By.principal(asked.principal)
        if found is None:
            raise bad_request(NOT_FOUND)
        check_user(self._administration, by, user)
        return Declared(await set_permission(self._administration, by, found, user, body.permission()))

    @PERMISSIONS.delete(
        _ONE, "clearPermissions", "Delete a user's permissions in a virtual host", SUPER_USERS, change=TOLD_BELOW
    )
    async def delete(self, vhost: PlainName, user: PlainName, asked: Asked) -> None:
        found = self._rabbitmq.vhost(vhost)
        self._one(found, user)
        by = By.principal(asked.principal)
        await set_permission(self._administration, by, found, user, None)

    def _one(self, vhost: Vhost, user: str) -> Row:
        permission = permission_of(_statements(self._administration.policy(user)), vhost.namespace)
        if permission is None:
            raise MissingError(
                "permission-not-found", "There is no permission", f"{user[:80]!r} has none in vhost '{vhost.name}'"
            )
        return _shape(permission, user, vhost)


def check_user(administration: Administration, by: By, user: str) -> None:
    """Raise BAD_REQUEST for a user that is not there, and what refuses an author of changes."""
    administration.check_may_change(by)
    if administration.user(user) is None:
        raise bad_request(NOT_FOUND)


async def set_permission(
    administration: Administration, by: By, vhost: Vhost, user: str, permission: VhostPermission | None
) -> bool:
    """Replace or (None) remove the user's permission there; True if there was none.  Raises BAD_REQUEST."""
    wanted = [] if permission is None else statements_of(permission, vhost.namespace)
    before = _statements(administration.policy(user))
    others = [each for each in before if not is_of_vhost(each, vhost.namespace)]
    await administration.put_policy(by, user, [*others, *wanted])
    return len(others) == len(before)


def permission_rows(administration: Administration, vhosts: list[Vhost]) -> list[Row]:
    return [
        _shape(permission, record.subject, vhost)
        for vhost in vhosts
        for record in administration.policies()
        if record.subject not in (EVERYBODY, ANONYMOUS)
        and (permission := permission_of(_statements(record), vhost.namespace))
    ]


def _statements(policy: PolicyRecord | None) -> list[Statement]:
    return [] if policy is None else [each.statement() for each in policy.statements]


def _shape(permission: VhostPermission, user: str, vhost: Vhost) -> Row:
    return {
        "user": user,
        "vhost": vhost.name,
        "configure": permission.configure,
        "write": permission.write,
        "read": permission.read,
    }
