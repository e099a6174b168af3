"""Routing: turns a publish into a message with its queues.

A message to a Topic's exchange is also stored in that Topic, under the sub-topic `<topic>/<key>` with `/` for `.`. A
message to `amq.topic` is stored under MQTT's names: other protocols see it. The default exchange and the other
predeclared exchanges keep nothing for others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from entrepot.domain.entity_name import encoded_name
from entrepot.domain.exchanges.exchange import RESERVED_PREFIX, Exchange, ExchangeType
from entrepot.domain.message import Destinations, Message, SystemProperty
from entrepot.domain.names import DEFAULT_NAMESPACE
from entrepot.domain.ports import Store
from entrepot.gateway.amqp.virtual_hosts.definitions import waiting_topic
from entrepot.gateway.amqp.virtual_hosts.vhost import Queue, Vhost
from entrepot.gateway.messaging.routes import Routes
from entrepot.protocols.amqp.connection_events import Publish
from entrepot.protocols.amqp.mapping import BCC, MQTT_EXCHANGE, bcc_of, further_keys, to_message, without_bcc

DELAY: Final = "x-delay"
"""Header of messages to an exchange of type x-delayed-message: milliseconds."""
OnTimed = Callable[[Vhost, Queue, int], None]


class Routing:
    """The routing of one virtual host; `keeps_topics` if exchanges have Topics."""

    def __init__(self, store: Store, routes: Routes, *, keeps_topics: bool) -> None:
        self._store, self._routes, self._keeps_topics = store, routes, keeps_topics
        self.on_timed: OnTimed = lambda vhost, queue, at_ms: None
        """Callback for each destination queue in which the message will expire."""
        self.on_delayed: OnTimed = lambda vhost, queue, at_ms: None
        """Callback for each destination queue of a delayed message, with the time of its arrival there."""

    def exchange_of_topic(self, vhost: Vhost, name: str) -> Exchange | None:
        """The exchange of a Topic, declared or not, but for a deleted one. Only the default virtual host has such, as
        MQTT's names are its."""
        if not name or vhost.namespace != DEFAULT_NAMESPACE or name in vhost.deleted:
            return None
        if self._store.topology.topic(encoded_name(name)) is None:
            return None
        return Exchange(name, ExchangeType.TOPIC)

    def message(self, vhost: Vhost, publish: Publish, queues: Sequence[str], now_ms: int) -> Message | None:
        """The message for the queues, or None where nothing keeps it. The keys of BCC are kept for its dead letter."""
        destinations = self._places(vhost, publish, queues)
        delay_ms = _delay_ms(vhost, publish)
        if delay_ms and (waiting := self._waiting(vhost)) is not None:
            destinations, queues = [waiting], ()
        if delay_ms:  # in a queue its life begins with its arrival
            now_ms += delay_ms
            for name in queues:
                if (queue := vhost.queues.get(name)) is not None:
                    self.on_delayed(vhost, queue, now_ms)
        if vhost.timed or publish.header.has_expiration:
            self._note_times(vhost, publish, queues, now_ms)
        sub_topic, filter_hash = "", 0
        if publish.exchange and self._keeps_topics and vhost.namespace == DEFAULT_NAMESPACE:
            sub_topic = self._sub_topic(publish)
            if sub_topic:
                topic, queue_id, filter_hash = self._routes.of(sub_topic)
                destinations.insert(0, (topic, queue_id))
        if not destinations:
            return None
        bcc: list[str] = []
        if publish.header.may_have_header(b"BCC"):
            bcc, publish = further_keys(publish.header, BCC), without_bcc(publish)
        message = to_message(publish, tuple(destinations), sub_topic, filter_hash, now_ms)
        if bcc:
            message.system = {**message.system, SystemProperty.AMQP_BCC: bcc_of(bcc)}
        if delay_ms:
            message.system = {**message.system, SystemProperty.DELIVER_AT_MS: now_ms}
        return message

    def arrived(self, vhost: Vhost, publish: Publish, queues: Sequence[str], now_ms: int) -> Message | None:
        """The message of a publish whose delay has ended, or None without queues."""
        destinations = self._places(vhost, publish, queues)
        if not destinations:
            return None
        self._note_times(vhost, publish, queues, now_ms)
        return to_message(publish, tuple(destinations), "", 0, now_ms)

    def _waiting(self, vhost: Vhost) -> tuple[str, int] | None:
        """The place of delayed messages; None where it is not known: then they are routed at once."""
        topic = self._store.topology.topic(waiting_topic(vhost.namespace))
        return None if topic is None else (topic.name, self._store.topology.queues(topic).writable[0])

    def _places(self, vhost: Vhost, publish: Publish, queues: Sequence[str]) -> list[tuple[str, int]]:
        return [self.place(vhost, name, publish) for name in queues if name in vhost.queues]

    def _note_times(self, vhost: Vhost, publish: Publish, queues: Sequence[str], now_ms: int) -> None:
        own = publish.header.expiration
        for name in queues:
            queue = vhost.queues.get(name)
            if queue is not None:
                ends = [each for each in (queue.declaration.arguments.message_ttl_ms,) if each is not None]
                if own is not None:
                    ends.append(int(own))
                if ends:
                    self.on_timed(vhost, queue, now_ms + min(ends))

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
        """The place of a queue's message in the store: a queue with priorities has a message queue for each."""
        queue = vhost.queues[name]
        topic = self._store.topology.topic(queue.topic)
        ids = (0,) if topic is None else self._store.topology.queues(topic).writable
        if len(ids) == 1:
            return queue.topic, ids[0]
        return queue.topic, ids[min(publish.header.priority or 0, len(ids) - 1)]


def _delay_ms(vhost: Vhost, publish: Publish) -> int:
    """Milliseconds by which an exchange delays a publish; 0 for none."""
    exchange = vhost.routing.exchange(publish.exchange)
    if exchange is None or exchange.type is not ExchangeType.DELAYED:
        return 0
    delay_ms = (publish.header.headers or {}).get(DELAY)
    return max(delay_ms, 0) if isinstance(delay_ms, int) else 0


def places(message: Message) -> Destinations:
    """Every message queue of a message."""
    return ((message.topic, message.queue_id), *message.further_queues)
