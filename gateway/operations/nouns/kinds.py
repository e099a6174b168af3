"""Kinds of topics and groups: those of users, and those that the system made for itself, by their names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from entrepot.domain.names import (
    DEAD_LETTER_PREFIX,
    QUEUE_FEED_PREFIX,
    RETRY_PREFIX,
    SUBSCRIPTION_FEED_PREFIX,
    SYSTEM_PREFIX,
    queue_feed,
    split_name,
)
from entrepot.domain.share import SHARE_SEPARATOR
from entrepot.gateway.operations.row.problem import bad_request

if TYPE_CHECKING:
    from entrepot.domain.ports import Topology

NORMAL: Final = "normal"
QUEUE: Final = "queue"
SUBSCRIPTION: Final = "subscription"
_OF_TOPICS: Final = (
    (DEAD_LETTER_PREFIX, "deadLetter"),
    (RETRY_PREFIX, "retry"),
    (QUEUE_FEED_PREFIX, QUEUE),
    (SUBSCRIPTION_FEED_PREFIX, SUBSCRIPTION),
    (SYSTEM_PREFIX, "system"),
)
TOPIC_KINDS: Final = (NORMAL, *(kind for _, kind in _OF_TOPICS))
"""`queue`: the messages of an AMQP queue.  `subscription`: those that wait for a webhook."""
GROUP_KINDS: Final = (NORMAL, QUEUE, SUBSCRIPTION, "shared")
"""`queue`: the consumers of an AMQP queue.  `shared`: an MQTT shared subscription with a filter of its own."""


def topic_kind(name: str) -> str:
    """The kind of a topic, by its stored name."""
    plain = split_name(name)[1]
    return next((kind for prefix, kind in _OF_TOPICS if plain.startswith(prefix)), NORMAL)


def group_kind(topology: Topology, name: str) -> str:
    """The kind of a group, by its stored name."""
    from entrepot.gateway.events.subscriptions.record import CATCH_UP_PREFIX, DISPATCH_PREFIX, GROUP_PREFIX

    namespace, plain = split_name(name)
    if plain.startswith((GROUP_PREFIX, CATCH_UP_PREFIX, DISPATCH_PREFIX)):
        return SUBSCRIPTION
    if topology.topic(queue_feed(namespace, plain)) is not None:
        return QUEUE
    return "shared" if SHARE_SEPARATOR in plain else NORMAL


def check_kinds(asked: frozenset[str], known: Sequence[str]) -> None:
    """Raise BAD_REQUEST for an unknown kind."""
    unknown = sorted(asked - set(known))
    if unknown:
        raise bad_request(f"kind: {unknown[0][:40]!r} is none of {', '.join(known)}")
