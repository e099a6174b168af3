"""A stored message without its content, as operations show it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from entrepot.domain.names import split_name
from entrepot.gateway.operations.row.ids import id_text
from entrepot.gateway.operations.row.shapes import Shown, Time, shown_as
from entrepot.gateway.operations.row.times import time_shape

if TYPE_CHECKING:
    from entrepot.domain.message import StoredMessage


class HeadShown(Shown, frozen=True, kw_only=True):
    """A message that may not be in its queue yet"""

    id: str
    topic: str
    namespace: str
    queue_id: int
    keys: list[str]
    tag: str
    sub_topic: str
    message_group: str
    born_time: Time | None
    store_time: Time | None
    size: int
    commit_log_offset: int


class MessageShown(HeadShown, frozen=True, kw_only=True):
    """A message's head with its place"""

    queue_offset: int


HEAD: Final[Mapping[str, Any]] = {
    "id": "019AF2C4A48D1549BA4F1FC100000000",
    "topic": "orders",
    "namespace": "default",
    "queue_id": 2,
    "keys": ["7"],
    "tag": "",
    "sub_topic": "orders",
    "message_group": "",
    "born_time": "2026-12-01T08:00:00.000Z",
    "store_time": "2026-12-01T08:00:00.000Z",
    "size": 3,
    "commit_log_offset": 8113,
}
"""The fields of a head, for examples."""
shown_as(MessageShown(**HEAD, queue_offset=41))


def head_of(message: StoredMessage) -> dict[str, Any]:
    """Return the fields of a message's head, by name."""
    namespace, topic = split_name(message.topic)
    return {
        "id": id_text(message.message_id),
        "topic": topic,
        "namespace": namespace,
        "queue_id": message.queue_id,
        "keys": list(message.keys),
        "tag": message.tag,
        "sub_topic": message.sub_topic,
        "message_group": message.message_group,
        "born_time": time_shape(message.born_time_ms),
        "store_time": time_shape(message.store_time_ms),
        "size": len(message.body),
        "commit_log_offset": message.commit_log_offset,
    }


def message_shown(message: StoredMessage) -> MessageShown:
    """Return a message without its content."""
    return MessageShown(**head_of(message), queue_offset=message.queue_offset)
