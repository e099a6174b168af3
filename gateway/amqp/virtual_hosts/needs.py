"""Needs: the rights for AMQP's operations, on the names of the same messages in other protocols.

An exchange or queue is `entity_name`, the name of its Topic. A message is `<exchange>/<routing key>` with `/` for `.`;
of `amq.topic` it is the routing key alone, of the default exchange the queue. A binding, a dead-letter exchange and an
alternate exchange name sets of messages: MQTT filters, which an ALLOW has to contain and no DENY may meet.

The AMQP listener and RabbitMQ's API ask for these; each has its own words for the refusal.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final

from entrepot.domain.access.model import EVERYTHING, NAMESPACE_LEVEL, Action, ResourceType, default_exchange_name
from entrepot.domain.access.model import Request as Need
from entrepot.domain.entity_name import encoded_name
from entrepot.domain.exchanges.binding import Binding, DestinationKind
from entrepot.domain.exchanges.exchange import ALTERNATE_EXCHANGE, DEFAULT_EXCHANGE, Exchange, ExchangeType
from entrepot.domain.names import DEFAULT_NAMESPACE
from entrepot.domain.queues.arguments import DEAD_LETTER_EXCHANGE, DEAD_LETTER_ROUTING_KEY, PREFIX
from entrepot.protocols.amqp.mapping import MQTT_EXCHANGE

REMEMBERED_NAMES: Final = 8192
"""Message names that are kept, the least used forgotten: at most 3 KB each."""
_TOPIC, _GROUP = ResourceType.TOPIC, ResourceType.GROUP
_NO_NAME: Final = frozenset("+#\0")
"""Characters that no topic name has. A routing key may; it then stands for all of its exchange."""


def entity_name(namespace: str, name: str) -> str:
    """The name of an exchange or queue in requests. Raises BAD_REQUEST (too long)."""
    return _in(namespace, encoded_name(name))


@lru_cache(REMEMBERED_NAMES)
def message_name(namespace: str, exchange: str, key: str) -> str:
    """The name of a message with a routing key. Raises BAD_REQUEST (too long)."""
    if exchange == DEFAULT_EXCHANGE:
        return entity_name(namespace, key)
    if _NO_NAME.intersection(key):
        return all_messages(namespace, exchange)
    return _below(namespace, exchange, key.replace(".", "/"))


def matching_messages(namespace: str, exchange: str, exchange_type: ExchangeType, key: str) -> str:
    """The filter of the messages that a binding with this key takes from an exchange."""
    if exchange_type is ExchangeType.DIRECT:
        return message_name(namespace, exchange, key)
    if exchange_type is not ExchangeType.TOPIC:
        return all_messages(namespace, exchange)
    levels = key.replace("*", "+").split(".")
    if "#" in levels:  # in the middle it stands for any number of words, too
        levels = levels[: levels.index("#") + 1]
    return _below(namespace, exchange, "/".join(levels))


def all_messages(namespace: str, exchange: str) -> str:
    """The filter of all messages to an exchange: any queue for the default one, any name for `amq.topic`."""
    if exchange not in (DEFAULT_EXCHANGE, MQTT_EXCHANGE):
        return f"{entity_name(namespace, exchange)}/#"
    return _in(namespace, "#")


def to_publish(namespace: str, exchange: str, keys: Iterable[str]) -> list[Need]:
    """The needs of publishing with a routing key, and with those of the headers CC and BCC."""
    instead = instead_of(namespace, exchange)
    return [Need(Action.PUB, _TOPIC, message_name(namespace, exchange, key), instead) for key in keys]


def instead_of(namespace: str, exchange: str) -> str:
    """The name on which PUB is enough for any message to the exchange: of the default one, which has all queues."""
    return default_exchange_name(namespace) if exchange == DEFAULT_EXCHANGE else ""


def to_read(namespace: str, queue: str) -> list[Need]:
    """The needs of consuming from a queue, getting from it, purging it."""
    return [Need(Action.SUB, _GROUP, entity_name(namespace, queue))]


def to_change(namespace: str, action: Action, name: str) -> list[Need]:
    """The needs of declaring (CREATE), deleting, or binding (UPDATE) an exchange or queue."""
    return [Need(action, _TOPIC, entity_name(namespace, name))]


def to_bind(namespace: str, binding: Binding, source: Exchange | None) -> list[Need]:
    """The needs of a binding: reading its messages, and writing them if it leads to an exchange. A missing source
    counts as a topic exchange, as a Topic would be."""
    key, source_type = binding.routing_key, ExchangeType.TOPIC if source is None else source.routing_type
    needs = to_change(namespace, Action.UPDATE, binding.destination)
    needs.append(Need(Action.SUB, _TOPIC, matching_messages(namespace, binding.source, source_type, key)))
    if binding.destination_kind is DestinationKind.EXCHANGE:
        needs.append(Need(Action.PUB, _TOPIC, matching_messages(namespace, binding.destination, source_type, key)))
    return needs


def to_send_dead_letters(namespace: str, queue: str, exchange: str | None, key: str | None) -> list[Need]:
    """The needs of a dead-letter exchange, with a fixed key or any."""
    if exchange is None:
        return []
    return [*to_read(namespace, queue), _to_hand_on(namespace, exchange, key)]


def to_have_alternate(namespace: str, exchange: str, alternate: str | None) -> list[Need]:
    """The needs of an alternate exchange for unroutable messages."""
    if alternate is None:
        return []
    taken = Need(Action.SUB, _TOPIC, all_messages(namespace, exchange))
    return [taken, _to_hand_on(namespace, alternate, None)]


def to_put_policy(namespace: str, definition: Mapping[str, object]) -> list[Need]:
    """The needs of a policy's redirections: it reads all that its pattern matches, now or later."""
    letters = definition.get(DEAD_LETTER_EXCHANGE.removeprefix(PREFIX))
    key = definition.get(DEAD_LETTER_ROUTING_KEY.removeprefix(PREFIX))
    alternate = definition.get(ALTERNATE_EXCHANGE)
    needs: list[Need] = []
    if isinstance(letters, str):
        needs += [
            Need(Action.SUB, _GROUP, EVERYTHING),
            _to_hand_on(namespace, letters, key if isinstance(key, str) else None),
        ]
    if isinstance(alternate, str):
        needs += [Need(Action.SUB, _TOPIC, EVERYTHING), _to_hand_on(namespace, alternate, None)]
    return needs


def _to_hand_on(namespace: str, exchange: str, key: str | None) -> Need:
    """The need of publishing later, with a known key or any."""
    name = all_messages(namespace, exchange) if key is None else message_name(namespace, exchange, key)
    return Need(Action.PUB, _TOPIC, name, instead_of(namespace, exchange))


def _below(namespace: str, exchange: str, rest: str) -> str:
    if exchange == MQTT_EXCHANGE:
        return _in(namespace, rest)
    name = entity_name(namespace, exchange)
    return f"{name}/{rest}" if rest else name


def _in(namespace: str, name: str) -> str:
    if namespace == DEFAULT_NAMESPACE:
        return name
    inside = "+/#" if name == "#" else name  # `#` would stand for the namespace's own name, too
    return f"{NAMESPACE_LEVEL}/{namespace}/{inside}"
