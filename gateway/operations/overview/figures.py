"""Figures of this gateway by door: totals since the start, and present numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from entrepot.gateway.operations.overview.shapes import DOORS

if TYPE_CHECKING:
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
    counters: Mapping[str, tuple[str, Callable[[], int]]]
    connections: Mapping[str, Callable[[], int]]
    refused_by_http: Callable[[], int]

    def figures(self) -> dict[str, DoorFigures]:
        """Return the figures of each door that is open."""
        found = {door: self._figures(door) for door in DOORS if self._is_open(door)}
        if self.mqtt is not None:
            counters, there = self.mqtt.counters, found["mqtt"]
            published, refused = sum(counters.publishes.values()), sum(counters.refused.values())
            found["mqtt"] = DoorFigures(
                there.connections, published, there.messages_out, refused, counters.bytes_received
            )
        return found

    def _is_open(self, door: str) -> bool:
        match door:
            case "mqtt":
                return self.mqtt is not None
            case "amqp":
                return self.has_amqp
            case _:
                return _IN[door] in self.counters

    def _figures(self, door: str) -> DoorFigures:
        count = self.connections.get(_CONNECTIONS[door])
        refused = self.refused_by_http() if door == "http" else self._total(_REFUSED.get(door))
        return DoorFigures(
            0 if count is None else count(), self._total(_IN.get(door)), sum(map(self._total, _OUT[door])), refused
        )

    def _total(self, name: str | None) -> int:
        return self.counters[name][1]() if name is not None and name in self.counters else 0
