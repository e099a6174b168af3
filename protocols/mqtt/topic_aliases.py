"""Topic aliases of one connection (MQTT 5.0 section 3.3.2.3.4), one table for each direction.

An alias never outlives its connection (MQTT-3.3.2-7), and what is kept is bounded by the maximum that was announced.
"""

from __future__ import annotations

from typing import Any

from protocols.mqtt.encoder import PublishTemplate
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

    def shorten(self, template: PublishTemplate, max_size: int, *, may_tell: bool) -> PublishTemplate:
        """A PUBLISH with an alias, or as it is where none is left or `max_size` bytes are not enough.

        `may_tell`: whether the client gets it before what is made after it, so that a new alias can be in it.
        """
        topic = template.topic
        alias = self._aliases.get(topic)
        is_known = alias is not None
        if alias is None:
            if not may_tell or len(self._aliases) >= self._maximum:
                return template
            alias = len(self._aliases) + 1
        aliased = template.with_alias(alias, is_known=is_known)
        if aliased.size > max_size:
            return template
        self._aliases[topic] = alias  # only now: the client knows what it was sent
        return aliased
