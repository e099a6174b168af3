"""Limits of users and virtual hosts: list, set, remove.  Setting is for super users only.

They hold for AMQP: for each gateway's connections and channels, and for all queues of a virtual host.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

from entrepot.gateway.amqp.virtual_hosts.parameters import USER_LIMITS, VHOST_LIMITS
from entrepot.gateway.operations.rabbitmq.listing import ListingAsked, Row, listing
from entrepot.gateway.operations.rabbitmq.rows import UserLimitRows, VhostLimitRows
from entrepot.gateway.operations.rabbitmq.server import LIST, new_noun
from entrepot.gateway.operations.rabbitmq.users import missing_user
from entrepot.gateway.operations.row.problem import bad_request
from entrepot.gateway.operations.row.rights import SUPER_USERS
from entrepot.gateway.operations.row.shapes import LenientBody, Like, PlainName

if TYPE_CHECKING:
    from entrepot.gateway.amqp.virtual_hosts.vhost import Vhost
    from entrepot.gateway.operations.rabbitmq.server import RabbitMq

MAX_LIMIT: Final = 2**31 - 1
_EXAMPLE: Final = {"value": 100}

LIMITS: Final = new_noun()


class LimitBody(LenientBody, frozen=True):
    """A limit; a negative one stands for none."""

    value: Annotated[Any, Like(int)]

    def checked(self, limit: str, known: Sequence[str], of: str) -> int:
        """Return the value.  Raises BAD_REQUEST for another limit than these, and for a value without a number."""
        if limit not in known:
            raise bad_request(f"Unrecognised terms {limit[:80]!r} in {of}: it takes {', '.join(known)}")
        if type(self.value) is not int or abs(self.value) > MAX_LIMIT:
            raise bad_request(f"{limit} should be a number, actually was {str(self.value)[:80]!r}")
        return self.value


class RabbitMqLimits:
    """The operations of limits."""

    def __init__(self, rabbitmq: RabbitMq) -> None:
        self._rabbitmq = rabbitmq

    @LIMITS.get("/vhost-limits", "listVhostLimits", "List the limits of virtual hosts", LIST)
    async def of_vhosts(self, query: ListingAsked) -> VhostLimitRows:
        return await listing(query, vhost_limit_rows(self._rabbitmq, self._rabbitmq.vhosts))

    @LIMITS.get("/vhost-limits/{vhost}", "getVhostLimits", "List the limits of a virtual host", LIST)
    async def of_vhost(self, vhost: PlainName, query: ListingAsked) -> VhostLimitRows:
        return await listing(query, vhost_limit_rows(self._rabbitmq, [self._rabbitmq.vhost(vhost)]))

    @LIMITS.put(
        "/vhost-limits/{vhost}/{limit}",
        "setVhostLimit",
        "Set a limit of a virtual host: max-connections, max-queues",
        SUPER_USERS,
        change="virtual host limit changed",
        example=_EXAMPLE,
    )
    async def limit_vhost(self, vhost: PlainName, limit: PlainName, body: LimitBody) -> None:
        found = self._rabbitmq.vhost(vhost)
        value = body.checked(limit, VHOST_LIMITS, "limits")
        await self._rabbitmq.virtual_hosts.parameters.limit_vhost(found.namespace, limit, value)

    @LIMITS.delete(
        "/vhost-limits/{vhost}/{limit}",
        "removeVhostLimit",
        "Remove a limit of a virtual host",
        SUPER_USERS,
        change="virtual host limit deleted",
    )
    async def free_vhost(self, vhost: PlainName, limit: PlainName) -> None:
        found = self._rabbitmq.vhost(vhost)
        await self._rabbitmq.virtual_hosts.parameters.limit_vhost(found.namespace, limit, None)

    @LIMITS.get("/user-limits", "listUserLimits", "List the limits of users", SUPER_USERS)
    async def of_users(self, query: ListingAsked) -> UserLimitRows:
        return await listing(query, _user_limit_rows(self._rabbitmq))

    @LIMITS.get("/user-limits/{name}", "getUserLimits", "List the limits of a user", SUPER_USERS)
    async def of_user(self, name: PlainName, query: ListingAsked) -> UserLimitRows:
        self._check_user(name)
        return await listing(query, [row for row in _user_limit_rows(self._rabbitmq) if row["user"] == name])

    @LIMITS.put(
        "/user-limits/{name}/{limit}",
        "setUserLimit",
        "Set a limit of a user: max-connections, max-channels",
        SUPER_USERS,
        change="user limit changed",
        example=_EXAMPLE,
    )
    async def limit_user(self, name: PlainName, limit: PlainName, body: LimitBody) -> None:
        if self._rabbitmq.security.administration.user(name) is None:
            raise bad_request(f"no_such_user: {name[:80]!r}")
        value = body.checked(limit, USER_LIMITS, "user-limits")
        await self._rabbitmq.virtual_hosts.parameters.limit_user(name, limit, value)

    @LIMITS.delete(
        "/user-limits/{name}/{limit}",
        "removeUserLimit",
        "Remove a limit of a user",
        SUPER_USERS,
        change="user limit deleted",
    )
    async def free_user(self, name: PlainName, limit: PlainName) -> None:
        self._check_user(name)
        await self._rabbitmq.virtual_hosts.parameters.limit_user(name, limit, None)

    def _check_user(self, name: str) -> None:
        if self._rabbitmq.security.administration.user(name) is None:
            raise missing_user(name)


def vhost_limit_rows(rabbitmq: RabbitMq, vhosts: list[Vhost]) -> list[Row]:
    """The limits of those virtual hosts that have any."""
    parameters = rabbitmq.virtual_hosts.parameters
    found = ((vhost.name, parameters.vhost(vhost.namespace).limits) for vhost in vhosts)
    return [{"vhost": name, "value": dict(limits)} for name, limits in found if limits]


def _user_limit_rows(rabbitmq: RabbitMq) -> list[Row]:
    users = rabbitmq.virtual_hosts.parameters.users()
    return [{"user": name, "value": dict(known.limits)} for name, known in users if known.limits]
