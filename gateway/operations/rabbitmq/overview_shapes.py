"""The overview of RabbitMQ's API, as the document tells it."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import UNSET, UnsetType

from entrepot.gateway.operations.nouns.amqp import RabbitMqPart
from entrepot.gateway.operations.rabbitmq.listing import Row
from entrepot.gateway.operations.rabbitmq.rows import NODE_NAME
from entrepot.gateway.operations.rabbitmq.stats_rows import CONSUMED, ServerStats
from entrepot.gateway.operations.row.shapes import Like, Part, Shown, shown_as


class ExchangeTypeShown(RabbitMqPart, frozen=True):
    name: str
    description: str
    enabled: bool


class ObjectTotals(RabbitMqPart, frozen=True):
    connections: int
    channels: int
    consumers: int
    exchanges: int
    queues: int


class QueueTotals(RabbitMqPart, frozen=True):
    messages: int | UnsetType = UNSET
    messages_ready: int | UnsetType = UNSET
    messages_unacknowledged: int | UnsetType = UNSET


class ListenerShown(RabbitMqPart, frozen=True):
    node: str
    protocol: str
    ip_address: str
    port: int


class OverviewShown(Shown, rename="lower", frozen=True):
    """The server at a glance"""

    management_version: str
    rabbitmq_version: str
    product_name: str
    product_version: str
    cluster_name: str
    node: str
    rates_mode: str
    exchange_types: list[ExchangeTypeShown]
    object_totals: ObjectTotals
    queue_totals: QueueTotals
    message_stats: ServerStats
    listeners: list[ListenerShown]
    contexts: list[Any]


class WhoAmI(Part, frozen=True):
    name: str
    tags: list[str]


class ClusterName(Part, frozen=True):
    name: str


class StatusShown(Part, frozen=True):
    status: str


OverviewRow = Annotated[Row, Like(OverviewShown)]
ClusterNameRow = Annotated[Row, Like(ClusterName)]
WhoAmIRow = Annotated[Row, Like(WhoAmI)]
_RATE = CONSUMED.publish_details
shown_as(
    OverviewShown(
        "3.13.0",
        "3.13.0",
        "Entrepôt",
        "1.0.0",
        NODE_NAME,
        NODE_NAME,
        "basic",
        [ExchangeTypeShown("topic", "", True)],
        ObjectTotals(1, 1, 1, 8, 2),
        QueueTotals(4, 3, 1),
        ServerStats(
            **msgspec.structs.asdict(CONSUMED),
            confirm=12,
            confirm_details=_RATE,
            return_unroutable=12,
            return_unroutable_details=_RATE,
        ),
        [ListenerShown(NODE_NAME, "amqp", "192.0.2.1", 5672)],
        [],
    )
)
shown_as(WhoAmI("bob", ["administrator"]))
shown_as(ClusterName(NODE_NAME))
shown_as(StatusShown("ok"))
