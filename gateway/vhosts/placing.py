"""Placing: the message that a publish becomes: which queues of which Topics get it.

What is published to an exchange of its own name lies in that Topic too, under the sub-topic `<topic>/<key>` with `/`
for `.`, and what is published to `amq.topic` lies where MQTT's names do: other doors see it.  The default exchange and
the other exchanges that every virtual host has keep nothing for others.
"""

from __future__ import annotations

from collections.abc import Sequence

from domain.message import Destinations, Message, SystemProperty
from domain.names import DEFAULT_NAMESPACE
from domain.ports import Store
from domain.routing.entity_name import encoded_name
from domain.routing.exchange import RESERVED_PREFIX
from gateway.frontends.mqtt.routes import Routes
from gateway.vhosts.vhost import Vhost
from protocols.amqp.connection_events import Publish
from protocols.amqp.mapping import MQTT_EXCHANGE, to_message


class Placing:
    """`keeps_topics`: whether exchanges have Topics."""

    def __init__(self, store: Store, routes: Routes, *, keeps_topics: bool) -> None:
        self._store, self._routes, self._keeps_topics = store, routes, keeps_topics

    def message(self, vhost: Vhost, publish: Publish, queues: Sequence[str], now_ms: int) -> Message | None:
        """The message for the queues, or None where nothing is to keep it."""
        destinations = [self.place(vhost, name, publish) for name in queues if name in vhost.queues]
        sub_topic, filter_hash = "", 0
        if publish.exchange and self._keeps_topics and vhost.namespace == DEFAULT_NAMESPACE:
            sub_topic = self._sub_topic(publish)
            if sub_topic:
                topic, queue_id, filter_hash = self._routes.of(sub_topic)
                destinations.insert(0, (topic, queue_id))
        if not destinations:
            return None
        return to_message(publish, tuple(destinations), sub_topic, filter_hash, now_ms)

    def _sub_topic(self, publish: Publish) -> str:
        name, key = publish.exchange, publish.routing_key.replace(".", "/")
        if name == MQTT_EXCHANGE:
            return key if key and key[0] != "$" and not ("+" in key or "#" in key or "\0" in key) else ""
        if name.startswith(RESERVED_PREFIX):
            return ""
        topic = encoded_name(name)
        if "+" in key or "#" in key or "\0" in key:
            return topic
        return f"{topic}/{key}" if key else topic

    def place(self, vhost: Vhost, name: str, publish: Publish) -> tuple[str, int]:
        """Where in the store a message of a queue lies: a queue with priorities has a message queue for each."""
        queue = vhost.queues[name]
        topic = self._store.topic(queue.topic)
        ids = (0,) if topic is None else self._store.queues(topic).writable
        if len(ids) == 1:
            return queue.topic, ids[0]
        return queue.topic, ids[min(publish.header.priority or 0, len(ids) - 1)]


def places(message: Message) -> Destinations:
    """Every message queue that a message goes to."""
    return ((message.topic, message.queue_id), *message.further_queues)


def is_of_amqp(message: Message) -> bool:
    return SystemProperty.AMQP in message.system
