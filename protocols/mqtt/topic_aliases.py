"""Topic aliases of one connection (MQTT 5.0 section 3.3.2.3.4), one table for each direction.  An alias never outlives
its connection (MQTT-3.3.2-7), and the announced maximum bounds the tables."""

from __future__ import annotations

from typing import Any

from entrepot.protocols.mqtt.encoder import PublishTemplate
from entrepot.protocols.mqtt.errors import MqttError, protocol_error
from entrepot.protocols.mqtt.packets import Publish
from entrepot.protocols.mqtt.properties import PropertyId
from entrepot.protocols.mqtt.reason_codes import ReasonCode


class ClientsAliases:
    """The client's aliases and their topics."""

    __slots__ = ("_maximum", "_topics")

    def __init__(self, maximum: int) -> None:
        self._maximum = maximum
        self._topics: dict[int, str] = {}

    def resolve(self, packet: Publish) -> None:
        """Give a PUBLISH with an alias its topic, and remove the alias, which is the client's own."""
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
    """The server's aliases, given to the topics it sends first, as many as the client allows."""

    __slots__ = ("_aliases", "_maximum")

    def __init__(self, maximum: int) -> None:
        self._maximum = maximum
        self._aliases: dict[str, int] = {}

    def shorten(self, template: PublishTemplate, max_size: int, *, may_tell: bool) -> PublishTemplate:
        """Return a PUBLISH with an alias, or unchanged if none is left or it exceeds `max_size` bytes.  `may_tell`: it
        is sent before any later packet, so it may introduce an alias."""
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
        self._aliases[topic] = alias  # only now: the packet with it is sent
        return aliased
