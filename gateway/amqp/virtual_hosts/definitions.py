"""Definitions: the exchanges, queues, bindings and policies of all virtual hosts, and their changes.

A declaration is made durable in the key-values by compare-and-set, so two gateways that declare one name at once agree
on the first. The declaring gateway knows it at once, others by their watch. A queue's Topic and group exist before its
key, and go after it, so that routing finds them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import Final
from zlib import crc32

import msgspec
import structlog

from entrepot.domain.callbacks import call_each
from entrepot.domain.definitions.consumer_group import UNLIMITED_ATTEMPTS, ConsumerGroup
from entrepot.domain.entity_name import encoded_name
from entrepot.domain.errors import NOT_THERE, Code, EntrepotError
from entrepot.domain.exchanges.binding import Binding, DestinationKind
from entrepot.domain.exchanges.exchange import Exchange, ExchangeType
from entrepot.domain.exchanges.routing import Removal
from entrepot.domain.key_value import ABSENT, KeyValueChange, KeyValueEvent
from entrepot.domain.names import DEFAULT_NAMESPACE, qualified, queue_feed
from entrepot.domain.ports import Store
from entrepot.domain.ports.cluster import control_of
from entrepot.domain.queues.declaration import QueueDeclaration
from entrepot.domain.queues.policy import Policy
from entrepot.domain.topic import Cleanup, Placement, Topic, TopicType
from entrepot.gateway.amqp.virtual_hosts import records
from entrepot.gateway.amqp.virtual_hosts.records import PREFIX, DeletedRecord, QueueRecord
from entrepot.gateway.amqp.virtual_hosts.vhost import Queue, Vhost
from entrepot.gateway.amqp.virtual_hosts.vhost_names import namespace_of
from entrepot.gateway.key_values.compare_and_set import if_unchanged
from entrepot.gateway.key_values.watched_keys import WatchedKeys
from entrepot.protocols.amqp.field_table import encode_table

MAX_TRIES: Final = 20
LEASE_SECONDS: Final = 10
"""Lease of deliveries, in seconds: the gateway renews it while the channel lives."""
STREAM_SECONDS: Final = 100 * 365 * 86_400
"""Age at which messages of a stream without a setting are deleted, in seconds."""
MAX_KEYS_PER_WRITE: Final = 5000
MAX_DELETED: Final = 10_000
"""Deleted exchanges that are remembered; beyond it the oldest tenth is forgotten: their Topics are exchanges again."""

_WAITING: Final = "|delayed"

log = structlog.get_logger(__name__)


def waiting_topic(namespace: str) -> str:
    """The Topic in which delayed messages of a virtual host wait; no queue has an encoded name like it."""
    return queue_feed(namespace, _WAITING)


def waiting_group(namespace: str) -> str:
    """The group that routes them."""
    return qualified(namespace, _WAITING)


class Definitions:
    """The definitions; `start` before the first question, `close` at the end."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._vhosts: dict[str, Vhost] = {}
        self.queues_deleted = 0
        """Queues that this gateway has deleted since the process began."""
        self._keys = WatchedKeys(store.key_values, PREFIX, self._take, self._known)
        self.start, self.close = self._keys.start, self._keys.close
        self.on_change: list[Callable[[], None]] = []
        """Callbacks for any change of the definitions."""
        self.on_queue_known: list[Callable[[Vhost, Queue], None]] = []
        self.on_queue_gone: list[Callable[[Vhost, Queue], None]] = []
        """Callbacks for a queue that was created, changed by a policy, or deleted, at any gateway."""

    def vhosts(self) -> list[Vhost]:
        """Every virtual host: one for each namespace."""
        return [self._vhost(namespace) for namespace in self._store.topology.namespaces()]

    def vhost(self, name: str) -> Vhost | None:
        """The virtual host of a name, or None."""
        return self.vhost_in(namespace_of(name))

    def vhost_in(self, namespace: str) -> Vhost | None:
        """The virtual host of a namespace, or None."""
        is_there = namespace == DEFAULT_NAMESPACE or namespace in self._store.topology.namespaces()
        return self._vhost(namespace) if is_there else None

    def _vhost(self, namespace: str) -> Vhost:
        found = self._vhosts.get(namespace)
        if found is None:
            found = self._vhosts[namespace] = Vhost(namespace)
        return found

    # -- what is told --------------------------------------------------------------------------------------------

    def _known(self) -> Iterator[str]:
        return chain.from_iterable(vhost.keys() for vhost in tuple(self._vhosts.values()))

    def _take(self, events: Sequence[KeyValueEvent]) -> None:
        for event in events:
            self._apply(event.key, event.value)

    def _apply(self, key: str, value: bytes | None) -> None:
        where = records.split_key(key)
        if where is None:
            return
        namespace, kind = where
        vhost = self._vhost(namespace)
        try:
            record = None if value is None else records.decode_record(kind, value)
        except msgspec.DecodeError as error:
            log.error("a definition cannot be read", key=key, problem=str(error))
            return
        if vhost.says(key, record):
            return  # told again by a full look after an outage of the watch
        gone = vhost.queue_of_key(key) if kind == "queue" and record is None else None
        known = list(vhost.apply(key, record))
        faults = list(call_each(self.on_change))
        if isinstance(record, QueueRecord) and (queue := vhost.queue(record.name)) is not None:
            known.append(queue)
        for queue in known:
            faults += call_each(self.on_queue_known, vhost, queue)
        if gone is not None:
            faults += call_each(self.on_queue_gone, vhost, gone)
        for fault in faults:
            log.error("a watcher of definitions failed; the others are told", key=key, exc_info=fault)

    async def catch_up(self) -> None:
        """Return when every change is known here that was durable before. Raises what the store raises."""
        await self._keys.catch_up(await self._keys.write([KeyValueChange(records.NOW_KEY, b"")]))

    async def _write(self, changes: Sequence[KeyValueChange]) -> None:
        """Write durably; known here on return. Raises PRECONDITION_FAILED where another writer was first."""
        for start in range(0, len(changes), MAX_KEYS_PER_WRITE):
            await self._keys.write(changes[start : start + MAX_KEYS_PER_WRITE])

    # -- exchanges -----------------------------------------------------------------------------------------------

    async def declare_exchange(self, vhost: Vhost, exchange: Exchange, gateway: str) -> Exchange:
        """Declare an exchange, and return it or the existing one, which the caller has to compare. `gateway` makes it;
        an exchange that is not durable goes with its gateway."""
        key = records.exchange_key(vhost.namespace, exchange.name)
        if exchange.type is ExchangeType.DELAYED:
            await self.make_waiting(vhost.namespace)
        for _ in _tries(exchange.name):
            found = vhost.routing.exchange(exchange.name)
            if found is not None:
                return found
            vhost.routing.check_room(exchange)
            changes = [KeyValueChange(key, records.exchange_record(exchange, gateway), ABSENT)]
            if exchange.name in vhost.deleted:
                changes.append(KeyValueChange(records.deleted_key(vhost.namespace, exchange.name), None))
            if await if_unchanged(self._keys.write(changes)) is None:
                await self._keys.look([key])  # learn what is there
        return exchange

    async def delete_exchange(self, vhost: Vhost, name: str) -> None:
        """Delete an exchange with its bindings and dependents; nothing if it does not exist. A Topic of the name
        does not count as an exchange any more."""
        removal = vhost.routing.removal_of_exchange(name)
        if not removal.exchanges and self._store.topology.topic(encoded_name(name)) is not None:
            removal = Removal(exchanges=(name,))
        await self._remove(vhost, removal)

    # -- bindings ------------------------------------------------------------------------------------------------

    async def bind(self, vhost: Vhost, binding: Binding) -> None:
        """Bind; idempotent. The caller has checked both ends."""
        if not vhost.routing.has_binding(binding):
            vhost.routing.check_room()
            key = records.binding_key(vhost.namespace, binding)
            await self._write([KeyValueChange(key, records.binding_record(binding))])

    async def unbind(self, vhost: Vhost, binding: Binding) -> None:
        """Unbind; nothing if there is no such binding."""
        await self._remove(vhost, vhost.routing.removal_of_binding(binding))

    # -- queues --------------------------------------------------------------------------------------------------

    async def declare_queue(
        self, vhost: Vhost, declaration: QueueDeclaration, *, gateway: str, connection: str, now_ms: int
    ) -> tuple[Queue, bool]:
        """Declare a queue; return it or the existing one, and True if it is new."""
        name = declaration.name
        key = records.queue_key(vhost.namespace, name)
        for _ in _tries(name):
            found = vhost.queue(name)
            if found is not None:
                return found, False
            owner = connection if declaration.exclusive else ""
            queue = Queue(declaration, vhost.namespace, gateway, owner)
            queue.govern(vhost.policies(), vhost.policies(of_operators=True))
            await self._make(queue)
            record = QueueRecord(
                name,
                declaration.durable,
                declaration.exclusive,
                declaration.auto_delete,
                encode_table(dict(declaration.arguments.given)),
                gateway if declaration.exclusive or not declaration.durable else "",
                owner,
                now_ms,
            )
            change = KeyValueChange(key, records.encode_record(record), ABSENT)
            if await if_unchanged(self._keys.write([change])) is not None:
                return vhost.queues[name], True
            await self._keys.look([key])  # learn what is there
        raise AssertionError("unreachable")

    async def _make(self, queue: Queue) -> None:
        levels = queue.declaration.arguments.max_priority
        kind = TopicType.NORMAL if levels is None else TopicType.PRIORITY
        queues = 1 if levels is None else levels + 1
        await self._store.topology.put_group(
            ConsumerGroup(queue.group, max_attempts=UNLIMITED_ATTEMPTS, invisible_seconds=LEASE_SECONDS)
        )
        topic = Topic(
            queue.topic, queues, kind, cleanup=Cleanup.CONSUMED, placement=await self._placement(queue.topic, queues)
        )
        if queue.is_stream:
            seconds, size = _retention(queue)
            topic = replace(topic, cleanup=Cleanup.DELETE, retention_seconds=seconds, retention_bytes=size)
        await self._store.topology.put_topic(topic)

    async def make_waiting(self, namespace: str) -> None:
        """Make the Topic of delayed messages, unless it is there."""
        name, group = waiting_topic(namespace), waiting_group(namespace)
        if self._store.topology.topic(name) is not None:
            return
        await self._store.topology.put_group(
            ConsumerGroup(group, max_attempts=UNLIMITED_ATTEMPTS, invisible_seconds=LEASE_SECONDS)
        )
        await self._store.topology.put_topic(
            Topic(name, 1, cleanup=Cleanup.CONSUMED, placement=await self._placement(name, 1))
        )

    async def _placement(self, topic: str, queues: int) -> Placement:
        """The placement of a queue's Topic: one of several brokers has all of it, so that it has one order."""
        operations = control_of(self._store)
        if operations is None:
            return ()
        names = sorted(each.name for each in await operations.brokers() if each.is_available and not each.is_draining)
        return ((names[crc32(topic.encode()) % len(names)], queues),) if names else ()

    async def delete_queue(self, vhost: Vhost, queue: Queue) -> None:
        """Delete a queue with its bindings, messages and dependents."""
        self.queues_deleted += 1
        removal = vhost.routing.removal_of_queue(queue.name)
        await self._remove(vhost, removal)
        await self._forget(queue.topic, queue.group)

    async def _forget(self, topic: str, group: str) -> None:
        forgetting = (self._store.topology.delete_topic(topic), self._store.topology.delete_group(group))
        for problem in await asyncio.gather(*forgetting, return_exceptions=True):
            if isinstance(problem, EntrepotError) and problem.code in NOT_THERE:
                continue
            if problem is not None:
                raise problem

    # -- policies ------------------------------------------------------------------------------------------------

    async def put_policy(self, vhost: Vhost, policy: Policy) -> None:
        """Set a policy, in place of the one of its name; it holds here on return."""
        key = records.policy_key(vhost.namespace, policy.name, is_operators=policy.is_operators)
        await self._write_policy(vhost, KeyValueChange(key, records.policy_record(policy)))

    async def delete_policy(self, vhost: Vhost, name: str, *, is_operators: bool) -> bool:
        """Delete a policy; True if there was one."""
        key = records.policy_key(vhost.namespace, name, is_operators=is_operators)
        is_there = vhost.has_key(key)  # also one that is set aside
        if is_there:
            await self._write_policy(vhost, KeyValueChange(key, None))
        return is_there

    async def _write_policy(self, vhost: Vhost, change: KeyValueChange) -> None:
        """Write a policy; retention of streams belongs to their Topics, which change with it."""
        before = {queue: _retention(queue) for queue in vhost.queues.values() if queue.is_stream}
        await self._write([change])
        for queue, kept in before.items():
            (seconds, size), topic = _retention(queue), self._store.topology.topic(queue.topic)
            if (seconds, size) != kept and topic is not None:
                await self._store.topology.put_topic(replace(topic, retention_seconds=seconds, retention_bytes=size))

    # -- all of it -----------------------------------------------------------------------------------------------

    async def clear(self, vhost: Vhost) -> None:
        """Delete all definitions of a virtual host, with the messages in its queues."""
        for queue in tuple(vhost.queues.values()):
            await self.delete_queue(vhost, queue)
        await self._forget(waiting_topic(vhost.namespace), waiting_group(vhost.namespace))
        if keys := vhost.keys():
            await self._write([KeyValueChange(key, None) for key in keys])

    async def _remove(self, vhost: Vhost, removal: Removal) -> None:
        namespace = vhost.namespace
        keys = [records.binding_key(namespace, binding) for binding in removal.bindings]
        keys += [records.exchange_key(namespace, name) for name in removal.exchanges]
        if removal.queue is not None:
            keys.append(records.queue_key(namespace, removal.queue))
        changes = [KeyValueChange(key, None) for key in dict.fromkeys(keys)]
        changes += self._remembered(vhost, removal.exchanges)
        if changes:
            await self._write(changes)

    @staticmethod
    def _remembered(vhost: Vhost, exchanges: Sequence[str]) -> Iterator[KeyValueChange]:
        """Remember exchanges as deleted: where Topics are exchanges, theirs is not one any more."""
        if vhost.namespace != DEFAULT_NAMESPACE:
            return
        number = max(vhost.deleted.values(), default=0)
        for name in exchanges:
            number += 1
            record = records.encode_record(DeletedRecord(name, number))
            yield KeyValueChange(records.deleted_key(vhost.namespace, name), record)
        if len(vhost.deleted) >= MAX_DELETED:
            for name in sorted(vhost.deleted.keys() - {*exchanges}, key=vhost.deleted.__getitem__)[: MAX_DELETED // 10]:
                yield KeyValueChange(records.deleted_key(vhost.namespace, name), None)

    def destination_exists(self, vhost: Vhost, binding: Binding) -> bool:
        if binding.destination_kind is DestinationKind.QUEUE:
            return binding.destination in vhost.queues
        return vhost.routing.exchange(binding.destination) is not None


def _retention(queue: Queue) -> tuple[int, int | None]:
    """Seconds and bytes that a stream keeps."""
    age_ms, size = queue.declaration.arguments.max_age_ms, queue.declaration.arguments.max_length_bytes
    return STREAM_SECONDS if age_ms is None else max(age_ms // 1000, 1), size


def _tries(name: str) -> Iterator[int]:
    yield from range(MAX_TRIES)
    raise EntrepotError(Code.UNAVAILABLE, f"{name[:80]!r} keeps being changed by others")
