"""Pending: scheduled messages and half messages that we sent, by the cluster's own names for them.

Only the sender of a scheduled message gets its recall handle, and a transaction is ended by the cluster's id.  Both are
kept in memory, so a gateway recalls and ends only its own.  The cluster asks about a transaction that nobody ended; any
gateway that publishes to its topic may then end it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.message import Message, StoredMessage, SystemProperty
from entrepot.domain.transaction import TransactionEnd
from entrepot.protocols.rocketmq import v2_pb2 as v2
from entrepot.protocols.rocketmq.mapping import deliver_at_ms, wire_id
from tests.support.rocketmq.sdk.calls import END_TRANSACTION, RECALL, Connection
from tests.support.rocketmq.sdk.cluster import Cluster
from tests.support.rocketmq.sdk.messages import from_wire

log = logging.getLogger(__name__)

TimedKey = tuple[str, bytes, int]
HalfKey = tuple[str, str]


@dataclass(frozen=True, slots=True)
class _Half:
    """A half message by the cluster's names; `source` tells an end by us from an answer to the cluster's check."""

    message_id: str
    transaction_id: str
    connection: Connection
    source: v2.TransactionSource.ValueType


class Pending:
    """Implements the parts of `domain.ports.Timers` and `Transactions` that the protocol carries."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._timed: OrderedDict[TimedKey, tuple[str, Connection]] = OrderedDict()
        self._halves: OrderedDict[HalfKey, _Half] = OrderedDict()
        self._checks: OrderedDict[HalfKey, StoredMessage] = OrderedDict()
        cluster.on_command = self.take_command

    def note_sent(self, message: Message, entry: v2.SendResultEntry, connection: Connection) -> None:
        """Remember the handles of a message that the cluster has taken."""
        limit = self._cluster.settings.max_remembered
        if entry.recall_handle:
            at = deliver_at_ms(message) or 0
            self._timed[message.topic, message.message_id, at] = entry.recall_handle, connection
            while len(self._timed) > limit:
                self._timed.popitem(last=False)
        name = message.system_text(SystemProperty.TRANSACTION_ID)
        if entry.transaction_id and name:
            message_id = entry.message_id or wire_id(message.message_id)
            half = _Half(message_id, entry.transaction_id, connection, v2.SOURCE_CLIENT)
            self._halves[message.topic, name] = half
            while len(self._halves) > limit:
                self._halves.popitem(last=False)

    # -- timers ------------------------------------------------------------------------------------------------------

    async def recall(self, topic: str, message_id: bytes, deliver_at_ms: int) -> None:
        """Implements `Timers.recall`.  Raises OFFSET_NOT_FOUND also for another gateway's messages."""
        key = topic, message_id, deliver_at_ms
        if key not in self._timed:
            raise EntrepotError(
                Code.OFFSET_NOT_FOUND, f"this gateway sent no message of topic {topic!r} that waits for {deliver_at_ms}"
            )
        handle, connection = self._timed[key]
        question = v2.RecallMessageRequest(topic=self._cluster.namespaces.resource(topic), recall_handle=handle)
        try:
            await self._cluster.producer.call(connection, RECALL, question)
        except EntrepotError as refusal:
            # the proxy calls a time that is over an internal error
            is_over = refusal.code == Code.INTERNAL_ERROR and deliver_at_ms <= self._cluster.clock.now_ms()
            if is_over or refusal.code in (Code.BAD_REQUEST, Code.OFFSET_NOT_FOUND):
                self._timed.pop(key, None)
                raise EntrepotError(Code.OFFSET_NOT_FOUND, refusal.message) from refusal
            raise
        self._timed.pop(key, None)

    # -- transactions ------------------------------------------------------------------------------------------------

    def refuse_unnamed(self, messages: Sequence[Message]) -> list[EntrepotError | None]:
        """Return the refusals of half messages without a transaction id of their own, or with one in use."""
        seen: set[HalfKey] = set()
        refusals: list[EntrepotError | None] = []
        for message in messages:
            name = message.system_text(SystemProperty.TRANSACTION_ID) or ""
            key = message.topic, name
            if not name:
                refusals.append(EntrepotError(Code.BAD_REQUEST, "a half message has a transaction id"))
            elif key in self._halves or key in seen:
                text = f"a half message of transaction {name!r} is waiting already"
                refusals.append(EntrepotError(Code.BAD_REQUEST, text))
            else:
                refusals.append(None)
            seen.add(key)
        return refusals

    async def end_transactions(self, ends: Sequence[TransactionEnd]) -> list[EntrepotError | None]:
        """Implements `Transactions.end_transactions`."""
        return list(await asyncio.gather(*map(self._end, ends)))

    async def _end(self, end: TransactionEnd) -> EntrepotError | None:
        key = end.topic, end.transaction_id
        half = self._halves.pop(key, None)
        if half is None:
            return EntrepotError(Code.INVALID_TRANSACTION_ID, f"no transaction {end.transaction_id!r} is waiting here")
        question = v2.EndTransactionRequest(
            topic=self._cluster.namespaces.resource(end.topic),
            message_id=half.message_id,
            transaction_id=half.transaction_id,
            resolution=v2.COMMIT if end.commit else v2.ROLLBACK,
            source=half.source,
        )
        try:
            await self._cluster.producer.call(half.connection, END_TRANSACTION, question)
        except EntrepotError as refusal:
            if refusal.code != Code.INVALID_TRANSACTION_ID:
                self._halves.setdefault(key, half)  # it may be tried again
            return refusal.with_traceback(None)
        self._checks.pop(key, None)
        return None

    def take_command(self, command: v2.TelemetryCommand, connection: Connection) -> None:
        """Take a server's command on Telemetry: its check of a transaction."""
        if command.WhichOneof("command") != "recover_orphaned_transaction_command":
            return
        check = command.recover_orphaned_transaction_command
        try:
            message = from_wire(check.message, self._cluster.namespaces)
        except EntrepotError as error:
            log.warning("could not read a transaction to be checked: %s", error.message)
            return
        name = message.system_text(SystemProperty.TRANSACTION_ID) or check.transaction_id
        message.system = {**message.system, SystemProperty.TRANSACTION_ID: name}
        key = message.topic, name
        message_id = check.message.system_properties.message_id
        self._halves[key] = _Half(message_id, check.transaction_id, connection, v2.SOURCE_SERVER_CHECK)
        self._checks[key] = message
        while len(self._checks) > self._cluster.settings.max_remembered:
            self._checks.popitem(last=False)

    def take_checks(self, topics: Sequence[str], max_messages: int) -> list[StoredMessage]:
        """Implements `Transactions.take_checks`: the cluster's checks so far; it repeats them by itself."""
        due = [key for key in self._checks if key[0] in topics][: max(max_messages, 0)]
        return [self._checks.pop(key) for key in due]

    def gauges(self) -> dict[str, float]:
        """Return the numbers of remembered messages."""
        return {"timing_messages": float(len(self._timed)), "half_messages": float(len(self._halves))}
