"""Common parts of the nouns of MQTT: the front end, versions, subscriptions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from entrepot.gateway.operations.row.problem import MissingError
from entrepot.gateway.operations.row.shapes import Part, shown_as

if TYPE_CHECKING:
    from entrepot.gateway.mqtt.frontend import MqttFrontend
    from entrepot.gateway.mqtt.sessions.record import SubscriptionRecord

MAX_LIMIT: Final = 1000
MAX_TEXT: Final = 1024
VERSIONS: Final = {3: "3.1", 4: "3.1.1", 5: "5"}
"""Protocol versions by level; level 0 is a connection before CONNECT."""


class SubscribedFilter(Part, frozen=True):
    filter: str
    qos: int
    no_local: bool
    retain_as_published: bool
    retain_handling: int
    identifier: int | None


shown_as(SubscribedFilter("factory/#", 1, no_local=False, retain_as_published=False, retain_handling=0, identifier=7))


def subscribed_filter(record: SubscriptionRecord) -> SubscribedFilter:
    """Return a subscription as it is shown."""
    return SubscribedFilter(
        record.filter,
        record.qos,
        record.no_local,
        record.retain_as_published,
        record.retain_handling,
        record.identifier or None,
    )


def version_name(level: int) -> str:
    """Return the version name of a protocol level."""
    return VERSIONS.get(level, "none")


def required_mqtt(mqtt: MqttFrontend | None) -> MqttFrontend:
    """Return the MQTT front end.  Raises MissingError where this process has none."""
    if mqtt is None:
        raise MissingError("no-mqtt", "There is no MQTT listener", "this process has no MQTT listener")
    return mqtt
