"""The whole tree of the settings."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from entrepot.domain.retained import RetainedLimits
from entrepot.gateway.settings.amqp import AmqpSettings
from entrepot.gateway.settings.backup import BackupSettings
from entrepot.gateway.settings.bridge import BridgeSettings
from entrepot.gateway.settings.facts import RETAINED_IN_ETCD_BYTES, FactsSettings
from entrepot.gateway.settings.grpc import GrpcSettings
from entrepot.gateway.settings.listeners import (
    GroupsSettings,
    HttpSettings,
    MqttSettings,
    ServerSettings,
    TopicsSettings,
)
from entrepot.gateway.settings.rocketmq_bridge import RocketMqBridgeSettings
from entrepot.gateway.settings.security import SecuritySettings
from entrepot.gateway.settings.stores import (
    BrokerSettings,
    ClusterSettings,
    ControllerSettings,
    NameServerSettings,
    RocketMqClusterSettings,
    StoreSettings,
)
from entrepot.gateway.settings.table import Table
from entrepot.gateway.settings.tier import TierSettings
from entrepot.gateway.settings.webhooks import WebhookSettings


class LogSettings(Table):
    """Log of the process, on standard error."""

    level: Literal["debug", "info", "warning", "error"] = Field("info", description="Least severe level that is logged")
    format: Literal["console", "json"] = Field(
        "console", description="Log format: console for people, json for machines"
    )


class Settings(Table):
    """The whole tree."""

    server: ServerSettings = Field(default_factory=ServerSettings)
    mqtt: MqttSettings = Field(default_factory=MqttSettings)
    amqp: AmqpSettings = Field(default_factory=AmqpSettings)
    grpc: GrpcSettings = Field(default_factory=GrpcSettings)
    http: HttpSettings = Field(default_factory=HttpSettings)
    topics: TopicsSettings = Field(default_factory=TopicsSettings)
    groups: GroupsSettings = Field(default_factory=GroupsSettings)
    security: SecuritySettings = Field(default_factory=SecuritySettings)
    store: StoreSettings = Field(default_factory=StoreSettings)
    tier: TierSettings = Field(default_factory=TierSettings)
    backup: BackupSettings = Field(default_factory=BackupSettings)
    broker: BrokerSettings = Field(default_factory=BrokerSettings)
    nameserver: NameServerSettings = Field(default_factory=NameServerSettings)
    controller: ControllerSettings = Field(default_factory=ControllerSettings)
    cluster: ClusterSettings = Field(default_factory=ClusterSettings)
    rocketmq: RocketMqClusterSettings = Field(default_factory=RocketMqClusterSettings)
    facts: FactsSettings = Field(default_factory=FactsSettings)
    webhooks: WebhookSettings = Field(default_factory=WebhookSettings)
    bridge: BridgeSettings = Field(default_factory=BridgeSettings)
    rocketmq_bridge: RocketMqBridgeSettings = Field(default_factory=RocketMqBridgeSettings)
    log: LogSettings = Field(default_factory=LogSettings)

    @property
    def retained_limits(self) -> RetainedLimits:
        """The limits of retained messages, of which etcd takes fewer."""
        usual = RETAINED_IN_ETCD_BYTES if self.facts.keeps_retained_in_etcd else RetainedLimits().max_bytes
        return self.mqtt.retained_limits(usual)

    @property
    def hosts(self) -> tuple[str, ...]:
        """The server's names for clients, besides localhost and addresses."""
        return (*self.http.hosts, self.server.host)
