"""A topic's definition, and the topic with its queues, as operations show them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from entrepot.domain.names import split_name
from entrepot.domain.topic import Cleanup, Confirm, Permission, TopicType
from entrepot.gateway.operations.row.shapes import Part, Shown, shown_as

if TYPE_CHECKING:
    from entrepot.domain.topic import QueueBounds, Topic, TopicStatus


class QueueOffsets(Part, frozen=True):
    queue_id: int
    min_offset: int
    max_offset: int


class DefinitionShown(Shown, frozen=True, kw_only=True):
    """A topic's definition"""

    name: str
    namespace: str
    queues: int
    write_queues: int | None
    type: TopicType
    permission: Permission
    cleanup: Cleanup
    retention_seconds: int | None
    retention_bytes: int | None
    tier_seconds: int | None
    max_message_bytes: int | None
    max_backlog: int | None
    confirm: Confirm
    trace: float
    placement: dict[str, int] | None


class TopicShown(DefinitionShown, frozen=True, kw_only=True):
    """A topic with the offsets of its queues"""

    offsets: list[QueueOffsets]


DEFINITION: Final[Mapping[str, Any]] = {
    "name": "orders",
    "namespace": "default",
    "queues": 4,
    "write_queues": 4,
    "type": TopicType.NORMAL,
    "permission": Permission.READ_WRITE,
    "cleanup": Cleanup.DELETE,
    "retention_seconds": 86_400,
    "retention_bytes": 1 << 30,
    "tier_seconds": 31_536_000,
    "max_message_bytes": 65_536,
    "max_backlog": 100_000,
    "confirm": Confirm.RULE,
    "trace": 0.0,
    "placement": {"broker-0": 4},
}
OFFSETS: Final = [QueueOffsets(0, 0, 41)]
"""The fields of a definition, and offsets of queues, for examples."""
shown_as(DefinitionShown(**DEFINITION))
shown_as(TopicShown(**DEFINITION, offsets=OFFSETS))


def definition_of(topic: Topic) -> dict[str, Any]:
    """Return the fields of a topic's definition, by name."""
    namespace, name = split_name(topic.name)
    return {
        "name": name,
        "namespace": namespace,
        "queues": topic.queues,
        "write_queues": topic.write_queues,
        "type": topic.type,
        "permission": topic.permission,
        "cleanup": topic.cleanup,
        "retention_seconds": topic.retention_seconds,
        "retention_bytes": topic.retention_bytes,
        "tier_seconds": topic.tier_seconds,
        "max_message_bytes": topic.max_message_bytes,
        "max_backlog": topic.max_backlog,
        "confirm": topic.confirm,
        "trace": topic.trace,
        "placement": dict(topic.placement) or None,
    }


def offsets_of(queues: Iterable[QueueBounds]) -> list[QueueOffsets]:
    """Return the offsets of queues."""
    return [QueueOffsets(each.queue_id, each.min_offset, each.max_offset) for each in queues]


def topic_shown(status: TopicStatus) -> TopicShown:
    """Return a topic with the offsets of its queues."""
    return TopicShown(**definition_of(status.topic), offsets=offsets_of(status.queues))
