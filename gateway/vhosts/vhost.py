"""Vhost: one virtual host as this gateway knows it.

Invariant: it is what the key-values say, or will say as soon as the watch is told of this gateway's own last writes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import structlog

from domain.errors import EntrepotError
from domain.names import DEFAULT_NAMESPACE, qualified, queue_feed
from domain.queue_arguments import QueueType
from domain.queue_declaration import QueueDeclaration
from domain.routing.binding import Binding
from domain.routing.entity_name import encoded_name
from domain.routing.exchange_routing import Removal, Routing
from gateway.vhosts import records
from gateway.vhosts.records import BindingRecord, ExchangeRecord, QueueRecord, Record

DEFAULT_VHOST: Final = "/"

log = structlog.get_logger(__name__)


def vhost_of(namespace: str) -> str:
    """The virtual host that is a namespace."""
    return DEFAULT_VHOST if namespace == DEFAULT_NAMESPACE else namespace


def namespace_of(vhost: str) -> str:
    """The namespace that a virtual host is; the default one is `/`, and may be spelt out."""
    return DEFAULT_NAMESPACE if vhost == DEFAULT_VHOST else vhost


@dataclass(frozen=True)
class Queue:
    """A queue: its definition, and the Topic and group that it is in the store.  `gateway` and `connection`: whose it
    is where it is exclusive."""

    declaration: QueueDeclaration
    namespace: str
    gateway: str = ""
    connection: str = ""

    @property
    def name(self) -> str:
        return self.declaration.name

    @property
    def is_stream(self) -> bool:
        """Whether it is read by offset, and nothing is taken out of it."""
        return self.declaration.arguments.queue_type is QueueType.STREAM

    @cached_property
    def topic(self) -> str:
        """The Topic that holds what waits."""
        return queue_feed(self.namespace, encoded_name(self.name))

    @cached_property
    def group(self) -> str:
        """The group whose consumers are the queue's."""
        return qualified(self.namespace, encoded_name(self.name))


class Vhost:
    """See the module."""

    def __init__(self, namespace: str) -> None:
        self.namespace = namespace
        self.name = vhost_of(namespace)
        self.routing = Routing(self.name)
        self.queues: dict[str, Queue] = {}
        self.owned: dict[str, set[str]] = {}
        """Names of exclusive queues, by connection."""
        self.timed: set[str] = set()
        """Names of queues whose messages have a time of the queue's."""
        self.limited: dict[str, Queue] = {}
        """Those that may hold so many messages or bytes, by their Topics."""
        self.transient: dict[str, str] = {}
        """Exchanges that are not durable, with the gateway that made each."""
        self._orphans: dict[str, BindingRecord] = {}
        """Bindings, by key, one end of which is not known yet."""
        self._by_key: dict[str, Record] = {}

    def queue(self, name: str) -> Queue | None:
        return self.queues.get(name)

    def queue_of_key(self, key: str) -> Queue | None:
        record = self._by_key.get(key)
        return self.queues.get(record.name) if isinstance(record, QueueRecord) else None

    def bindings(self) -> Iterator[Binding]:
        """All of them but those to the default exchange."""
        return (
            binding
            for exchange in self.routing.exchanges()
            for binding in self.routing.bindings_of_source(exchange.name)
        )

    def apply(self, key: str, record: Record | None) -> None:
        """What a key says now; None: nothing any more."""
        before = self._by_key.pop(key, None)
        if before is not None and (record is None or not isinstance(record, QueueRecord)):
            self._remove(key, before)
        if record is None:
            return
        self._by_key[key] = record
        try:
            self._add(key, record)
        except EntrepotError as error:
            log.warning("a definition is not understood", key=key, problem=error.message)

    def _add(self, key: str, record: Record) -> None:
        if isinstance(record, ExchangeRecord):
            self.routing.declare_exchange(records.exchange_of(record))
            if record.gateway:
                self.transient[record.name] = record.gateway
            self._adopt(record.name)
        elif isinstance(record, QueueRecord):
            declaration = records.declaration_of(record, self.name)
            queue = Queue(declaration, self.namespace, record.gateway, record.connection)
            self.queues[record.name] = queue
            if record.connection:
                self.owned.setdefault(record.connection, set()).add(record.name)
            if declaration.arguments.message_ttl_ms is not None:
                self.timed.add(record.name)
            arguments = declaration.arguments
            if not queue.is_stream and (arguments.max_length is not None or arguments.max_length_bytes is not None):
                self.limited[queue.topic] = queue
            self.routing.declare_queue(record.name)
            self._adopt(record.name)
        else:
            self._bind(key, record)

    def _bind(self, key: str, record: BindingRecord) -> None:
        is_queue = record.kind == "queue"
        there = record.destination in self.queues if is_queue else self.routing.exchange(record.destination) is not None
        if there and self.routing.exchange(record.source) is not None:
            self.routing.bind(records.binding_of(record))
        else:
            self._orphans[key] = record

    def _adopt(self, name: str) -> None:
        for key, record in [each for each in self._orphans.items() if name in (each[1].source, each[1].destination)]:
            del self._orphans[key]
            self._bind(key, record)

    def _remove(self, key: str, record: Record) -> None:
        if isinstance(record, ExchangeRecord):
            self.transient.pop(record.name, None)
            self.routing.remove(Removal(exchanges=(record.name,)))
        elif isinstance(record, QueueRecord):
            queue = self.queues.pop(record.name, None)
            self.timed.discard(record.name)
            if record.connection:
                of_connection = self.owned.get(record.connection, set())
                of_connection.discard(record.name)
                if not of_connection:
                    self.owned.pop(record.connection, None)
            if queue is not None:
                self.limited.pop(queue.topic, None)
            self.routing.remove(Removal(queue=record.name))
        elif self._orphans.pop(key, None) is None:
            self.routing.remove(Removal(bindings=(records.binding_of(record),)))
