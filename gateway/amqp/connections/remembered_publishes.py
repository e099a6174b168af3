"""RememberedPublishes: a cache of publishes and their messages, for publishes that differ in the body alone.

Applications publish with the same exchange, routing key and content header again and again.  Rights, route and
properties are then the same, so all of the message but its body and time is kept.

Invariant: an entry equals a new lookup.  It depends on one principal's rights, the virtual hosts' definitions and the
topics' queues; a change of any of them clears the cache.  Results that depend on time or on the connection are not
kept.

A publish is kept when it comes the second time: keys and headers that never come again would cost more than they save.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

from entrepot.domain.access.model import Principal
from entrepot.domain.exchanges.exchange import ExchangeType
from entrepot.domain.message import TIMES, Message, SharedProperties
from entrepot.domain.ports import Topology
from entrepot.gateway.amqp.virtual_hosts.definitions import Definitions
from entrepot.gateway.amqp.virtual_hosts.vhost import Vhost
from entrepot.gateway.security.security import Security
from entrepot.protocols.amqp.connection_events import Publish

MAX_PUBLISHES: Final = 16_384
"""Maximum number of entries, of all connections together; a full cache is cleared."""
MAX_BYTES: Final = 32 << 20
"""Maximum memory of all entries in bytes, as `_bytes_of` estimates it."""
MAX_PUBLISH_BYTES: Final = 64 << 10
"""Maximum memory of one entry; a larger one is not kept."""
MAX_SEEN: Final = 16_384
"""Maximum number of hashes of publishes that came once; a full set is cleared."""
PUBLISH_BYTES: Final = 1024
PLACE_BYTES: Final = 128
PROPERTY_BYTES: Final = 256
"""Estimates: of a publish without its texts, of a further queue, of a property without its text."""

Key: TypeAlias = tuple[str, str, bytes]
"""Exchange, routing key, and the content header's flags and properties."""


class KnownPublish:
    """A message without its body and time.  `is_routed`: it goes to some queue.  `size`: estimated memory."""

    __slots__ = (
        "_filter_hash",
        "_further",
        "_properties",
        "_queue_id",
        "_sub_topic",
        "_system",
        "_topic",
        "is_routed",
        "size",
    )

    def __init__(self, message: Message, size: int, *, is_routed: bool) -> None:
        self.is_routed, self.size = is_routed, size
        self._topic, self._sub_topic, self._queue_id = message.topic, message.sub_topic, message.queue_id
        self._filter_hash, self._further = message.filter_hash, message.further_queues
        self._properties = message.properties
        self._system = SharedProperties(message.system, message.properties)

    def message(self, body: bytes, now_ms: int) -> Message:
        """Return the message of such a publish, as `protocols.amqp.mapping.to_message` makes it."""
        return Message(
            self._topic,
            body,
            self._sub_topic,
            self._queue_id,
            2,
            "",
            (),
            "",
            b"",
            now_ms,
            self._filter_hash,
            self._properties,
            self._system,
            self._further,
        )


Known: TypeAlias = dict[Key, KnownPublish]
NOTHING: Final[Known] = {}


class RememberedPublishes:
    """The cache of publishes."""

    def __init__(self, definitions: Definitions, security: Security, topology: Topology) -> None:
        self._security = security
        self._rights_version = security.rights_version
        self._of: dict[tuple[Vhost, Principal], Known] = {}
        self._seen: set[int] = set()
        self.count = self.size = 0
        """Number and memory of the entries; a principal without entries counts as one."""
        definitions.on_change.append(self.forget)
        topology.watch_topics(lambda name: self.forget())

    def of(self, vhost: Vhost, principal: Principal | None, now_ms: int) -> Known | None:
        """Return a principal's known publishes to a virtual host, or None where nothing may be kept.  They are valid
        for one run only: ask again for the next."""
        if self._rights_version != self._security.rights_version:
            self._rights_version = self._security.rights_version
            self.forget()
        if principal is None or (principal.expires_at_ms is not None and principal.expires_at_ms <= now_ms):
            return None
        known = self._of.get((vhost, principal))
        if known is None:
            self._make_room(PUBLISH_BYTES)
            known = self._of[vhost, principal] = {}
        return known

    def keep(self, known: Known, vhost: Vhost, publish: Publish, queues: Sequence[str], message: Message) -> None:
        """Keep a publish's message, if this publish is not the first and the next one gives the same message."""
        if not publish.header.may_come_again:
            return
        key = (publish.exchange, publish.routing_key, publish.header.data)
        if not self._is_seen(hash(key)) or not _is_by_key(vhost, publish, queues, message):
            return
        size = _bytes_of(publish, message)
        if size <= MAX_PUBLISH_BYTES:
            self._make_room(size)
            known[key] = KnownPublish(message, size, is_routed=bool(queues))

    def leave(self, vhost: Vhost, principal: Principal) -> None:
        """Drop the entries of a closed login."""
        known = self._of.pop((vhost, principal), None)
        if known is not None:
            self.count -= 1 + len(known)
            self.size -= PUBLISH_BYTES + sum([each.size for each in known.values()])
            known.clear()

    def _is_seen(self, key: int) -> bool:
        """Note a publish's hash; True if it was known."""
        seen = self._seen
        if key in seen:
            return True
        if len(seen) >= MAX_SEEN:
            seen.clear()
        seen.add(key)
        return False

    def forget(self) -> None:
        """Drop all entries, but keep the hashes seen: those publishes may come again."""
        for known in self._of.values():
            known.clear()
        self._of.clear()
        self.count = self.size = 0

    def _make_room(self, size: int) -> None:
        if self.count >= MAX_PUBLISHES or self.size + size > MAX_BYTES:
            self.forget()
        self.count += 1
        self.size += size


def _is_by_key(vhost: Vhost, publish: Publish, queues: Sequence[str], message: Message) -> bool:
    """True if the key alone decided: no time, no chance, no further keys, no queue that is chosen in the store."""
    if vhost.routing.is_random or message.queue_id < 0 or not TIMES.isdisjoint(message.system):
        return False
    if publish.header.may_have_header(b"CC"):  # finds BCC as well
        return False
    if vhost.timed and not vhost.timed.isdisjoint(queues):
        return False
    exchange = vhost.routing.exchange(publish.exchange)
    return exchange is None or exchange.type is not ExchangeType.DELAYED


def _bytes_of(publish: Publish, message: Message) -> int:
    texts = len(publish.exchange) + len(publish.routing_key) + len(publish.header.data) + len(message.sub_topic)
    further, pairs = len(message.further_queues), len(message.properties) + len(message.system)
    own = sum(len(name) + len(value) for name, value in message.properties)
    return PUBLISH_BYTES + 4 * (texts + own) + PLACE_BYTES * further + PROPERTY_BYTES * pairs
