"""Figures of this gateway by door: totals since the start, and present numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from entrepot.gateway.operations.overview.shapes import DOORS

if TYPE_CHECKING:
    from entrepot.gateway.door.door import Counters
    from entrepot.gateway.mqtt.frontend import MqttFrontend

HTTP_PUBLISHES: Final = "entrepot_http_publishes"
DELIVERIES: Final = {
    "amqp": "entrepot_amqp_deliveries",
    "http": "entrepot_http_deliveries",
    "mqtt": "entrepot_mqtt_deliveries",
    "rocketmq": "entrepot_rocketmq_deliveries",
    "webhook": "entrepot_webhook_deliveries",
}
"""Counters of delivered messages, by protocol."""
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


@dataclass(frozen=True, slots=True)
class CountedDoors:
    """The doors of this gateway, as they count.  `mqtt`: None where that door is not open.  `counters`: totals by their
    names in `/metrics`, with descriptions.  `connections`: open ones by protocol.  `refused_by_http`: publishes."""

    mqtt: MqttFrontend | None
    has_amqp: bool
    counters: Callable[[], Counters]
    connections: Callable[[], Mapping[str, int]]
    refused_by_http: Callable[[], int]

    def figures(self) -> dict[str, DoorFigures]:
        """Return the figures of each door that is open."""
        counters, connections = self.counters(), self.connections()
        found = {door: self._figures(door, counters, connections) for door in DOORS if self._is_open(door, counters)}
        if self.mqtt is not None:
            counted, there = self.mqtt.counters, found["mqtt"]
            published, refused = sum(counted.publishes.values()), sum(counted.refused.values())
            found["mqtt"] = DoorFigures(
                there.connections, published, there.messages_out, refused, counted.bytes_received
            )
        return found

    def _is_open(self, door: str, counters: Counters) -> bool:
        match door:
            case "mqtt":
                return self.mqtt is not None
            case "amqp":
                return self.has_amqp
            case _:
                return _IN[door] in counters

    def _figures(self, door: str, counters: Counters, connections: Mapping[str, int]) -> DoorFigures:
        def total(name: str | None) -> int:
            return counters[name][1]() if name is not None and name in counters else 0

        refused = self.refused_by_http() if door == "http" else total(_REFUSED.get(door))
        return DoorFigures(
            connections.get(_CONNECTIONS[door], 0), total(_IN.get(door)), sum(map(total, _OUT[door])), refused
        )
