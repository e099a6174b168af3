"""StoreService: a store over the wire, one line an operation: it serves the ports."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final

from entrepot.broker.metadata.own_keys import check_keys, visible
from entrepot.broker.remoting.listener import Call, ServerChannel, ServerStream, Service
from entrepot.broker.server.definition_log import DefinitionLog
from entrepot.broker.server.placement import Append, Placement
from entrepot.broker.server.read_service import ReadService, stored
from entrepot.broker.server.served_store import ServedStore
from entrepot.broker.server.streams import AvailabilityStream, DefinitionStream, KeyValueStream
from entrepot.domain.confirmation import Confirmation
from entrepot.domain.definitions.consumer_group import ConsumerGroup
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.key_value import KeyValue, KeyValueChange
from entrepot.domain.message import Message
from entrepot.domain.ports import PopRequest
from entrepot.domain.query import MessageConsumer
from entrepot.domain.route import BrokerInfo
from entrepot.domain.tiering import Tiered
from entrepot.domain.timing import TimerCursor
from entrepot.domain.topic import Topic
from entrepot.protocols.remoting import operations as wire
from entrepot.protocols.remoting.connection import Requested
from entrepot.protocols.remoting.frames import RemotingError
from entrepot.protocols.remoting.message_batch import decode_messages, decode_stored, encode_runs, encode_stored
from entrepot.protocols.remoting.values import encode

ALL_TAKEN: Final = encode(None)


class StoreService:
    """A service of a store. `info` returns the present information on this broker."""

    def __init__(self, store: ServedStore, deletions: DefinitionLog, info: Callable[[], BrokerInfo]) -> None:
        self.store = store
        self.deletions = deletions
        self._info = info
        self._placement = Placement(store, lambda: info().name)
        self._definition_streams: set[DefinitionStream] = set()
        self.reads = ReadService(store.messages, store.finder)
        store.topology.watch_topics(self._topic_changed)
        self._loop = asyncio.get_running_loop()
        self.is_sealed = False
        """True while the key-values move to another broker: none may change."""
        self.last_append = 0.0
        self.is_leaving = False
        """True once no message is taken any more."""
        self.is_confirmed: Callable[[], bool] = lambda: True
        """True if all known topics and groups may be told."""
        self.refuses: Callable[[], EntrepotError | None] = lambda: None
        """Returns the reason to take no message at present: too few replicas are in sync."""
        self._held: list[Callable[[], None]] | None = None

    def install(self, service: Service) -> None:
        """Register its operations with a service."""
        service.direct[wire.APPEND] = lambda channel, request: self._append(
            channel, request, self.store.messages.append, self.refuses
        )
        service.direct[wire.APPEND_HALF] = lambda channel, request: self._append(
            channel, request, self.store.transactions.append_half, self.refuses
        )
        service.direct[wire.APPEND_MISSING] = lambda channel, request: self._append(
            channel, request, self._missing, lambda: None
        )
        self.reads.install(service)
        service.calls[wire.MESSAGE_CONSUMERS] = self._message_consumers
        service.calls[wire.MESSAGE_TRACE] = self.store.finder.message_trace
        service.calls[wire.RECORD_ORIGIN] = self.store.finder.record_origin
        service.calls.update(self._consumption_calls())
        service.calls.update(self._topology_calls())
        service.calls |= {wire.GET: self._get, wire.SCAN: self._scan, wire.WRITE: self._write}
        service.calls.update(self._pending_calls())
        service.calls[wire.MEASURE] = self._measure
        service.calls[wire.TIERING] = self.store.condition.tiering
        service.calls[wire.PINS] = self.store.condition.pins
        if isinstance(self.store, Tiered):
            service.calls[wire.RESTORE_TOPIC] = self.store.tables.restore
            service.calls[wire.ATTACH_TOPIC] = self.store.tables.attach
            service.calls[wire.ACCEPT_TABLE] = self.store.tables.accept
        service.streams[wire.WATCH_AVAILABLE] = partial(AvailabilityStream, self.store)
        service.streams[wire.WATCH_KEY_VALUES] = partial(KeyValueStream, self.store)
        service.streams[wire.WATCH_DEFINITIONS] = self._open_definitions

    def info_changed(self) -> None:
        """Tell the clients the present information on this broker."""
        for stream in tuple(self._definition_streams):
            stream.changed()

    def hold(self) -> None:
        """Hold new messages back until `go_on`: mastership is about to move."""
        if self._held is None:
            self._held = []

    def go_on(self) -> None:
        """Take the messages held back."""
        held, self._held = self._held, None
        for take in held or ():
            take()

    def _take_held(
        self, channel: ServerChannel, request: Requested, append: Append, refuses: Callable[[], EntrepotError | None]
    ) -> None:
        try:
            self._append(channel, request, append, refuses)
        except EntrepotError as refusal:
            channel.refuse(request.id, refusal)
        except RemotingError as error:
            channel.refuse(request.id, EntrepotError(Code.BAD_REQUEST, str(error)))

    def refuse_held(self) -> None:
        """Refuse the messages held back: mastership has moved."""
        self.is_leaving = True
        self.go_on()

    # -- messages ------------------------------------------------------------------------------------------------

    def _append(
        self, channel: ServerChannel, request: Requested, append: Append, refuses: Callable[[], EntrepotError | None]
    ) -> None:
        """Append; the answer is sent once it is durable, without a task. `refuses` returns the refusal of a batch."""
        if self._held is not None:
            self._held.append(lambda: self._take_held(channel, request, append, refuses))
            return
        messages = decode_messages(request.payload)
        leaves = EntrepotError(Code.UNAVAILABLE, wire.LEAVES) if self.is_leaving else None
        refusal = leaves or refuses()
        if refusal is not None:
            channel.answer(request.id, encode([refusal] * len(messages)))
            return
        self.last_append = self._loop.time()
        confirmation = self._placement.append(messages, append)

        def settled(failure: EntrepotError | None) -> None:
            if failure is not None:
                channel.refuse(request.id, failure)
            else:
                refusals = confirmation.refusals
                channel.answer(request.id, ALL_TAKEN if refusals is None else encode(refusals))

        confirmation.when_settled(settled)

    def _missing(self, messages: Sequence[Message]) -> Confirmation:
        """Append the messages not stored; while no message is taken, only these are refused."""
        return self.store.missing.append(messages, self.refuses())

    async def _message_consumers(self, message: bytes) -> list[MessageConsumer]:
        found = decode_stored(message, 0)
        if len(found) != 1:
            raise RemotingError("one message is asked about")
        return await self.store.finder.message_consumers(found[0])

    # -- consumption ---------------------------------------------------------------------------------------------

    def _consumption_calls(self) -> dict[wire.Operation, Call]:
        store = self.store
        return {
            wire.POP_RUNS: self._pop_runs,
            wire.ACKNOWLEDGE: self._acknowledge,
            wire.CHANGE_INVISIBLE_DURATION: self._change_invisible_duration,
            wire.REJECT: store.consumption.reject,
            wire.RESET_GROUP: store.consumption.reset_group,
            wire.RESEND_DEAD_LETTERS: store.consumption.resend_dead_letters,
        }

    async def _pop_runs(self, request: PopRequest) -> bytes:
        return encode_runs(await self.store.consumption.pop(request))

    async def _acknowledge(self, topic: str, group: str, receipts: wire.Receipts, may_wait: bool) -> wire.Outcomes:
        return await self.store.consumption.acknowledge(topic, group, receipts, may_wait=may_wait)

    async def _change_invisible_duration(
        self,
        topic: str,
        group: str,
        receipts: wire.Receipts,
        invisible_ms: int | None,
        release: bool,
        suspend: bool,
        reason: str,
    ) -> wire.Outcomes:
        return await self.store.consumption.change_invisible_duration(
            topic, group, receipts, invisible_ms, release=release, suspend=suspend, reason=reason
        )

    # -- topology ------------------------------------------------------------------------------------------------

    async def _note_deleted(self, kind: str, name: str, revision: int) -> None:
        """Store and report a deletion, also of a definition that is missing here or newer: otherwise comparing clients
        would tell this broker again and again."""
        await self.deletions.note_deleted(kind, name, revision)
        self.info_changed()

    def _topology_calls(self) -> dict[wire.Operation, Call]:
        store = self.store
        return {
            wire.PUT_TOPICS: self._put_topics,
            wire.DELETE_TOPIC: self._delete_topic,
            wire.TOPIC_STATUS: store.topology.topic_status,
            wire.TOPIC_STATUSES: store.topology.topic_statuses,
            wire.PUT_NAMESPACE: self._put_namespace,
            wire.DELETE_NAMESPACE: self._delete_namespace,
            wire.PUT_GROUP: self._put_group,
            wire.DELETE_GROUP: self._delete_group,
            wire.GROUP_STATUS: store.topology.group_status,
            wire.GROUP_STATUSES: store.topology.group_statuses,
        }

    async def _put_topics(self, topics: list[Topic]) -> wire.Outcomes:
        """Put topics. Those deleted since are ignored; one deleted before is first removed, with its messages."""
        found: list[EntrepotError | None] = [await self._placement.refusal_to_leave(topic) for topic in topics]
        places = [
            place
            for place, topic in enumerate(topics)
            if found[place] is None and not self.deletions.is_deleted("topic", topic.name, topic.revision)
        ]
        for place in places:
            name = topics[place].name
            known = self.store.topology.topic(name)
            if known is not None and self.deletions.is_deleted("topic", name, known.revision):
                with suppress(EntrepotError):  # the deletion itself was quicker
                    await self.store.topology.delete_topic(name)
        outcomes = await self.store.topology.put_topics([topics[place] for place in places])
        for place, outcome in zip(places, outcomes, strict=True):
            found[place] = outcome
        return found

    async def _delete_topic(self, name: str, revision: int) -> None:
        await self._note_deleted("topic", name, revision)
        if not _is_later(self.store.topology.topic(name), revision):  # it may have been made anew during the write
            await self.store.topology.delete_topic(name)

    async def _put_group(self, group: ConsumerGroup) -> None:
        if not self.deletions.is_deleted("group", group.name, group.revision):
            await self.store.topology.put_group(group)

    async def _delete_group(self, name: str, revision: int) -> None:
        await self._note_deleted("group", name, revision)
        if not _is_later(self.store.topology.group(name), revision):
            await self.store.topology.delete_group(name)

    async def _put_namespace(self, name: str, revision: int) -> None:
        if not self.deletions.is_deleted("namespace", name, revision):
            await self.store.topology.put_namespace(name)
            await self.deletions.note_namespace(name, revision)

    async def _delete_namespace(self, name: str, revision: int) -> None:
        is_later = 0 < revision < self.deletions.namespaces.get(name, 0)
        if is_later or name not in self.store.topology.namespaces():
            await self._note_deleted("namespace", name, revision)
        if not is_later:
            await self.store.topology.delete_namespace(name)
            await self._note_deleted("namespace", name, revision)

    # -- key-values ----------------------------------------------------------------------------------------------

    def _check_keeper(self) -> None:
        if not self._info().keeps_key_values:
            raise EntrepotError(Code.UNAVAILABLE, "another broker keeps the key-values")

    async def _get(self, keys: list[str]) -> list[KeyValue | None]:
        check_keys(keys)
        self._check_keeper()
        return await self.store.key_values.get(keys)

    async def _scan(self, prefix: str, after: str, limit: int) -> list[KeyValue]:
        self._check_keeper()
        found: list[KeyValue] = []
        while len(found) < limit:
            page = await self.store.key_values.scan(prefix, after=after, limit=limit)
            if not page:
                break
            found += visible(page)
            after = page[-1].key
        size = 0
        for count, each in enumerate(found[:limit], 1):
            size += len(each.value)
            if size >= wire.SCAN_BYTES:  # beyond some size no frame could take it
                return found[:count]
        return found[:limit]

    async def _write(self, changes: list[KeyValueChange]) -> int:
        check_keys([change.key for change in changes])
        self._check_keeper()
        if self.is_sealed:
            raise EntrepotError(Code.UNAVAILABLE, "the key-values are being moved to another broker: try again")
        return await self.store.key_values.write(changes)

    # -- timers and transactions ---------------------------------------------------------------------------------

    def _pending_calls(self) -> dict[wire.Operation, Call]:
        store = self.store
        return {
            wire.RECALL: store.timers.recall,
            wire.RETIME: store.timers.retime,
            wire.TIMED_MESSAGES: self._timed_messages,
            wire.END_TRANSACTIONS: store.transactions.end_transactions,
            wire.TAKE_CHECKS: stored(store.transactions.take_checks),
            wire.HALF_MESSAGES: self._half_messages,
        }

    async def _timed_messages(
        self, topic: str | None, after: TimerCursor | None, limit: int
    ) -> tuple[bytes, list[int]]:
        found = await self.store.timers.timed_messages(topic, after=after, limit=limit)
        return encode_stored([timed.message for timed in found]), [timed.deliver_at_ms for timed in found]

    async def _half_messages(self, topic: str | None, after: int, limit: int) -> tuple[bytes, list[tuple[int, int]]]:
        found = await self.store.transactions.half_messages(topic, after=after, limit=limit)
        return encode_stored([half.message for half in found]), [(half.due_ms, half.checks) for half in found]

    async def _measure(self) -> tuple[Any, Any, EntrepotError | None]:
        return (
            await self.store.condition.measurements(),
            await self.store.condition.gauges(),
            self.store.condition.failure,
        )

    # -- streams -------------------------------------------------------------------------------------------------

    def _topic_changed(self, name: str) -> None:
        if self.store.topology.topic(name) is None:
            self.reads.topic_is_gone(name)

    def _open_definitions(self, stream: ServerStream) -> None:
        opened = DefinitionStream(self.store, self.deletions, self._info, stream, lambda: self.is_confirmed())
        self._definition_streams.add(opened)
        stream.channel.before_answer = opened.tell_now
        close = stream.on_close

        def closed() -> None:
            self._definition_streams.discard(opened)
            close()

        stream.on_close = closed


def _is_later(definition: Topic | ConsumerGroup | None, revision: int) -> bool:
    """True if a definition is newer than a deletion of this revision."""
    return definition is not None and definition.revision > revision > 0
