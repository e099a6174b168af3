"""Resources of the wire, and the store's names."""

from __future__ import annotations

from typing import Final

from entrepot.domain.escaped_names import Escaping
from entrepot.domain.names import DEFAULT_NAMESPACE, check_group_name, check_namespace, check_topic_name, split_name
from entrepot.protocols.rocketmq import v2_pb2 as v2
from entrepot.protocols.rocketmq.errors import WireError
from entrepot.protocols.rocketmq.names import Namespaces, is_rocketmq_group, is_rocketmq_topic

NAMESPACES: Final = Namespaces()
"""Namespaces of the wire: the empty one is `default`."""
CLIENT_NAMES: Final = Escaping("@.-_~")
"""Ids of clients as parts of keys."""


def topic_of(resource: v2.Resource, *, is_read: bool = False) -> str:
    """The store's name of a topic; with `is_read`, system topics such as dead letters are allowed. Raises
    ILLEGAL_TOPIC (also for RocketMQ's own), FORBIDDEN (a system topic), BAD_REQUEST (an invalid namespace)."""
    check_topic_name(resource.name, system_allowed=is_read)
    if is_rocketmq_topic(resource.name):
        raise WireError(v2.ILLEGAL_TOPIC, f"{resource.name!r} is a topic of RocketMQ's own: clients use other names")
    _check_namespace(resource)
    return NAMESPACES.name(resource)


def group_of(resource: v2.Resource) -> str:
    """The store's name of a group. Raises ILLEGAL_CONSUMER_GROUP, BAD_REQUEST."""
    check_group_name(resource.name)
    if is_rocketmq_group(resource.name):
        text = f"{resource.name!r} is a group of RocketMQ's own: clients use other names"
        raise WireError(v2.ILLEGAL_CONSUMER_GROUP, text)
    _check_namespace(resource)
    return NAMESPACES.name(resource)


def plain(name: str) -> str:
    """A name without its namespace."""
    return split_name(name)[1]


def _check_namespace(resource: v2.Resource) -> None:
    if resource.resource_namespace:
        check_namespace(resource.resource_namespace)
        if resource.resource_namespace == DEFAULT_NAMESPACE:
            raise WireError(v2.BAD_REQUEST, "the namespace 'default' is the one that has no name here")
