"""Dead letters that go to their group again.

A group's pops take from its retry topic of the topic, too (`%RETRY%<group>_<topic>`), and no other group does.  So a
copy of the dead letter goes there, as it was stored.  A broker takes `<group>_<topic>` for the name of a group, which
is made for the moment.  Ordered groups read no retry topic.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from entrepot.domain.broker_of_queue import local_place
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.names import RETRY_PREFIX, dead_letter_topic
from entrepot.protocols.rocketmq.remoting import codes
from entrepot.protocols.rocketmq.remoting.messages import RETRY_TOPIC
from entrepot.protocols.rocketmq.remoting.names import origin_of
from entrepot.protocols.rocketmq.remoting.records import Record
from entrepot.store_client.rocketmq.absent import refuse
from entrepot.store_client.rocketmq.cluster import Cluster
from entrepot.store_client.rocketmq.copies import group_in, store_copy
from entrepot.store_client.rocketmq.reading import Reading
from entrepot.store_client.rocketmq.send_request import StorePlace

AT_ONCE: Final = 16
"""Dead letters that are on their way at one time."""


class DeadLetters:
    """Implements `domain.ports.Consumption.resend_dead_letters`."""

    def __init__(self, cluster: Cluster, reading: Reading) -> None:
        self._cluster, self._reading = cluster, reading
        self._turns = asyncio.Semaphore(AT_ONCE)

    async def resend(self, group: str, queue_offsets: Sequence[int], queue_id: int = 0) -> list[EntrepotError | None]:
        """Send dead letters to their group again, with all attempts anew.  Raises CONSUMER_GROUP_NOT_FOUND, and
        UNSUPPORTED for an ordered group."""
        known = self._cluster.groups.get(group)
        if known is None:
            raise EntrepotError(Code.CONSUMER_GROUP_NOT_FOUND, f"group {group!r} is not known here")
        if known.fifo:
            refuse("send dead letters to an ordered group again", "send them to their topic again")

        places: set[StorePlace] = set()

        async def resend(queue_offset: int) -> EntrepotError | None:
            try:
                async with self._turns:
                    places.add(await self._resend(group, queue_id, queue_offset))
            except EntrepotError as refusal:
                return refusal.with_traceback(None)
            return None

        wanted = list(dict.fromkeys(queue_offsets))
        outcomes = dict(zip(wanted, await asyncio.gather(*map(resend, wanted)), strict=True))
        await self._tidy(places)
        return [outcomes[offset] for offset in queue_offsets]

    async def _resend(self, group: str, queue_id: int, queue_offset: int) -> StorePlace:
        broker, record = await self._dead_letter(group, queue_id, queue_offset)
        names = self._cluster.names
        own = names.resource(group)
        origin = origin_of(record.properties.get(RETRY_TOPIC, ""), own)
        if not origin or not names.is_ours(origin):
            raise EntrepotError(Code.TOPIC_NOT_FOUND, "the dead letter does not tell its topic")
        route = await self._cluster.routes.of(names.name(origin))
        brokers = {each.name: each.address for each in route.brokers}
        at = broker if broker in brokers else next(iter(brokers))
        place = StorePlace(f"{RETRY_PREFIX}{own}_{origin}", 0, at, brokers[at])
        await store_copy(self._cluster, place, record, {})
        return place

    async def _dead_letter(self, group: str, queue_id: int, queue_offset: int) -> tuple[str, Record]:
        """Return the broker and the record of a dead letter.  Raises ILLEGAL_OFFSET."""
        missing = EntrepotError(Code.ILLEGAL_OFFSET, f"group {group!r} has no dead letter at {queue_offset}")
        topic = dead_letter_topic(group)
        try:
            queue = (await self._cluster.routes.of(topic)).queue(queue_id)
            found = await self._reading.pull(topic, queue_id, queue_offset, 1)
        except EntrepotError as refusal:
            if refusal.code not in (Code.TOPIC_NOT_FOUND, Code.ILLEGAL_OFFSET):
                raise
            raise missing from refusal
        if not found.messages or found.messages[0].queue_offset != queue_offset:
            raise missing
        record = await self._cluster.record_at(queue.broker, local_place(found.messages[0].commit_log_offset))
        if record is None or record.queue_offset != queue_offset or record.fault:
            raise missing
        return queue.broker, record

    async def _tidy(self, places: set[StorePlace]) -> None:
        """Delete the groups that brokers took the retry topics for: without `cleanOffset` a broker keeps them."""
        for place in places:
            if self._cluster.names.name(group_in(place)) not in self._cluster.groups:
                fields = {"groupName": group_in(place), "cleanOffset": True}
                with suppress(EntrepotError):  # it harms nobody, and the next dead letter tries again
                    await self._cluster.ask(place.address, codes.DELETE_GROUP, fields, what="delete a group")
