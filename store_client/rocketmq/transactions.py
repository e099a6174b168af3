"""Half messages, by RocketMQ's own names for them, and its checks of those that nobody ended.

A transaction is ended at the broker that has it, by two offsets.  Only its sender and whoever is asked about it know
them.  They are kept in memory, so a gateway ends those that it sent.  A broker asks one producer of the group after a
while, which any gateway is: that one may then end it.  A commit is never repeated: RocketMQ would deliver the message
twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

import structlog

from entrepot.domain.broker_of_queue import broker_number, first_place, first_queue
from entrepot.domain.confirmation import Confirmation
from entrepot.domain.errors import PASSING, UNANSWERED, Code, EntrepotError
from entrepot.domain.message import Message, StoredMessage, SystemProperty
from entrepot.domain.transaction import HalfMessage, TransactionEnd
from entrepot.protocols.rocketmq.mapping import wire_id
from entrepot.protocols.rocketmq.remoting import codes
from entrepot.protocols.rocketmq.remoting.frames import Frame
from entrepot.protocols.rocketmq.remoting.message_ids import place_of
from entrepot.protocols.rocketmq.remoting.messages import UNIQUE_KEY, stored_message
from entrepot.protocols.rocketmq.remoting.records import COMMITTED, ROLLED_BACK, decode_records
from entrepot.store_client.rocketmq.absent import refuse
from entrepot.store_client.rocketmq.cluster import Cluster, json_body
from entrepot.store_client.rocketmq.remembered import Remembered
from entrepot.store_client.rocketmq.sending import Sending, Sent

log = structlog.get_logger(__name__)
HalfKey = tuple[str, str]


@dataclass(frozen=True, slots=True)
class _Half:
    """A half message by RocketMQ's names: its offsets in the topic of half messages and in the log."""

    address: str
    broker: str
    queue_offset: int
    commit_log_offset: int
    unique_key: str
    is_of_check: bool


class RocketMqTransactions:
    """Implements `domain.ports.Transactions`."""

    def __init__(self, cluster: Cluster, sending: Sending) -> None:
        self._cluster, self._sending = cluster, sending
        most = cluster.settings.max_remembered
        self._halves: Remembered[HalfKey, _Half] = Remembered(most)
        self._checks: Remembered[HalfKey, StoredMessage] = Remembered(most)
        self._is_beating = False
        cluster.on_request = self._requested

    @property
    def waiting(self) -> int:
        """Half messages that can be ended here."""
        return len(self._halves)

    def append_half(self, messages: Sequence[Message]) -> Confirmation:
        """Implements `Transactions.append_half`."""
        self._beat()
        return self._sending.append(messages, is_half=True, refusals=self._refuse_unnamed(messages))

    def _refuse_unnamed(self, messages: Sequence[Message]) -> list[EntrepotError | None]:
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

    def note_sent(self, message: Message, sent: Sent) -> None:
        """Remember where a half message lies."""
        name = message.system_text(SystemProperty.TRANSACTION_ID)
        place = place_of(sent.offset_id)
        if not name or place is None:
            return
        half = _Half(
            sent.address, sent.broker, sent.queue_offset, place.commit_log_offset, wire_id(message.message_id), False
        )
        self._halves[message.topic, name] = half

    async def end_transactions(self, ends: Sequence[TransactionEnd]) -> list[EntrepotError | None]:
        """Implements `Transactions.end_transactions`."""
        return list(await asyncio.gather(*map(self._end, ends)))

    async def _end(self, end: TransactionEnd) -> EntrepotError | None:
        key = end.topic, end.transaction_id
        half = self._halves.pop(key, None)
        if half is None:
            return EntrepotError(Code.INVALID_TRANSACTION_ID, f"no transaction {end.transaction_id!r} is waiting here")
        fields = {
            "producerGroup": self._cluster.settings.producer_group,
            "tranStateTableOffset": half.queue_offset,
            "commitLogOffset": half.commit_log_offset,
            "commitOrRollback": COMMITTED if end.commit else ROLLED_BACK,
            "fromTransactionCheck": half.is_of_check,
            "msgId": half.unique_key,
            "transactionId": half.unique_key,
            "topic": self._cluster.names.resource(end.topic),
            "bname": half.broker,
        }
        try:
            await self._cluster.ask(half.address, codes.END_TRANSACTION, fields, what="end a transaction")
        except EntrepotError as refusal:
            if refusal.code in PASSING and not (end.commit and refusal.code in UNANSWERED):
                self._halves.setdefault(key, half)  # it may be tried again
            elif refusal.code is Code.INTERNAL_ERROR:
                return EntrepotError(Code.INVALID_TRANSACTION_ID, refusal.message)
            return refusal.with_traceback(None)
        self._checks.pop(key, None)
        return None

    # -- checks ------------------------------------------------------------------------------------------------------

    def _requested(self, frame: Frame, address: str) -> None:
        """Take a broker's request: its check of a transaction."""
        if frame.code != codes.CHECK_TRANSACTION:
            return
        told = frame.fields
        [record] = decode_records(frame.body)
        broker = told.get("bname") or next((n for n, a in self._cluster.brokers.items() if a == address), "")
        number = broker_number(broker)
        queue_id = first_queue(number) + record.queue_id
        message = stored_message(record, self._cluster.names, queue_id)
        message.commit_log_offset += first_place(number)
        unique_key = told.get("transactionId") or record.properties.get(UNIQUE_KEY, "")
        name = message.system_text(SystemProperty.TRANSACTION_ID) or unique_key
        message.system = {**message.system, SystemProperty.TRANSACTION_ID: name}
        offsets = int(told["tranStateTableOffset"]), int(told["commitLogOffset"])
        self._halves[message.topic, name] = _Half(address, broker, *offsets, unique_key, True)
        self._checks[message.topic, name] = message

    async def take_checks(self, topics: Sequence[str], max_messages: int) -> list[StoredMessage]:
        """Implements `Transactions.take_checks`: the brokers' checks so far; they repeat them by themselves."""
        self._beat()
        due = [key for key in self._checks if key[0] in topics][: max(max_messages, 0)]
        return [self._checks.pop(key) for key in due]

    async def half_messages(self, topic: str | None = None, *, after: int = -1, limit: int = 100) -> list[HalfMessage]:
        refuse("list half messages")

    def _beat(self) -> None:
        """Begin to tell every broker that a producer is here."""
        if not self._is_beating:
            self._is_beating = True
            self._cluster.keep("heartbeats to the RocketMQ cluster", self._beat_for_ever)

    async def _beat_for_ever(self) -> None:
        body = json_body(
            {
                "clientID": self._cluster.client_id,
                "producerDataSet": [{"groupName": self._cluster.settings.producer_group}],
                "consumerDataSet": [],
            }
        )

        async def beat(address: str) -> None:
            with suppress(EntrepotError):  # the next beat tries again
                await self._cluster.ask(address, codes.HEARTBEAT, None, body, what="take a heartbeat")

        while True:
            with suppress(EntrepotError):
                await self._cluster.ask_all(await self._cluster.masters(), beat)
            await asyncio.sleep(self._cluster.settings.heartbeat_ms / 1000)
