"""Reading: messages by offset, positions and tails, of a master's store or a slave's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from entrepot.broker.cold.reads import ColdReads, CorruptedRowError
from entrepot.broker.cold.records import MAX_COLD_RUN, encode_cold, encode_corrupted
from entrepot.broker.consume.places import check_inside, place_of
from entrepot.broker.consume.runs import read_nothing, read_run
from entrepot.broker.consume.scan import scan_filtered
from entrepot.broker.consume.tail import QueueTail
from entrepot.broker.ports.catalog import Catalog
from entrepot.broker.ports.cold_tail import ColdTail
from entrepot.broker.store.consume_queue import ConsumeQueue
from entrepot.broker.store.record_runs import bytes_between
from entrepot.domain.errors import CorruptedError
from entrepot.domain.expression.filter import FilterExpression, FilterKind, compile_filter
from entrepot.domain.message import StoredMessage
from entrepot.domain.ports import Pulled, Tail
from entrepot.domain.position import Position, PositionKind
from entrepot.domain.topic import QueueBounds

T = TypeVar("T")
SUB_TOPIC: Final = FilterKind.SUB_TOPIC
MAX_READ_BYTES: Final = 16 << 20
"""Most bytes of the log read into memory at once: a longer answer ends early."""


class Reading:
    """Reads of a store. `may_lag`: for a slave's store, an offset after its end has not come yet: not an error."""

    def __init__(self, catalog: Catalog, *, may_lag: bool = False) -> None:
        self._catalog, self._may_lag = catalog, may_lag
        self._engine = catalog.engine

    def _is_there(self, queue: ConsumeQueue, offset: int) -> bool:
        """False for an offset that has not come yet. Raises ILLEGAL_OFFSET."""
        if self._may_lag and offset > queue.visible_offset:
            return False
        check_inside(queue, offset)
        return True

    def _tier_of(self, queue: ConsumeQueue, offset: int) -> ColdReads | None:
        """Return the tier, for an offset that only it has."""
        tier = self._catalog.tier
        if tier is None or offset >= tier.hot_from(queue):
            return None
        return tier if self.known_minimum(queue) <= offset else None

    def known_minimum(self, queue: ConsumeQueue) -> int:
        """Return the first offset that can be read. Raises UNAVAILABLE while it is not known: nothing is skipped."""
        tier = self._catalog.tier
        if tier is not None and (refusal := tier.pending(queue)) is not None:
            raise refusal
        return self._catalog.min_offset(queue)

    async def read(self, topic: str, queue_id: int, from_offset: int, max_messages: int) -> list[StoredMessage]:
        queue = self._catalog.existing_queue(topic, queue_id)
        while tier := self._tier_of(queue, from_offset):
            page = await tier.read(queue, from_offset, max_messages)
            if page.messages or page.next_offset <= from_offset:
                return page.messages
            from_offset = page.next_offset
        if not self._is_there(queue, from_offset):
            return []
        return await self._healed(lambda: self._read(queue, from_offset, max_messages))

    async def _healed(self, read: Callable[[], T]) -> T:
        """Return a read's result, after corrupted parts were fetched from another replica. Raises CorruptedError."""
        while True:
            try:
                return read()
            except CorruptedError as error:
                place = error.commit_log_offset
                if place is None or not await self._engine.commit_log.healer.heal(place):
                    raise

    def _read(self, queue: ConsumeQueue, from_offset: int, max_messages: int) -> list[StoredMessage]:
        entries = queue.entries(from_offset, max_messages)
        size = 0
        places: list[tuple[int, tuple[int, int, int]]] = []
        for queue_offset, entry in enumerate(entries, from_offset):
            size += entry[1]
            if places and size > MAX_READ_BYTES:
                break
            places.append((queue_offset, entry))
        messages: list[StoredMessage] = []
        for item in self._engine.read_places(queue, places):
            if isinstance(item, CorruptedError):
                if messages:
                    break  # messages before the damage are good; the next read meets it first
                raise item
            messages.append(item)
        return messages

    async def pull(
        self, topic: str, queue_id: int, from_offset: int, max_messages: int, filter: FilterExpression | None = None
    ) -> Pulled:
        queue = self._catalog.existing_queue(topic, queue_id)
        compiled = None if filter is None else compile_filter(filter)
        if tier := self._tier_of(queue, from_offset):
            is_all = compiled is None or compiled.accepts_all
            page = await tier.read(queue, from_offset, max_messages, None if is_all else compiled)
            return Pulled(page.messages, page.next_offset, tier.min_offset(queue), queue.visible_offset)
        least = self._catalog.min_offset(queue)
        if not self._is_there(queue, from_offset):
            return Pulled([], from_offset, least, from_offset)
        if compiled is None or compiled.accepts_all:
            messages = await self._healed(lambda: self._read(queue, from_offset, max_messages))
            next_offset = from_offset + len(messages)
        else:
            found = scan_filtered(self._engine, queue, from_offset, queue.visible_offset, compiled, max_messages)
            messages, next_offset = found.messages, found.next_offset
            if found.corrupted:
                if not messages or messages[0].queue_offset > found.corrupted[0]:
                    raise CorruptedError(f"message {found.corrupted[0]} of {topic}/{queue_id} is corrupted")
                messages = [message for message in messages if message.queue_offset < found.corrupted[0]]
                next_offset = found.corrupted[0]
        return Pulled(messages, next_offset, least, queue.visible_offset)

    async def records(
        self,
        topic: str,
        queue_id: int,
        from_offset: int,
        to_offset: int,
        max_bytes: int,
        filter: FilterExpression | None = None,
    ) -> bytes:
        """Return the records in a range of offsets, in the form of `protocols.wire.records`.

        Raises TOPIC_NOT_FOUND, ILLEGAL_OFFSET (below the minimum or beyond the end), ILLEGAL_FILTER_EXPRESSION,
        MESSAGE_CORRUPTED (a filter cannot look at a corrupted message).
        """
        queue = self._catalog.existing_queue(topic, queue_id)
        if tier := self._tier_of(queue, from_offset):
            compiled = None if filter is None else compile_filter(filter)
            wanted = None if compiled is None or compiled.accepts_all else compiled
            bounds = tier.min_offset(queue), queue.visible_offset
            if wanted is not None:
                page = await tier.read(queue, from_offset, MAX_COLD_RUN, wanted)
                return encode_cold(page, *bounds, to_offset, max_bytes)
            try:
                return await tier.run(queue, from_offset, to_offset, (MAX_COLD_RUN, max_bytes))
            except CorruptedRowError as error:
                if error.queue_offset >= to_offset:
                    raise
                return encode_corrupted(error, *bounds)
        if not self._is_there(queue, from_offset):
            return read_nothing(queue, from_offset)
        least = self._catalog.min_offset(queue)
        return await self._healed(
            lambda: read_run(self._engine, queue, from_offset, to_offset, max_bytes, filter, least)
        )

    async def bytes_between(self, topic: str, queue_id: int, from_offset: int, to_offset: int) -> int:
        """Return about how many bytes the messages of a range have: of the log, and where they are cold of the object
        store. Raises TOPIC_NOT_FOUND."""
        queue = self._catalog.existing_queue(topic, queue_id)
        end = min(to_offset, queue.visible_offset)
        first = max(from_offset, queue.min_offset)
        hot = bytes_between(queue, first, end) if first < end else 0
        if tier := self._tier_of(queue, from_offset):
            return hot + await tier.bytes_between(queue, from_offset, min(end, queue.min_offset))
        return hot

    async def matching_offsets(
        self, topic: str, queue_id: int, topic_filter: str, from_offset: int, limit: int
    ) -> tuple[list[int], int]:
        queue = self._catalog.existing_queue(topic, queue_id)
        compile_filter(FilterExpression(SUB_TOPIC, topic_filter))
        if tier := self._tier_of(queue, from_offset):  # by the page: matches are found during the read
            page = await tier.read(queue, from_offset, limit, compile_filter(FilterExpression(SUB_TOPIC, topic_filter)))
            return [message.queue_offset for message in page.messages], page.next_offset
        if not self._is_there(queue, from_offset):
            return [], from_offset
        return self._engine.lookup.matching_offsets(queue, topic_filter, from_offset, limit)

    async def offset_at(self, topic: str, queue_id: int, position: Position) -> int:
        queue = self._catalog.existing_queue(topic, queue_id)
        tier = self._catalog.tier
        if tier is None or not _may_be_cold(queue, position):
            return place_of(self._engine, queue, position)
        least = self.known_minimum(queue)
        if least < queue.min_offset:
            if position.kind is PositionKind.EARLIEST:
                return least
            if position.kind is PositionKind.OFFSET and position.value < queue.min_offset:
                return max(position.value, least)
            if position.kind is PositionKind.TIME:  # store time may step back: cold ones are searched first
                found = await tier.since(queue, position.value)
                return max(found, least) if found < queue.min_offset else place_of(self._engine, queue, position)
        return place_of(self._engine, queue, position)

    async def bounds(self, topic: str) -> list[QueueBounds]:
        found = self._catalog.bounds_of(self._catalog.existing_topic(topic))
        if (tier := self._catalog.tier) is not None and any(each.is_pending for each in found):
            await tier.settle(topic)
            found = self._catalog.bounds_of(self._catalog.existing_topic(topic))
        return self._catalog.with_incarnation(topic, found)

    def tail(
        self,
        topic: str,
        queue_id: int,
        start: int | Position | None,
        on_messages: Callable[[list[StoredMessage]], None],
    ) -> Tail:
        queue = self._catalog.existing_queue(topic, queue_id)
        tier = self._catalog.tier
        if start is None:
            start = queue.visible_offset
        if tier is not None and queue.min_offset > 0 and _may_be_cold(queue, start):
            return ColdTail(self, self._engine, queue, start, on_messages)
        if isinstance(start, Position):
            start = place_of(self._engine, queue, start)
        return QueueTail(self._engine, queue, start, on_messages)


def _may_be_cold(queue: ConsumeQueue, start: int | Position) -> bool:
    if isinstance(start, int):
        return start < queue.min_offset
    return start.kind in (PositionKind.EARLIEST, PositionKind.TIME) or (
        start.kind is PositionKind.OFFSET and start.value < queue.min_offset
    )
