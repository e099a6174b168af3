"""HttpContext: the HTTP listener's dependencies."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry

from entrepot.domain.clock import Clock
from entrepot.domain.ports import Store
from entrepot.gateway.amqp.frontend import AmqpFrontend
from entrepot.gateway.bridge.status import BridgeStatus
from entrepot.gateway.events.deduplication import Deduplication
from entrepot.gateway.events.rules import EventRules
from entrepot.gateway.events.subscriptions.subscriptions import Subscriptions
from entrepot.gateway.events.webhooks.webhooks import Webhooks
from entrepot.gateway.http.requests.request_times import RequestTimes
from entrepot.gateway.messaging.group_consumer import GroupConsumer
from entrepot.gateway.messaging.membership import Memberships
from entrepot.gateway.messaging.send import Sender
from entrepot.gateway.messaging.topology import Topology
from entrepot.gateway.mqtt.frontend import MqttFrontend
from entrepot.gateway.mqtt.retained.retained import RetainedMessages
from entrepot.gateway.peers.peers import Peers
from entrepot.gateway.rocketmq.connected import RocketMqClients
from entrepot.gateway.security.login_sessions import LoginSessions
from entrepot.gateway.security.security import Security
from entrepot.gateway.settings import Settings
from entrepot.gateway.work.periodic_work import PeriodicWork


@dataclass(slots=True)
class HttpContext:
    """The gateway's parts that routes use.

    `is_ready`: False during the start and the drain.  `registry`: metrics of `/metrics`.  `counters`: totals by name,
    with descriptions.  `connections`: number of open connections by protocol.  `times`: request durations.  `bridges`:
    state of each bridge.  `mqtt`, `amqp`, `rocketmq`: those front ends, where enabled.
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
    peers: Peers
    logins: LoginSessions
    is_ready: Callable[[], bool]
    origins: Mapping[str, str] = field(default_factory=dict)
    """Origin of each setting that is not its default, by its key."""
    mqtt: MqttFrontend | None = None
    amqp: AmqpFrontend | None = None
    rocketmq: RocketMqClients | None = None
    registry: CollectorRegistry = field(default_factory=CollectorRegistry)
    counters: dict[str, tuple[str, Callable[[], int]]] = field(default_factory=dict)
    connections: dict[str, Callable[[], int]] = field(default_factory=dict)
    times: RequestTimes = field(default_factory=RequestTimes)
    addresses: Mapping[str, str] = field(default_factory=dict)
    """Bound address of each listener of this process, `host:port` by its name."""
    bridges: Callable[[], list[BridgeStatus]] = list
    background: Sequence[PeriodicWork] = ()
    """Periodic work of this gateway."""
    group_consumers: list[Callable[[str], Sequence[GroupConsumer]]] = field(default_factory=list)
    """Consumers of a group, by its stored name, at listeners that no other field here has."""
    on_drain: list[Callable[[], None]] = field(default_factory=list)
    """Callbacks for the drain, which end endless requests."""
