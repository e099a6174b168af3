"""Settling: acknowledgements, renewals, releases and rejections of deliveries.

A broker gives a renewed delivery a new receipt.  Callers of the port keep the old one, so the new one is remembered
here: only the gateway that renewed a delivery can settle it; any gateway can settle others.  A broker answers
acknowledgements of stale receipts like those of current ones.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Final

from entrepot.domain.delivery import Receipt, handle_of
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.names import dead_letter_topic
from entrepot.domain.ports import REJECTED
from entrepot.protocols.rocketmq.cluster_handle import ClusterHandle
from entrepot.protocols.rocketmq.remoting import codes
from entrepot.protocols.rocketmq.remoting.frames import Frame
from entrepot.protocols.rocketmq.remoting.message_ids import RecordPlace, offset_id
from entrepot.protocols.rocketmq.remoting.messages import ORIGIN_ID, RETRY_TOPIC
from entrepot.protocols.rocketmq.remoting.receipts import PopReceipt, batch_of, may_go_together
from entrepot.protocols.rocketmq.remoting.records import Record
from entrepot.store_client.rocketmq.cluster import Cluster, json_body
from entrepot.store_client.rocketmq.copies import REASON, TIME_OF_DEATH, store_copy
from entrepot.store_client.rocketmq.deliveries import untold_run
from entrepot.store_client.rocketmq.remembered import Remembered
from entrepot.store_client.rocketmq.send_request import StorePlace

Refusals = list[EntrepotError | None]
LONGEST_WAIT_MS: Final = 3 * 24 * 3600 * 1000 - 60_000
"""Longest invisible time: brokers keep it as a timed message (`timerMaxDelaySec`, 3 days)."""
MAX_REASON_CHARACTERS: Final = 1000
_VOID = ""


class Settling:
    """Implements the second half of `domain.ports.Consumption`."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._renewed: Remembered[str, str] = Remembered(cluster.settings.max_remembered)

    async def acknowledge(
        self, topic: str, group: str, receipts: Sequence[Receipt], *, may_wait: bool = False
    ) -> Refusals:
        """Implements `Consumption.acknowledge`, with one call for all the handles of a broker."""
        outcomes: Refusals = [None] * len(receipts)
        by_broker: dict[str, list[tuple[int, PopReceipt]]] = {}
        for index, receipt in enumerate(receipts):
            try:
                current = self._current(topic, group, receipt)
            except EntrepotError as refusal:
                outcomes[index] = refusal.with_traceback(None)
            else:
                by_broker.setdefault(current.broker, []).append((index, current))

        async def acknowledge(broker: str, listed: list[tuple[int, PopReceipt]]) -> None:
            try:
                found = await self._acknowledge(topic, group, broker, [current for _, current in listed])
            except EntrepotError as refusal:
                found = [refusal.with_traceback(None)] * len(listed)
            for (index, _), refusal_or_none in zip(listed, found, strict=True):
                outcomes[index] = refusal_or_none

        await asyncio.gather(*(acknowledge(*item) for item in by_broker.items()))
        for receipt, outcome in zip(receipts, outcomes, strict=True):
            if outcome is None and untold_run(receipt) is None:
                self._renewed.pop(handle_of(receipt), None)
        return outcomes

    async def _acknowledge(self, topic: str, group: str, broker: str, receipts: list[PopReceipt]) -> Refusals:
        address = await self._cluster.address_of(broker)
        if len(receipts) == 1 or not all(map(may_go_together, receipts)):
            return list(await asyncio.gather(*(self._acknowledge_one(topic, group, address, r) for r in receipts)))
        names = self._cluster.names
        acks = batch_of(names.resource(topic), names.resource(group), receipts)
        body = json_body({"brokerName": broker, "acks": acks})
        await self._cluster.ask(address, codes.BATCH_ACK, None, body, what="acknowledge messages")
        return [None] * len(receipts)

    async def _acknowledge_one(self, topic: str, group: str, address: str, receipt: PopReceipt) -> EntrepotError | None:
        fields = self._fields(topic, group, receipt)
        try:
            await self._cluster.ask(address, codes.ACK, fields, what="acknowledge a message")
        except EntrepotError as refusal:
            return refusal.with_traceback(None)
        return None

    def _fields(self, topic: str, group: str, receipt: PopReceipt) -> dict[str, object]:
        group, topic = self._cluster.names.resource(group), self._cluster.names.resource(topic)
        return {
            "consumerGroup": group,
            "topic": receipt.topic(topic, group),
            "queueId": receipt.queue_id,
            "extraInfo": receipt.text,
            "offset": receipt.offset,
            "bname": receipt.broker,
        }

    async def change_invisible_duration(
        self,
        topic: str,
        group: str,
        receipts: Sequence[Receipt],
        invisible_ms: int | None,
        *,
        release: bool,
        suspend: bool = False,
        reason: str = "",
    ) -> Refusals:
        """Implements `Consumption.change_invisible_duration`, with a request for each handle: RocketMQ has no batches
        of them, and no reasons.  Each delivery counts as an attempt, also with `suspend`."""

        async def change(text: str, handle: ClusterHandle, receipt: PopReceipt) -> None:
            definition = self._cluster.group(group)
            wait_ms = invisible_ms
            if wait_ms is None:
                wait_ms = definition.retry.delay_ms(handle.attempt) if release else definition.invisible_seconds * 1000
            fields = {**self._fields(topic, group, receipt), "invisibleTime": min(wait_ms, LONGEST_WAIT_MS)}
            answer = await self._ask(receipt, codes.CHANGE_INVISIBLE, fields, "change an invisible time")
            self._remember(text, _VOID if release else receipt.renewed(answer.fields).text)

        return await self._each(topic, group, receipts, change)

    async def _ask(self, receipt: PopReceipt, code: int, fields: dict[str, object], what: str) -> Frame:
        return await self._cluster.ask(await self._cluster.address_of(receipt.broker), code, fields, what=what)

    async def reject(self, topic: str, group: str, receipts: Sequence[Receipt], reason: str = REJECTED) -> Refusals:
        """Implements `Consumption.reject` in two steps: a copy to the dead letters, and the acknowledgement.  Between
        them a message may be both dead and delivered again.  The copy tells the reason, which a broker's own would
        not; where this client may not write it, the broker does."""

        async def forward(text: str, handle: ClusterHandle, receipt: PopReceipt) -> None:
            record = await self._record(topic, group, receipt)
            try:
                await self._bury(topic, group, handle, record, reason)
            except EntrepotError as refusal:
                if refusal.code is not Code.FORBIDDEN:
                    raise
                await self._send_back(topic, group, handle, receipt)
            await self._ask(receipt, codes.ACK, self._fields(topic, group, receipt), "acknowledge a dead letter")
            self._remember(text, _VOID)

        outcomes = await self._each(topic, group, receipts, forward)
        await self._learn_dead_letters(group)
        return outcomes

    async def _bury(self, topic: str, group: str, handle: ClusterHandle, record: Record, reason: str) -> None:
        """Store a copy of a message in the topic of the group's dead letters, at the message's broker."""
        names = self._cluster.names
        told = {RETRY_TOPIC: names.resource(topic), TIME_OF_DEATH: str(self._cluster.clock.now_ms())}
        if sayable := "".join(each if each.isprintable() else " " for each in reason)[:MAX_REASON_CHARACTERS].strip():
            told[REASON] = sayable
        if ORIGIN_ID not in record.properties:
            told[ORIGIN_ID] = offset_id(RecordPlace(record.host, record.port, record.commit_log_offset))
        address = await self._cluster.address_of(handle.broker)
        place = StorePlace(names.resource(dead_letter_topic(group)), 0, handle.broker, address)
        attempts = min(handle.attempt, self._cluster.group(group).max_attempts)
        await store_copy(self._cluster, place, record, told, reconsumed=attempts)

    async def _send_back(self, topic: str, group: str, handle: ClusterHandle, receipt: PopReceipt) -> None:
        """Have the broker make the dead letter."""
        fields = {
            "offset": receipt.commit_log_offset,
            "group": self._cluster.names.resource(group),
            "delayLevel": -1,
            "originMsgId": handle.message_id,
            "originTopic": self._cluster.names.resource(topic),
            "unitMode": False,
            "maxReconsumeTimes": self._cluster.group(group).max_attempts,
            "bname": receipt.broker,
        }
        await self._ask(receipt, codes.SEND_BACK, fields, "move a message to the dead letters")

    async def _learn_dead_letters(self, group: str) -> None:
        """Know the topic of a group's dead letters at once: a broker makes it with the first."""
        topic = dead_letter_topic(group)
        if self._cluster.routes.known(topic) is None:
            with suppress(EntrepotError):  # the catalog finds it later
                await self._cluster.routes.refresh(topic)

    async def _record(self, topic: str, group: str, receipt: PopReceipt) -> Record:
        """Return the delivery's record in the log.  A broker gives, and copies, whatever lies there, and a handle is a
        client's: it could name a message of any topic.  Raises INVALID_RECEIPT_HANDLE."""
        group, topic = self._cluster.names.resource(group), self._cluster.names.resource(topic)
        found = await self._cluster.record_at(receipt.broker, receipt.commit_log_offset)
        is_there = found is not None and (found.queue_id, found.queue_offset) == (receipt.queue_id, receipt.offset)
        if found is None or not is_there or found.topic not in (topic, receipt.topic(topic, group)):
            raise EntrepotError(Code.INVALID_RECEIPT_HANDLE, "the receipt handle is not of such a delivery")
        return found

    # -- shared ------------------------------------------------------------------------------------------------------

    async def _each(
        self,
        topic: str,
        group: str,
        receipts: Sequence[Receipt],
        settle: Callable[[str, ClusterHandle, PopReceipt], Awaitable[None]],
    ) -> Refusals:
        async def one(text: str) -> EntrepotError | None:
            try:
                await settle(text, *self._read(topic, group, text))
            except EntrepotError as refusal:
                return refusal.with_traceback(None)
            return None

        receipt_handles = [handle_of(receipt) for receipt in receipts]
        texts = list(dict.fromkeys(receipt_handles))
        first = dict(zip(texts, await asyncio.gather(*map(one, texts)), strict=True))
        return [first[text] for text in receipt_handles]

    def _current(self, topic: str, group: str, receipt: Receipt) -> PopReceipt:
        """Return RocketMQ's present receipt of a delivery.  Raises INVALID_RECEIPT_HANDLE."""
        run = untold_run(receipt)
        if run is None or (run.topic, run.group) != (topic, group):
            return self._read(topic, group, handle_of(receipt))[1]
        return run.receipt

    def _read(self, topic: str, group: str, text: str) -> tuple[ClusterHandle, PopReceipt]:
        """Return a handle, and RocketMQ's present receipt of its delivery.  Raises INVALID_RECEIPT_HANDLE."""
        handle = ClusterHandle.decode(text)
        current = self._renewed.get(text, handle.receipt_handle)
        if (handle.topic, handle.group) != (topic, group) or current == _VOID:
            raise EntrepotError(Code.INVALID_RECEIPT_HANDLE, "the receipt handle is not current")
        receipt = PopReceipt.parse(current)
        if receipt.broker != handle.broker:
            raise EntrepotError(Code.INVALID_RECEIPT_HANDLE, "the receipt handle names two brokers")
        return handle, receipt

    def _remember(self, text: str, receipt_handle: str) -> None:
        self._renewed[text] = receipt_handle
        self._renewed.move_to_end(text)
