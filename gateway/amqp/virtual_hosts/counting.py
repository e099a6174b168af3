"""Counting: the number of messages in a queue, and purging."""

from __future__ import annotations

from typing import Final

from entrepot.domain.definitions.consumer_group import UnsettledBytes
from entrepot.domain.errors import NOT_THERE, EntrepotError
from entrepot.domain.names import retry_topic
from entrepot.domain.ports import MAX_POP_MESSAGES, PopRequest, Store
from entrepot.gateway.amqp.virtual_hosts.vhost import Queue

PURGE_LEASE_MS: Final = 30_000
READ_MESSAGES: Final = 500


class Counting:
    """Counts by the store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def counts(self, queue: Queue) -> tuple[int, int]:
        """Return the numbers of a queue's ready and unacknowledged messages; 0 of each for a deleted one."""
        try:
            status = await self._store.topology.group_status(queue.group)
            bounds = await self._store.messages.bounds(queue.topic)
        except EntrepotError as error:
            if error.code in NOT_THERE:
                return 0, 0
            raise
        unread = {each.queue_id: each.max_offset - each.min_offset for each in bounds}
        held = left = 0
        for progress in status.progress:
            if progress.topic == queue.topic:
                unread.pop(progress.queue_id, None)
            elif progress.topic != retry_topic(queue.group, queue.topic):
                continue
            held += progress.in_flight
            left += progress.lag
        return left - held + sum(unread.values()), held

    async def ready(self, queue: Queue) -> int:
        """Return the number of messages that wait for a consumer."""
        return (await self.counts(queue))[0]

    async def size(self, queue: Queue) -> UnsettledBytes | None:
        """Return the bytes of a queue's messages, nearly so for many; None for a stream, a deleted queue, or where the
        store does not know."""
        if queue.is_stream:
            return None
        try:
            return await self._store.topology.unsettled_bytes(queue.group, queue.topic)
        except EntrepotError as error:
            if error.code in NOT_THERE:
                return None
            raise

    async def ready_bytes(self, queue: Queue) -> int:
        """Return the bytes of the bodies from the first unsettled message on, without held messages at the head."""
        try:
            status = await self._store.topology.group_status(queue.group)
            bounds = await self._store.messages.bounds(queue.topic)
        except EntrepotError as error:
            if error.code in NOT_THERE:
                return 0
            raise
        done = {
            each.queue_id: each.committed_offset + each.in_flight
            for each in status.progress
            if each.topic == queue.topic
        }
        size = 0
        for each in bounds:
            at = max(done.get(each.queue_id, 0), each.min_offset)
            while at < each.max_offset:
                messages = await self._store.messages.read(queue.topic, each.queue_id, at, READ_MESSAGES)
                if not messages:
                    break
                size += sum(len(message.body) for message in messages)
                at = messages[-1].queue_offset + 1
        return size

    async def purge(self, queue: Queue) -> int:
        """Remove all ready messages; return their number."""
        count = 0
        request = PopRequest(queue.topic, queue.group, MAX_POP_MESSAGES, 0, PURGE_LEASE_MS)
        for _ in range(await self.ready(queue) + 1):  # later messages are not meant
            deliveries = await self._store.consumption.pop(request)
            if not deliveries:
                break
            outcomes = await self._store.consumption.acknowledge(queue.topic, queue.group, deliveries)
            count += sum(outcome is None for outcome in outcomes)
        return count
