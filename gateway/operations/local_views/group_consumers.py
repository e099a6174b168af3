"""This gateway's consumers of a group, over all its doors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from entrepot.domain.names import split_name
from entrepot.gateway.messaging.group_consumer import GroupConsumer

if TYPE_CHECKING:
    from entrepot.gateway.peers.peers import Peers

CONSUMERS: Final = "group-consumers"
"""View of every gateway: the consumers of a group that are connected to it."""
MAX_CONSUMERS: Final = 1000
"""Most consumers that one gateway tells."""


def serve_group_consumers(peers: Peers, consumers_of: Callable[[str], Sequence[GroupConsumer]]) -> None:
    """Register the view.  `consumers_of`: the consumers of a group, by its stored name, at all doors here."""

    async def own_consumers(asked: dict[str, Any]) -> Any:
        found = consumers_of(str(asked["group"]))
        return {"value": [consumer_shape(each) for each in found[:MAX_CONSUMERS]], "isCut": len(found) > MAX_CONSUMERS}

    peers.serve(CONSUMERS, own_consumers)


def consumer_shape(consumer: GroupConsumer) -> dict[str, Any]:
    """Return a consumer as JSON."""
    return {
        "door": consumer.door,
        "client": consumer.client,
        "user": consumer.user or None,
        "address": consumer.source or None,
        "topics": [split_name(topic)[1] if consumer.door != "mqtt" else topic for topic in consumer.topics],
        "queues": None if consumer.queues is None else list(consumer.queues),
        "held": consumer.held,
        "detail": consumer.detail or None,
    }
