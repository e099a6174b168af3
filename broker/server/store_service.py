"""StoreService: a store over the wire: it serves the rows of the ports, the streams, and appending."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from entrepot.broker.remoting.listener import ServerChannel, ServerStream
from entrepot.broker.remoting.service import Service
from entrepot.broker.server.definition_log import DefinitionLog
from entrepot.broker.server.placement import Append, Placement
from entrepot.broker.server.read_service import ReadService
from entrepot.broker.server.served_definitions import ServedDefinitions
from entrepot.broker.server.served_key_values import ServedKeyValues
from entrepot.broker.server.served_store import ServedStore
from entrepot.broker.server.streams import AvailabilityStream, DefinitionStream, KeyValueStream
from entrepot.domain.confirmation import Confirmation
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.measurement import Histogram
from entrepot.domain.message import Message
from entrepot.domain.route import BrokerInfo
from entrepot.domain.tiering import Tiered
from entrepot.protocols.wire import operations as wire
from entrepot.protocols.wire import store_rows as rows
from entrepot.protocols.wire.connection import Requested
from entrepot.protocols.wire.frames import RemotingError
from entrepot.protocols.wire.message_batch import decode_messages
from entrepot.protocols.wire.values import encode

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
        self.definitions = ServedDefinitions(store.topology, deletions, self._placement, self.info_changed)
        self.key_values = ServedKeyValues(store.key_values, info)
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
        store = self.store
        service.serve(store.finder, rows.FINDER)
        service.serve(store.consumption, rows.CONSUMPTION)
        service.serve(self.definitions, rows.DEFINITIONS)
        service.serve(store.topology, rows.STATUSES)
        service.serve(self.key_values, rows.KEY_VALUES)
        service.serve(store.timers, rows.TIMERS)
        service.serve(store.transactions, rows.TRANSACTIONS)
        service.serve(store.condition, rows.CONDITION)
        service.serve(self, (rows.MEASURE,))
        if isinstance(store, Tiered):
            service.serve(store.tables, rows.TABLES)
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

    async def measure(self) -> tuple[dict[str, Histogram], dict[str, float], EntrepotError | None]:
        """Return the figures of the store (`protocols.wire.served.Measured`)."""
        condition = self.store.condition
        return await condition.measurements(), await condition.gauges(), condition.failure

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
