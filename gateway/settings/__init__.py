"""The settings: one typed tree, and the origin of each value.

The tree is two levels deep, sections of fields, so every setting has one dotted key (`mqtt.port`) that is written the
same way everywhere: as `[mqtt] port = 1883` in the TOML file, as `ENTREPOT__MQTT__PORT` in the environment, as `--set
mqtt.port=1883` on the command line. File < environment < flags. A section with a field `port` is a listener, and its
name is the listener's name in the ready file; `port_key` names the ports of the listeners beside it.

Invariants: nothing is read from the process here (the caller passes the environment and the flags). A key that is not
in the tree is an error anywhere. Every error names the key, its origin and the nearest valid key, if one is near.
"""

from entrepot.gateway.settings.backup import BackupSettings
from entrepot.gateway.settings.bridge import BridgeRemote, BridgeRule, BridgeSettings
from entrepot.gateway.settings.listeners import (
    GroupsSettings,
    HttpSettings,
    MqttSettings,
    TopicRule,
    TopicsSettings,
)
from entrepot.gateway.settings.loading import (
    DEFAULT_ORIGIN,
    LoadedSettings,
    SettingRow,
    SettingsError,
    environment_name,
    known_keys,
    listeners,
    load_settings,
    port_key,
    setting_rows,
)
from entrepot.gateway.settings.security import SecuritySettings
from entrepot.gateway.settings.stores import (
    BrokerSettings,
    ClusterSettings,
    ControllerSettings,
    StoreSettings,
)
from entrepot.gateway.settings.tier import TierSettings
from entrepot.gateway.settings.tree import Settings
from entrepot.gateway.settings.webhooks import WebhookSettings

__all__ = [
    "BackupSettings",
    "BridgeRemote",
    "BridgeRule",
    "BridgeSettings",
    "BrokerSettings",
    "ClusterSettings",
    "ControllerSettings",
    "DEFAULT_ORIGIN",
    "GroupsSettings",
    "HttpSettings",
    "LoadedSettings",
    "MqttSettings",
    "SecuritySettings",
    "SettingRow",
    "Settings",
    "SettingsError",
    "StoreSettings",
    "TierSettings",
    "TopicRule",
    "TopicsSettings",
    "WebhookSettings",
    "environment_name",
    "known_keys",
    "listeners",
    "load_settings",
    "port_key",
    "setting_rows",
]
