"""Settling: acknowledgements, renewals, releases and rejections of deliveries.  A cluster gives a renewed delivery a
new receipt handle.  Callers of the port keep the old one, so the new one is remembered here: only the gateway that
renewed a delivery can settle it; any gateway can settle others."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence

from entrepot.domain.delivery import Receipt, handle_of
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.ports import REJECTED
from entrepot.protocols.rocketmq import v2_pb2 as v2
from entrepot.protocols.rocketmq.cluster_handle import ClusterHandle
from entrepot.protocols.rocketmq.errors import refusal_of
from entrepot.protocols.rocketmq.names import duration
from tests.support.rocketmq.sdk.calls import ACK, CHANGE_INVISIBLE, FORWARD_TO_DLQ, Connection
from tests.support.rocketmq.sdk.cluster import Cluster
from tests.support.rocketmq.sdk.session import Session

Refusals = list[EntrepotError | None]
_VOID = ""


class Settling:
    """Implements the second half of `domain.ports.Consumption`."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._renewed: OrderedDict[str, str] = OrderedDict()

    async def acknowledge(
        self, topic: str, group: str, receipts: Sequence[Receipt], *, may_wait: bool = False
    ) -> Refusals:
        """Implements `Consumption.acknowledge`, with one call for all the handles of a broker."""
        receipt_handles = [handle_of(receipt) for receipt in receipts]
        outcomes: Refusals = [None] * len(receipt_handles)
        by_broker: dict[str, list[tuple[int, ClusterHandle]]] = {}
        for index, text in enumerate(receipt_handles):
            try:
                handle = self._read(topic, group, text)
            except EntrepotError as refusal:
                outcomes[index] = refusal.with_traceback(None)
            else:
                by_broker.setdefault(handle.broker, []).append((index, handle))

        async def acknowledge(broker: str, listed: list[tuple[int, ClusterHandle]]) -> None:
            try:
                found = await self._acknowledge(topic, group, broker, [handle for _, handle in listed])
            except EntrepotError as refusal:
                found = [refusal.with_traceback(None)] * len(listed)
            for (index, _), refusal_or_none in zip(listed, found, strict=True):
                outcomes[index] = refusal_or_none

        await asyncio.gather(*(acknowledge(*item) for item in by_broker.items()))
        for text, outcome in zip(receipt_handles, outcomes, strict=True):
            if outcome is None:
                self._renewed.pop(text, None)
        return outcomes

    async def _acknowledge(self, topic: str, group: str, broker: str, handles: list[ClusterHandle]) -> Refusals:
        session, connection = await self._place(topic, group, broker)
        question = v2.AckMessageRequest(
            group=self._cluster.namespaces.resource(group),
            topic=self._cluster.namespaces.resource(topic),
            entries=[
                v2.AckMessageEntry(message_id=handle.message_id, receipt_handle=handle.receipt_handle)
                for handle in handles
            ],
        )
        answer = await session.call(connection, ACK, question)
        if len(answer.entries) != len(handles):
            return [refusal_of(answer.status)] * len(handles)
        return [refusal_of(entry.status) for entry in answer.entries]

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
        """Implements `Consumption.change_invisible_duration`, with a call for each handle: the protocol has no batches,
        and no reasons."""

        async def change(text: str, handle: ClusterHandle) -> None:
            definition = self._cluster.group(group)
            wait_ms = invisible_ms
            if wait_ms is None:
                wait_ms = definition.retry.delay_ms(handle.attempt) if release else definition.invisible_seconds * 1000
            session, connection = await self._place(topic, group, handle.broker)
            question = v2.ChangeInvisibleDurationRequest(
                group=self._cluster.namespaces.resource(group),
                topic=self._cluster.namespaces.resource(topic),
                receipt_handle=handle.receipt_handle,
                invisible_duration=duration(wait_ms),
                message_id=handle.message_id,
                suspend=suspend or None,
            )
            answer = await session.call(connection, CHANGE_INVISIBLE, question)
            self._remember(text, _VOID if release else answer.receipt_handle or handle.receipt_handle)

        return await self._each(topic, group, receipts, change)

    async def reject(self, topic: str, group: str, receipts: Sequence[Receipt], reason: str = REJECTED) -> Refusals:
        """Implements `Consumption.reject`, with a call for each handle: the protocol has no batches, and no reasons."""

        async def forward(text: str, handle: ClusterHandle) -> None:
            session, connection = await self._place(topic, group, handle.broker)
            question = v2.ForwardMessageToDeadLetterQueueRequest(
                group=self._cluster.namespaces.resource(group),
                topic=self._cluster.namespaces.resource(topic),
                receipt_handle=handle.receipt_handle,
                message_id=handle.message_id,
                delivery_attempt=handle.attempt,
                max_delivery_attempts=self._cluster.group(group).max_attempts,
            )
            await session.call(connection, FORWARD_TO_DLQ, question)
            self._renewed.pop(text, None)

        return await self._each(topic, group, receipts, forward)

    # -- shared ------------------------------------------------------------------------------------------------------

    async def _each(
        self,
        topic: str,
        group: str,
        receipts: Sequence[Receipt],
        settle: Callable[[str, ClusterHandle], Awaitable[None]],
    ) -> Refusals:
        async def one(text: str) -> EntrepotError | None:
            try:
                await settle(text, self._read(topic, group, text))
            except EntrepotError as refusal:
                return refusal.with_traceback(None)
            return None

        receipt_handles = [handle_of(receipt) for receipt in receipts]
        texts = list(dict.fromkeys(receipt_handles))
        first = dict(zip(texts, await asyncio.gather(*map(one, texts)), strict=True))
        return [first[text] for text in receipt_handles]

    def _read(self, topic: str, group: str, text: str) -> ClusterHandle:
        """Return the handle with RocketMQ's present one in it.  Raises INVALID_RECEIPT_HANDLE."""
        handle = ClusterHandle.decode(text)
        current = self._renewed.get(text, handle.receipt_handle)
        if (handle.topic, handle.group) != (topic, group) or current == _VOID:
            raise EntrepotError(Code.INVALID_RECEIPT_HANDLE, "the receipt handle is not current")
        return ClusterHandle(topic, group, handle.broker, handle.message_id, current, handle.attempt, handle.queue_id)

    def _remember(self, text: str, receipt_handle: str) -> None:
        self._renewed[text] = receipt_handle
        self._renewed.move_to_end(text)
        if len(self._renewed) > self._cluster.settings.max_remembered:
            self._renewed.popitem(last=False)

    async def _place(self, topic: str, group: str, broker: str) -> tuple[Session, Connection]:
        route = await self._cluster.routes.of(topic)
        session = await self._cluster.consumer_for_settling(group, topic)
        return session, self._cluster.connection(route.places_of(broker))
