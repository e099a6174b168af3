"""HttpContext: the HTTP listener's dependencies."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry

from domain.clock import Clock
from domain.ports import Store
from gateway.amqp.frontend import AmqpFrontend
from gateway.bridge.status import BridgeStatus
from gateway.events.deduplication import Deduplication
from gateway.events.rules import EventRules
from gateway.events.subscriptions.subscriptions import Subscriptions
from gateway.events.webhooks.webhooks import Webhooks
from gateway.http.request_times import RequestTimes
from gateway.messaging.membership import Memberships
from gateway.messaging.send import Sender
from gateway.messaging.topology import Topology
from gateway.mqtt.frontend import MqttFrontend
from gateway.mqtt.retained.retained import RetainedMessages
from gateway.periodic_work import PeriodicWork
from gateway.security.security import Security
from gateway.settings import Settings


@dataclass(slots=True)
class HttpContext:
    """The gateway's parts that routes use.

    `is_ready`: False during the start and the drain.  `registry`: metrics of `/metrics`.  `counters`: totals by name,
    with descriptions.  `connections`: number of open connections by protocol.  `times`: request durations.  `bridges`:
    state of each bridge.  `mqtt`, `amqp`: those front ends, where enabled.
    """

    store: Store
    sender: Sender
    topology: Topology
    memberships: Memberships
    retained: RetainedMessages
    security: Security
    event_rules: EventRules
    deduplication: Deduplication
    subscriptions: Subscriptions
    webhooks: Webhooks
    settings: Settings
    clock: Clock
    is_ready: Callable[[], bool]
    mqtt: MqttFrontend | None = None
    amqp: AmqpFrontend | None = None
    registry: CollectorRegistry = field(default_factory=CollectorRegistry)
    counters: dict[str, tuple[str, Callable[[], int]]] = field(default_factory=dict)
    connections: dict[str, Callable[[], int]] = field(default_factory=dict)
    times: RequestTimes = field(default_factory=RequestTimes)
    addresses: Mapping[str, str] = field(default_factory=dict)
    """Bound address of each listener of this process, `host:port` by its name."""
    bridges: Callable[[], list[BridgeStatus]] = list
    background: Sequence[PeriodicWork] = ()
    """Periodic work of this gateway."""
    on_drain: list[Callable[[], None]] = field(default_factory=list)
    """Callbacks for the drain, which end endless requests."""
