"""Metrics of MQTT, read from its counters and connections for each scrape.

Names begin with `entrepot_mqtt_`.  `version` is the protocol: 3.1, 3.1.1 or 5.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from prometheus_client.core import CounterMetricFamily
from prometheus_client.metrics_core import Metric

from entrepot.gateway.http.metrics.metric_families import counters, gauges
from entrepot.gateway.messaging.yielding import in_pages
from entrepot.gateway.mqtt.frontend import MqttFrontend
from entrepot.gateway.operations.local_views.mqtt import version_name
from entrepot.protocols.mqtt.packets import Publish

PAGE: Final = 1000
"""Connections between two turns of others."""


@dataclass(slots=True)
class MqttFigures:
    """Sums over the open connections of one scrape."""

    mqtt: MqttFrontend
    versions: Counter[str] = field(default_factory=Counter)
    lasting: int = 0
    inflight: int = 0
    queued: int = 0
    subscriptions: int = 0


async def mqtt_figures(mqtt: MqttFrontend) -> MqttFigures:
    """Look at all connections, a page at a time."""
    figures, there = MqttFigures(mqtt), tuple(mqtt.conversations)
    async for page in in_pages(there, PAGE):
        for each in page:
            session = each.client.session
            figures.versions[version_name(each.machine.version)] += 1
            figures.lasting += session is not None and session.persists
            figures.inflight += len(each.machine.window.held)
            figures.queued += each.outbox.waiting
            figures.subscriptions += len(each.subscribing.records)
    return figures


def mqtt_metrics(figures: MqttFigures) -> Iterator[Metric]:
    """All metrics of MQTT."""
    yield _packets(figures.mqtt)
    yield from _traffic(figures.mqtt)
    yield from _connections(figures)
    yield from _shares(figures.mqtt)


def _packets(mqtt: MqttFrontend) -> Metric:
    family = CounterMetricFamily(
        "entrepot_mqtt_packets", "MQTT control packets, by direction", labels=["version", "type", "direction"]
    )
    counts, sent = mqtt.counters.packets, mqtt.counters.publishes_sent
    for level, types in counts.received.items():
        for kind, count in types.items():
            family.add_metric([version_name(level), kind.__name__.upper(), "in"], count)
    for (level, kind), count in counts.sent.items():
        family.add_metric([version_name(level), kind.__name__.upper(), "out"], count)
    for level, count in sent.items():
        if count:
            family.add_metric([version_name(level), Publish.__name__.upper(), "out"], count)
    return family


def _traffic(mqtt: MqttFrontend) -> Iterator[Metric]:
    figures = mqtt.counters
    yield from counters(
        ["direction"],
        {"entrepot_mqtt_bytes": "Bytes of MQTT connections, by direction"},
        [(["in"], [figures.bytes_received]), (["out"], [figures.bytes_sent])],
    )
    yield from counters(
        ["version", "qos"],
        {"entrepot_mqtt_publishes": "Messages published by MQTT clients"},
        (([version_name(level), str(qos)], [count]) for (level, qos), count in figures.publishes.items()),
    )
    yield from counters(
        ["reason"],
        {"entrepot_mqtt_refused": "MQTT publishes and subscriptions refused, by reason code"},
        (([reason.lower()], [count]) for reason, count in figures.refused.items()),
    )


def _connections(figures: MqttFigures) -> Iterator[Metric]:
    mqtt = figures.mqtt
    yield from counters(
        ["version", "outcome"],
        {"entrepot_mqtt_connects": "CONNECT packets by outcome: accepted, or the reason code of the refusal"},
        (([version_name(level), outcome], [count]) for (level, outcome), count in mqtt.counters.connects.items()),
    )
    yield from gauges(
        ["version"],
        {"entrepot_mqtt_connections": "Open MQTT connections, by protocol version"},
        (([version], [count]) for version, count in figures.versions.items()),
    )
    described = {
        "entrepot_mqtt_lasting_sessions": "Persistent MQTT sessions connected here",
        "entrepot_mqtt_inflight_messages": "Messages of QoS 1 or 2 sent to MQTT clients and not acknowledged yet",
        "entrepot_mqtt_queued_messages": "Messages in memory waiting for slow MQTT subscribers",
        "entrepot_mqtt_subscriptions": "Subscriptions of connected MQTT clients",
    }
    numbers = figures.lasting, figures.inflight, figures.queued, figures.subscriptions
    yield from gauges((), described, [((), numbers)])
    described = {"entrepot_mqtt_sessions_expired": "Expired MQTT sessions ended by this gateway"}
    yield from counters((), described, [((), [mqtt.sweeper.expired])])


def _shares(mqtt: MqttFrontend) -> Iterator[Metric]:
    shares = mqtt.services.shares
    described = {
        "entrepot_mqtt_share_deliveries": "Messages delivered to members of MQTT shared subscriptions",
        "entrepot_mqtt_share_renewals": "Message leases of MQTT shared subscriptions renewed",
        "entrepot_mqtt_share_losses": "Message leases of MQTT shared subscriptions lost while a member had the message",
    }
    yield from counters((), described, [((), (shares.delivered, shares.renewed, shares.lost))])
    described = {
        "entrepot_mqtt_share_groups_ended": "Unused groups of MQTT shared subscriptions deleted by this gateway"
    }
    yield from counters((), described, [((), [mqtt.unused_groups.ended])])
