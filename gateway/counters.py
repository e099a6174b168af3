"""Counters of the listeners since the start of the process, by their names in `/metrics`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from entrepot.gateway.amqp.frontend import AmqpFrontend
from entrepot.gateway.log import lost_lines
from entrepot.gateway.mqtt.fan_out.hub import DeliveryHub
from entrepot.gateway.mqtt.frontend import MqttFrontend
from entrepot.gateway.mqtt.listener import MqttListeners

if TYPE_CHECKING:
    from entrepot.gateway.events.admission import Admission
    from entrepot.gateway.events.deduplication import Deduplication
    from entrepot.gateway.events.webhooks.webhooks import Webhooks
    from entrepot.gateway.rocketmq.service import RocketMqService

Counters = dict[str, tuple[str, Callable[[], int]]]
"""Description and getter of each counter, by name."""

LOG_COUNTERS: Final[Counters] = {
    "entrepot_log_lines_lost": ("Log lines that could not be written: no reader, no room, or closed", lost_lines)
}


def protocol_counters(
    hub: DeliveryHub, mqtt: MqttFrontend, amqp: AmqpFrontend, mqtt_listeners: MqttListeners
) -> Counters:
    """The counters of MQTT and AMQP."""
    counted, consumption = amqp.counters, amqp.virtual_hosts.consumption
    return {
        "entrepot_mqtt_deliveries": ("Messages sent to MQTT subscribers", lambda: hub.delivered),
        "entrepot_mqtt_dropped": ("QoS 0 messages dropped for slow MQTT subscribers", lambda: mqtt.counters.dropped),
        "entrepot_amqp_publishes": ("Messages published by AMQP clients", lambda: counted.published),
        "entrepot_amqp_confirms": ("AMQP publishes confirmed", lambda: counted.confirmed),
        "entrepot_amqp_refused_publishes": ("AMQP publishes refused", lambda: counted.refused),
        "entrepot_amqp_returns": ("Unroutable mandatory AMQP messages returned", lambda: counted.returned),
        "entrepot_amqp_deliveries": ("Messages sent to AMQP consumers", lambda: consumption.total.delivered),
        "entrepot_amqp_acknowledgements": (
            "Messages acknowledged by AMQP consumers",
            lambda: consumption.total.acknowledged,
        ),
        "entrepot_http_deliveries": (
            "Messages delivered to HTTP consumers of groups",
            lambda: amqp.services.sender.traffic.handed["http"],
        ),
        "entrepot_amqp_dead_letters": (
            "Dead letters of AMQP queues published",
            lambda: amqp.virtual_hosts.dead_letters.count,
        ),
        "entrepot_mqtt_refused_connections": (
            "MQTT connections closed before a CONNECT: limits, TLS, WebSocket, PROXY",
            lambda: mqtt_listeners.refused,
        ),
    }


def event_counters(webhooks: Webhooks, deduplication: Deduplication, admission: Admission) -> Counters:
    """The counters of events and webhooks."""
    return {
        "entrepot_webhook_requests": ("Requests to webhook sinks", lambda: webhooks.counters.requests),
        "entrepot_webhook_deliveries": ("Events accepted by webhook sinks", lambda: webhooks.counters.delivered),
        "entrepot_webhook_failures": ("Failed delivery attempts to webhook sinks", lambda: webhooks.counters.failed),
        "entrepot_webhook_dead_letters": (
            "Events dead-lettered by webhook subscriptions",
            lambda: webhooks.counters.dead_letters,
        ),
        "entrepot_event_duplicates": ("Duplicate events dropped", lambda: deduplication.dropped),
        "entrepot_event_schema_refusals": ("Events refused by a topic's schema", lambda: admission.refused),
        "entrepot_event_schema_diversions": ("Events diverted by a topic's schema", lambda: admission.diverted),
    }


def rocketmq_counters(service: RocketMqService) -> Counters:
    """The counters of the RocketMQ listener."""
    counted = service.frontend.counters
    return {
        "entrepot_rocketmq_calls": ("Calls of RocketMQ clients", lambda: counted.calls),
        "entrepot_rocketmq_refused_calls": ("Calls of RocketMQ clients refused as a whole", lambda: counted.refused),
        "entrepot_rocketmq_publishes": ("Messages sent by RocketMQ clients", lambda: counted.published),
        "entrepot_rocketmq_deliveries": ("Messages delivered to RocketMQ consumers", lambda: counted.delivered),
        "entrepot_rocketmq_acknowledgements": (
            "Messages acknowledged by RocketMQ consumers",
            lambda: counted.acknowledged,
        ),
        "entrepot_rocketmq_transaction_checks": (
            "Transaction checks sent to RocketMQ producers",
            lambda: counted.checks,
        ),
    }
