"""Bindings: messages of other protocols reach the AMQP queues that are bound to their names.

A name `factory/line1/temp` is the routing key `factory.line1.temp` of `amq.topic`, and `line1.temp` of the exchange
`factory`, if there is one (every Topic is an exchange). AMQP clients' own messages were routed before.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from entrepot.domain.entity_name import decoded_name
from entrepot.domain.exchanges.routing import UnknownExchange
from entrepot.domain.message import Destinations, Message, SystemProperty
from entrepot.domain.names import DEFAULT_NAMESPACE, NAMESPACE_SEPARATOR, is_hidden_topic
from entrepot.domain.ports import Store
from entrepot.domain.routing.queue_selector import priority_of
from entrepot.gateway.amqp.virtual_hosts.definitions import Definitions
from entrepot.gateway.amqp.virtual_hosts.routing import OnTimed
from entrepot.gateway.amqp.virtual_hosts.vhost import Queue, Vhost
from entrepot.protocols.amqp.mapping import MQTT_EXCHANGE

MAX_ROUTES: Final = 65_536
"""Names whose queues are remembered; all are forgotten when there is no room."""


class Bindings:
    """The bindings of the default virtual host, to which MQTT's names belong."""

    def __init__(self, store: Store, definitions: Definitions, on_timed: OnTimed) -> None:
        self._store, self._definitions, self._on_timed = store, definitions, on_timed
        self._routes: dict[tuple[str, str], tuple[Queue, ...]] = {}
        self.is_needed = False
        """True if there is any binding."""
        definitions.on_change.append(self._changed)

    def _changed(self) -> None:
        self._routes.clear()
        vhost = self._definitions.vhost_in(DEFAULT_NAMESPACE)
        self.is_needed = vhost is not None and vhost.routing.binding_count > 0

    def add_queues(self, messages: Sequence[Message], now_ms: int) -> None:
        """Add the bound queues to the messages' further queues."""
        vhost = self._definitions.vhost_in(DEFAULT_NAMESPACE)
        assert vhost is not None
        found: list[tuple[Message, Destinations]] = []
        for message in messages:
            if SystemProperty.AMQP in message.system:
                continue
            key = (message.topic, message.sub_topic)
            queues = self._routes.get(key)
            if queues is None:
                queues = self._find(vhost, message)
                if len(self._routes) >= MAX_ROUTES:
                    self._routes.clear()
                self._routes[key] = queues
            if queues:
                found.append((message, self._places(vhost, queues, message, now_ms)))
        for message, places in found:  # of all messages or, after an error, of none
            message.further_queues = (*message.further_queues, *places)

    def _find(self, vhost: Vhost, message: Message) -> tuple[Queue, ...]:
        topic, name = message.topic, message.sub_topic or message.topic
        if is_hidden_topic(topic) or NAMESPACE_SEPARATOR in topic:
            return ()
        names = dict.fromkeys(self._routed(vhost, MQTT_EXCHANGE, name))
        exchange = decoded_name(topic)
        if exchange is not None and vhost.routing.exchange(exchange) is not None:
            names |= dict.fromkeys(self._routed(vhost, exchange, name.removeprefix(topic).removeprefix("/")))
        return tuple(vhost.queues[name] for name in names if name in vhost.queues)

    @staticmethod
    def _routed(vhost: Vhost, exchange: str, name: str) -> tuple[str, ...]:
        found = vhost.routing.route(exchange, (name.replace("/", "."),))
        return () if isinstance(found, UnknownExchange) else found

    def _places(self, vhost: Vhost, queues: Sequence[Queue], message: Message, now_ms: int) -> Destinations:
        found = []
        priority = priority_of(message) if message.system else 0
        expires_at_ms = message.time_ms(SystemProperty.EXPIRES_AT_MS)
        for queue in queues:
            topic = self._store.topology.topic(queue.topic)  # None: its broker is away, and the message is refused
            ids = (0,) if topic is None else self._store.topology.queues(topic).writable
            found.append((queue.topic, ids[min(priority, len(ids) - 1)]))
            lifetime_ms = queue.declaration.arguments.message_ttl_ms
            if queue.is_limited:
                self._on_timed(vhost, queue, now_ms)
            if lifetime_ms is not None:
                self._on_timed(vhost, queue, now_ms + lifetime_ms)
            if expires_at_ms is not None:
                self._on_timed(vhost, queue, expires_at_ms)
        return tuple(found)
