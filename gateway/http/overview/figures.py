"""Figures of this gateway by door: totals since the start, and present numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from entrepot.gateway.http.context import HttpContext
from entrepot.gateway.http.metrics import DELIVERIES
from entrepot.gateway.http.request_times import PUBLISH

HTTP_PUBLISHES: Final = "entrepot_http_publishes"
DOORS: Final = ("mqtt", "amqp", "rocketmq", "http")
_IN: Final = {
    "amqp": "entrepot_amqp_publishes",
    "rocketmq": "entrepot_rocketmq_publishes",
    "http": HTTP_PUBLISHES,
}
_OUT: Final = {door: (DELIVERIES[door],) for door in DOORS} | {"http": (DELIVERIES["http"], DELIVERIES["webhook"])}
_REFUSED: Final = {"amqp": "entrepot_amqp_refused_publishes", "rocketmq": "entrepot_rocketmq_refused_calls"}
_CONNECTIONS: Final = {"mqtt": "mqtt", "amqp": "amqp", "rocketmq": "grpc", "http": "http"}


@dataclass(frozen=True, slots=True)
class DoorFigures:
    """One door. `connections` is a present number; messages, bytes and refusals count since the start. `bytes_in` is
    None where a door does not count them."""

    connections: int
    messages_in: int
    messages_out: int
    refused: int
    bytes_in: int | None = None


def figures_of(context: HttpContext) -> dict[str, DoorFigures]:
    """The figures of each door that this gateway opens."""
    found = {door: _figures(context, door) for door in DOORS if _is_open(context, door)}
    mqtt = context.mqtt
    if mqtt is not None and "mqtt" in found:
        counters = mqtt.counters
        published, refused = sum(counters.publishes.values()), sum(counters.refused.values())
        there = found["mqtt"]
        found["mqtt"] = DoorFigures(there.connections, published, there.messages_out, refused, counters.bytes_received)
    return found


def _is_open(context: HttpContext, door: str) -> bool:
    match door:
        case "mqtt":
            return context.mqtt is not None and context.settings.mqtt.enabled
        case "amqp":
            return context.amqp is not None
        case _:
            return _IN[door] in context.counters


def _figures(context: HttpContext, door: str) -> DoorFigures:
    def total(name: str | None) -> int:
        return context.counters[name][1]() if name is not None and name in context.counters else 0

    count = context.connections.get(_CONNECTIONS[door])
    refused = total(_REFUSED.get(door))
    if door == "http":
        refused = context.times.of("POST", PUBLISH).others.total()
    return DoorFigures(0 if count is None else count(), total(_IN.get(door)), sum(map(total, _OUT[door])), refused)
