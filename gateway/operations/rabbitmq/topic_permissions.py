"""Topic permissions: rights of users on routing keys at topic exchanges.  For super users only.

They take away from what permissions give: a user without one for an exchange may use every routing key there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from entrepot.domain.access.topic_permission import TopicPermission
from entrepot.gateway.amqp.virtual_hosts.parameters import TopicPatterns
from entrepot.gateway.operations.rabbitmq.listing import ListingAsked, Row, listing
from entrepot.gateway.operations.rabbitmq.permissions import NOT_FOUND, check_user
from entrepot.gateway.operations.rabbitmq.rows import TopicPermissionRows
from entrepot.gateway.operations.rabbitmq.server import new_noun
from entrepot.gateway.operations.rabbitmq.users import missing_user
from entrepot.gateway.operations.row.asked import Asked
from entrepot.gateway.operations.row.problem import MissingError, bad_request
from entrepot.gateway.operations.row.rights import SUPER_USERS
from entrepot.gateway.operations.row.shapes import Declared, LenientBody, PlainName
from entrepot.gateway.security.changes import By

if TYPE_CHECKING:
    from entrepot.gateway.amqp.virtual_hosts.vhost import Vhost
    from entrepot.gateway.operations.rabbitmq.server import RabbitMq

MAX_EXCHANGE_LENGTH: Final = 255
_ONE: Final = "/topic-permissions/{vhost}/{user}"

TOPIC_PERMISSIONS: Final = new_noun()


class TopicPermissionBody(LenientBody, frozen=True):
    """An exchange, and regular expressions of routing keys."""

    exchange: str
    write: str
    read: str

    def patterns(self, namespace: str) -> TopicPatterns:
        """Return the permission.  Raises BAD_REQUEST."""
        if len(self.exchange.encode("utf-8", "surrogatepass")) > MAX_EXCHANGE_LENGTH:
            raise bad_request(f"exchange: a name has at most {MAX_EXCHANGE_LENGTH} bytes")
        TopicPermission(self.write, self.read).check()
        return TopicPatterns(namespace, self.exchange, self.write, self.read)


class TopicPermissions:
    """The operations of topic permissions."""

    def __init__(self, rabbitmq: RabbitMq) -> None:
        self._rabbitmq = rabbitmq

    @TOPIC_PERMISSIONS.get(
        "/topic-permissions", "listTopicPermissions", "List the topic permissions of all users", SUPER_USERS
    )
    async def listed(self, query: ListingAsked) -> TopicPermissionRows:
        return await listing(query, topic_permission_rows(self._rabbitmq, self._rabbitmq.vhosts))

    @TOPIC_PERMISSIONS.get(
        "/vhosts/{name}/topic-permissions",
        "listVhostTopicPermissions",
        "List the topic permissions in a virtual host",
        SUPER_USERS,
    )
    async def listed_in(self, name: PlainName, query: ListingAsked) -> TopicPermissionRows:
        return await listing(query, topic_permission_rows(self._rabbitmq, [self._rabbitmq.vhost(name)]))

    @TOPIC_PERMISSIONS.get(
        "/users/{name}/topic-permissions",
        "listUserTopicPermissions",
        "List the topic permissions of a user",
        SUPER_USERS,
    )
    async def listed_of(self, name: PlainName, query: ListingAsked) -> TopicPermissionRows:
        if self._rabbitmq.security.administration.user(name) is None:
            raise missing_user(name)
        rows = topic_permission_rows(self._rabbitmq, self._rabbitmq.vhosts)
        return await listing(query, [row for row in rows if row["user"] == name])

    @TOPIC_PERMISSIONS.get(
        _ONE, "getTopicPermissions", "List a user's topic permissions in a virtual host", SUPER_USERS
    )
    async def show(self, vhost: PlainName, user: PlainName, query: ListingAsked) -> TopicPermissionRows:
        return await listing(query, self._of(self._rabbitmq.vhost(vhost), user))

    @TOPIC_PERMISSIONS.put(
        _ONE,
        "setTopicPermission",
        "Set a user's topic permission at an exchange",
        SUPER_USERS,
        change="topic permission changed",
        example={"exchange": "amq.topic", "write": "^line1", "read": ".*"},
    )
    async def put(self, vhost: PlainName, user: PlainName, body: TopicPermissionBody, asked: Asked) -> Declared:
        found = self._rabbitmq.virtual_hosts.definitions.vhost(vhost)
        if found is None:
            raise bad_request(NOT_FOUND)
        check_user(self._rabbitmq.security.administration, By.principal(asked.principal), user)
        wanted = body.patterns(found.namespace)
        return Declared(await self._rabbitmq.virtual_hosts.parameters.permit(user, found.namespace, wanted))

    @TOPIC_PERMISSIONS.delete(
        _ONE,
        "clearTopicPermissions",
        "Delete a user's topic permissions in a virtual host",
        SUPER_USERS,
        change="topic permissions deleted",
    )
    async def delete(self, vhost: PlainName, user: PlainName) -> None:
        found = self._rabbitmq.vhost(vhost)
        self._of(found, user)
        await self._rabbitmq.virtual_hosts.parameters.permit(user, found.namespace, None)

    def _of(self, vhost: Vhost, user: str) -> list[Row]:
        rows = [row for row in topic_permission_rows(self._rabbitmq, [vhost]) if row["user"] == user]
        if not rows:
            reason = f"{user[:80]!r} has no topic permission in vhost '{vhost.name}'"
            raise MissingError("permission-not-found", "There is no permission", reason)
        return rows


def topic_permission_rows(rabbitmq: RabbitMq, vhosts: list[Vhost]) -> list[Row]:
    """The topic permissions of all users in some virtual hosts."""
    names = {vhost.namespace: vhost.name for vhost in vhosts}
    return [
        {
            "user": user,
            "vhost": names[each.namespace],
            "exchange": each.exchange,
            "write": each.write,
            "read": each.read,
        }
        for user, known in rabbitmq.virtual_hosts.parameters.users()
        for each in known.topics
        if each.namespace in names
    ]
