"""`message_stats` in rows of RabbitMQ's API, as the document tells them."""

from __future__ import annotations

from typing import Final

from msgspec import UNSET, UnsetType

from entrepot.gateway.operations.nouns.amqp import RabbitMqPart
from entrepot.gateway.operations.row.shapes import Part, shown_as


class Rate(Part, frozen=True):
    """A rate in one second."""

    rate: float


class ConsumedStats(RabbitMqPart, frozen=True, kw_only=True):
    """Totals since the gateway began, and rates where a sample from some seconds before exists."""

    publish: int
    publish_details: Rate | UnsetType = UNSET
    deliver_get: int
    deliver_get_details: Rate | UnsetType = UNSET
    ack: int
    ack_details: Rate | UnsetType = UNSET
    redeliver: int
    redeliver_details: Rate | UnsetType = UNSET


class ServerStats(ConsumedStats, frozen=True, kw_only=True):
    confirm: int
    confirm_details: Rate | UnsetType = UNSET
    return_unroutable: int
    return_unroutable_details: Rate | UnsetType = UNSET


_RATE: Final = Rate(2.4)
CONSUMED: Final = ConsumedStats(
    publish=12,
    publish_details=_RATE,
    deliver_get=12,
    deliver_get_details=_RATE,
    ack=12,
    ack_details=_RATE,
    redeliver=12,
    redeliver_details=_RATE,
)
shown_as(CONSUMED)
