"""Checks of routing keys at topic exchanges by the topic permissions of users, who may be super users, too.

The AMQP listener and RabbitMQ's API both ask, after the rights on the exchange itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from entrepot.domain.exchanges.exchange import ExchangeType
from entrepot.protocols.amqp.errors import AmqpError
from entrepot.protocols.amqp.reply_codes import ReplyCode

if TYPE_CHECKING:
    from entrepot.domain.exchanges.binding import Binding
    from entrepot.gateway.amqp.virtual_hosts.parameters import Parameters
    from entrepot.gateway.amqp.virtual_hosts.vhost import Vhost


def check_keys_written(parameters: Parameters, vhost: Vhost, user: str, exchange: str, keys: Iterable[str]) -> None:
    """Raise ACCESS_REFUSED for a routing key that the user may not publish with to the exchange."""
    permission = parameters.topic_permission(user, vhost.namespace, exchange)
    if permission is None or not _is_topic(vhost, exchange):
        return
    for key in keys:
        if not permission.may_write(key, user, vhost.name):
            raise _refusal(vhost, user, exchange, key)


def check_key_bound(parameters: Parameters, vhost: Vhost, user: str, binding: Binding) -> None:
    """Raise ACCESS_REFUSED for a routing key that the user may not bind by."""
    permission = parameters.topic_permission(user, vhost.namespace, binding.source)
    if permission is None or not _is_topic(vhost, binding.source):
        return
    if not permission.may_read(binding.routing_key, user, vhost.name):
        raise _refusal(vhost, user, binding.source, binding.routing_key)


def _is_topic(vhost: Vhost, name: str) -> bool:
    """True for a topic exchange; what is not declared counts as one, as a Topic does."""
    found = vhost.routing.exchange(name)
    return found is None or found.routing_type is ExchangeType.TOPIC


def _refusal(vhost: Vhost, user: str, exchange: str, key: str) -> AmqpError:
    text = f"access to topic '{key}' in exchange '{exchange}' in vhost '{vhost.name}' refused for user '{user}'"
    return AmqpError(ReplyCode.ACCESS_REFUSED, text)
