"""Limits of users and virtual hosts at this gateway's AMQP listener, with RabbitMQ's words for what they refuse."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from entrepot.gateway.amqp.virtual_hosts.parameters import MAX_CHANNELS, MAX_CONNECTIONS, Limits, Parameters

if TYPE_CHECKING:
    from entrepot.gateway.amqp.connections.client import ClientInfo
    from entrepot.gateway.amqp.virtual_hosts.vhost import Vhost


def connection_refusal(parameters: Parameters, vhost: Vhost, user: str, others: Iterable[ClientInfo]) -> str | None:
    """The reason to refuse a user another connection to a virtual host, or None.  `others`: of the open ones."""
    of_vhost = limit_of(parameters.vhost(vhost.namespace).limits, MAX_CONNECTIONS)
    of_user = limit_of(parameters.user_limits(user), MAX_CONNECTIONS)
    if of_vhost is None and of_user is None:
        return None
    found = [*others]
    if of_vhost is not None and sum(each.vhost is vhost for each in found) >= of_vhost:
        return f"access to vhost '{vhost.name}' refused for user '{user}': connection limit ({of_vhost}) is reached"
    if of_user is not None and sum(each.login_name == user for each in found) >= of_user:
        return f"connection refused for user '{user}': user connection limit ({of_user}) is reached"
    return None


def channel_refusal(parameters: Parameters, user: str, opened: Iterable[tuple[str, int]]) -> str | None:
    """The reason to refuse a user another channel, or None.  `opened`: user and channels of each open connection."""
    most = limit_of(parameters.user_limits(user), MAX_CHANNELS)
    if most is None or sum(channels for name, channels in opened if name == user) < most:
        return None
    return f"number of channels opened for user '{user}' has reached the maximum allowed user limit of ({most})"


def limit_of(limits: Limits, name: str) -> int | None:
    """A limit, or None where there is none: a negative one stands for that, too."""
    found = limits.get(name, -1)
    return None if found < 0 else found
