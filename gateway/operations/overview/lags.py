"""Lag of consumer groups in messages, and in time for those that are furthest behind."""

from __future__ import annotations

import asyncio
import heapq
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from entrepot.domain.definitions.consumer_group import GroupStatus, QueueProgress
from entrepot.domain.errors import EntrepotError
from entrepot.domain.names import split_name
from entrepot.gateway.messaging.yielding import in_pages
from entrepot.gateway.operations.overview.shapes import LagShown
from entrepot.gateway.operations.row.statuses import group_statuses

if TYPE_CHECKING:
    from entrepot.domain.ports import Store

MAX_GROUPS: Final = 20
"""Groups whose lag is told, those with most messages."""
MAX_QUEUES: Final = 8
"""Queues of a group that are read for its lag in time."""
PAGE: Final = 200
"""Groups between two turns of others."""
READ_SECONDS: Final = 1.5
"""Longest wait for all reads of one group."""


@dataclass(frozen=True, slots=True)
class Lag:
    """Unsettled messages of a group in a topic. `seconds`: age of the oldest one that was read; None: not known."""

    topic: str
    group: str
    messages: int
    seconds: float | None
    is_complete: bool = True
    """False if a broker's part is missing: then there are at least so many."""

    @property
    def series(self) -> str:
        return f"lag.{split_name(self.topic)[1]}/{split_name(self.group)[1]}"

    @property
    def shown(self) -> LagShown:
        namespace, topic = split_name(self.topic)
        group = split_name(self.group)[1]
        return LagShown(namespace, topic, group, str(self.messages), self.seconds, self.is_complete)


async def furthest_lags(store: Store, now_ms: int) -> list[Lag]:
    """The groups that are furthest behind, by topic, with most messages first."""
    answers = await group_statuses(store, [group.name for group in store.topology.groups()])
    found: list[tuple[str, str, int, list[QueueProgress]]] = []
    statuses = list(answers.statuses.values())
    async for page in in_pages(statuses, PAGE):
        found += _behind(page)
    behind = heapq.nlargest(MAX_GROUPS, found, key=lambda each: each[2])
    ages = await asyncio.gather(*(_age_seconds(store, queues, now_ms) for *_, queues in behind))
    return [
        Lag(topic, group, lag, age, not (answers.missing or group in answers.partial))
        for (topic, group, lag, _), age in zip(behind, ages, strict=True)
    ]


def _behind(statuses: Iterable[GroupStatus]) -> list[tuple[str, str, int, list[QueueProgress]]]:
    found: defaultdict[tuple[str, str], list[QueueProgress]] = defaultdict(list)
    for status in statuses:
        for queue in status.progress:
            if queue.lag > 0:
                found[queue.topic, status.group.name].append(queue)
    return [(topic, group, sum(each.lag for each in queues), queues) for (topic, group), queues in found.items()]


async def _age_seconds(store: Store, queues: list[QueueProgress], now_ms: int) -> float | None:
    """Age of the oldest unsettled message, of the queues with most of them; None where one cannot be read."""
    most = heapq.nlargest(MAX_QUEUES, queues, key=lambda each: each.lag)
    try:
        async with asyncio.timeout(READ_SECONDS):
            found = await asyncio.gather(
                *(store.messages.read(each.topic, each.queue_id, each.committed_offset, 1) for each in most)
            )
    except (EntrepotError, TimeoutError):
        return None
    times = [messages[0].store_time_ms for messages in found if messages]
    return max((now_ms - min(times)) / 1000, 0.0) if times else None
