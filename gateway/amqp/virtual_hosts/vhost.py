"""Vhost: one virtual host as this gateway knows it.

Invariant: it equals the key-values, or will as soon as the watch tells this gateway's own last writes.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import structlog

from entrepot.domain.entity_name import encoded_name
from entrepot.domain.errors import EntrepotError
from entrepot.domain.exchanges.binding import Binding
from entrepot.domain.exchanges.routing import Removal, Routing
from entrepot.domain.names import qualified, queue_feed
from entrepot.domain.queues.arguments import QueueType
from entrepot.domain.queues.declaration import QueueDeclaration
from entrepot.domain.queues.policy import (
    Policy,
    alternate_exchange,
    effective_definition,
    policy_of_exchange,
    policy_of_queue,
    with_policy,
)
from entrepot.gateway.amqp.virtual_hosts import records
from entrepot.gateway.amqp.virtual_hosts.orphans import Orphans
from entrepot.gateway.amqp.virtual_hosts.records import (
    BindingRecord,
    DeletedRecord,
    ExchangeRecord,
    PolicyRecord,
    QueueRecord,
    Record,
)
from entrepot.gateway.amqp.virtual_hosts.vhost_names import vhost_of

log = structlog.get_logger(__name__)


@dataclass(eq=False)
class Queue:
    """A queue: its definition, with its Topic and group in the store. An exclusive one belongs to `gateway` and
    `connection`. Policies change it in place, so every holder sees the present settings."""

    declared: QueueDeclaration
    """Declaration of a client: a second one is compared with it."""
    namespace: str
    gateway: str = ""
    connection: str = ""
    policy: Policy | None = None
    operator_policy: Policy | None = None
    declaration: QueueDeclaration = field(init=False)
    """Declaration as changed by policies: the queue's behaviour."""

    def __post_init__(self) -> None:
        self.declaration = self.declared

    def govern(self, policies: Iterable[Policy], operators: Iterable[Policy]) -> bool:
        """Apply the present policies; True if that changes anything."""
        name, kind = self.declared.name, self.declared.arguments.queue_type
        before = self.declaration
        self.policy = policy_of_queue(policies, name, kind)
        self.operator_policy = policy_of_queue(operators, name, kind)
        if self.policy is None and self.operator_policy is None:
            self.declaration = self.declared
        else:
            definition = effective_definition(self.policy, self.operator_policy)
            self.declaration = replace(self.declared, arguments=with_policy(self.declared.arguments, definition))
        return self.declaration != before

    @property
    def name(self) -> str:
        return self.declared.name

    @property
    def is_stream(self) -> bool:
        """True for a stream: read by offset, with nothing removed."""
        return self.declaration.arguments.queue_type is QueueType.STREAM

    @property
    def is_limited(self) -> bool:
        """True if it has a limit of messages or bytes. A stream has none: it forgets by age and size."""
        arguments = self.declaration.arguments
        return not self.is_stream and (arguments.max_length is not None or arguments.max_length_bytes is not None)

    @cached_property
    def topic(self) -> str:
        """The Topic of its messages."""
        return queue_feed(self.namespace, encoded_name(self.name))

    @cached_property
    def group(self) -> str:
        """The group of its consumers."""
        return qualified(self.namespace, encoded_name(self.name))


class Vhost:
    """The exchanges, queues, bindings and policies of one virtual host."""

    def __init__(self, namespace: str) -> None:
        self.namespace = namespace
        self.name = vhost_of(namespace)
        self.routing = Routing(self.name, random.randrange)
        self.queues: dict[str, Queue] = {}
        self.owned: dict[str, set[str]] = {}
        """Names of exclusive queues, by connection."""
        self.of_gateways: dict[str, Queue] = {}
        """Exclusive and transient queues, which end with their gateway, by their names."""
        self.timed: set[str] = set()
        """Names of queues with a message TTL of their own."""
        self.limited: dict[str, Queue] = {}
        """Queues with a limit of messages or bytes, by their Topics."""
        self.transient: dict[str, str] = {}
        """Exchanges that are not durable, with the gateway that made each."""
        self.deleted: dict[str, int] = {}
        """Exchanges that were deleted, and not declared again, with numbers that grow."""
        self._policies: dict[str, Policy] = {}
        """Policies by their keys, those of operators among them."""
        self._orphans = Orphans()
        self._by_key: dict[str, Record] = {}

    def queue(self, name: str) -> Queue | None:
        return self.queues.get(name)

    def queue_of_key(self, key: str) -> Queue | None:
        record = self._by_key.get(key)
        return self.queues.get(record.name) if isinstance(record, QueueRecord) else None

    def bindings(self) -> Iterator[Binding]:
        """All bindings except those to the default exchange."""
        return (
            binding
            for exchange in self.routing.exchanges()
            for binding in self.routing.bindings_of_source(exchange.name)
        )

    def policies(self, *, of_operators: bool = False) -> list[Policy]:
        """Policies by name."""
        found = (each for each in self._policies.values() if each.is_operators is of_operators)
        return sorted(found, key=lambda policy: policy.name)

    def policy_of_exchange(self, name: str) -> Policy | None:
        return policy_of_exchange(self.policies(), name)

    def says(self, key: str, record: Record | None) -> bool:
        """True where a key has that record already."""
        return self._by_key.get(key) == record

    def has_key(self, key: str) -> bool:
        """True if the key has a definition, understood or not."""
        return key in self._by_key

    def keys(self) -> list[str]:
        """The keys of all definitions."""
        return list(self._by_key)

    def apply(self, key: str, record: Record | None) -> Sequence[Queue]:
        """Apply a key's new record, or its deletion for None; return the queues that a policy changes with that."""
        before = self._by_key.pop(key, None)
        if before is not None and (record is None or not isinstance(record, QueueRecord)):
            self._remove(key, before)
        if record is not None:
            self._by_key[key] = record
            try:
                self._add(key, record)
            except (EntrepotError, ValueError) as error:  # msgspec's errors are ValueErrors
                log.warning("a definition is not understood: it is set aside", key=key, problem=str(error))
        return self._govern() if isinstance(record or before, PolicyRecord) else ()

    def _govern(self) -> list[Queue]:
        """Apply the changed policies to each queue and exchange."""
        policies, operators = self.policies(), self.policies(of_operators=True)
        for exchange in tuple(self.routing.exchanges()):
            self._govern_exchange(exchange.name, policies)
        changed = [queue for queue in self.queues.values() if queue.govern(policies, operators)]
        for queue in changed:
            self._note(queue)
        return changed

    def _govern_exchange(self, name: str, policies: Sequence[Policy]) -> None:
        policy = policy_of_exchange(policies, name)
        self.routing.set_policy_alternate(name, None if policy is None else alternate_exchange(policy.definition))

    def _add(self, key: str, record: Record) -> None:
        if isinstance(record, ExchangeRecord):
            self.routing.declare_exchange(records.exchange_of(record))
            if record.gateway:
                self.transient[record.name] = record.gateway
            if self._policies:
                self._govern_exchange(record.name, self.policies())
            self._adopt(record.name)
        elif isinstance(record, QueueRecord):
            declaration = records.declaration_of(record, self.name)
            queue = Queue(declaration, self.namespace, record.gateway, record.connection)
            if self._policies:
                queue.govern(self.policies(), self.policies(of_operators=True))
            self.queues[record.name] = queue
            self._note(queue)
            self.of_gateways.pop(record.name, None)
            if record.gateway:
                self.of_gateways[record.name] = queue
            if record.connection:
                self.owned.setdefault(record.connection, set()).add(record.name)
            self.routing.declare_queue(record.name)
            self._adopt(record.name)
        elif isinstance(record, PolicyRecord):
            self._policies[key] = records.policy_of(record)
        elif isinstance(record, DeletedRecord):
            self.deleted[record.name] = record.number
        else:
            self._bind(key, record)

    def _note(self, queue: Queue) -> None:
        """Note a queue's message TTL and limits."""
        arguments = queue.declaration.arguments
        if arguments.message_ttl_ms is not None:
            self.timed.add(queue.name)
        else:
            self.timed.discard(queue.name)
        if queue.is_limited:
            self.limited[queue.topic] = queue
        else:
            self.limited.pop(queue.topic, None)

    def _bind(self, key: str, record: BindingRecord) -> None:
        is_queue = record.kind == "queue"
        there = record.destination in self.queues if is_queue else self.routing.exchange(record.destination) is not None
        if there and self.routing.exchange(record.source) is not None:
            self.routing.bind(records.binding_of(record))
        else:
            self._orphans.put(key, record)

    def _adopt(self, name: str) -> None:
        for key in self._orphans.of(name):
            if (record := self._orphans.pop(key)) is not None:
                self._bind(key, record)

    def _remove(self, key: str, record: Record) -> None:
        if isinstance(record, ExchangeRecord):
            self.transient.pop(record.name, None)
            self.routing.remove(Removal(exchanges=(record.name,)))
        elif isinstance(record, QueueRecord):
            queue = self.queues.pop(record.name, None)
            self.of_gateways.pop(record.name, None)
            self.timed.discard(record.name)
            if record.connection:
                of_connection = self.owned.get(record.connection, set())
                of_connection.discard(record.name)
                if not of_connection:
                    self.owned.pop(record.connection, None)
            if queue is not None:
                self.limited.pop(queue.topic, None)
            self.routing.remove(Removal(queue=record.name))
        elif isinstance(record, PolicyRecord):
            self._policies.pop(key, None)
        elif isinstance(record, DeletedRecord):
            self.deleted.pop(record.name, None)
        elif self._orphans.pop(key) is None:
            self.routing.remove(Removal(bindings=(records.binding_of(record),)))
