"""Topic aliases of one connection (MQTT 5.0 section 3.3.2.3.4), one table for each direction.

An alias never outlives its connection (MQTT-3.3.2-7), and what is kept is bounded by the maximum that was announced.
"""

from __future__ import annotations

from typing import Any

from protocols.mqtt.errors import MqttError, protocol_error
from protocols.mqtt.packets import Publish
from protocols.mqtt.properties import PropertyId
from protocols.mqtt.reason_codes import ReasonCode


class ClientsAliases:
    """What the client's aliases stand for."""

    __slots__ = ("_maximum", "_topics")

    def __init__(self, maximum: int) -> None:
        self._maximum = maximum
        self._topics: dict[int, str] = {}

    def resolve(self, packet: Publish) -> None:
        """Give a PUBLISH that has an alias its topic, and take the alias away, which is not for others."""
        alias: int = packet.properties[PropertyId.TOPIC_ALIAS]
        if alias > self._maximum:
            raise MqttError(ReasonCode.TOPIC_ALIAS_INVALID, f"topic alias {alias}, the maximum is {self._maximum}")
        if packet.topic:
            self._topics[alias] = packet.topic
        else:
            topic = self._topics.get(alias)
            if topic is None:
                raise protocol_error(f"topic alias {alias} was not given a topic")
            packet.topic = topic
        kept: dict[PropertyId, Any] = {
            key: value for key, value in packet.properties.items() if key != PropertyId.TOPIC_ALIAS
        }
        packet.properties = kept


class ServersAliases:
    """Aliases that the server gives the topics it sends first, as many as the client allows."""

    __slots__ = ("_aliases", "_maximum")

    def __init__(self, maximum: int) -> None:
        self._maximum = maximum
        self._aliases: dict[str, int] = {}

    def of(self, topic: str) -> tuple[int, bool]:
        """(alias, whether the client knows it already); alias 0 where there is none left."""
        alias = self._aliases.get(topic)
        if alias is not None:
            return alias, True
        if len(self._aliases) >= self._maximum:
            return 0, False
        alias = self._aliases[topic] = len(self._aliases) + 1
        return alias, False
