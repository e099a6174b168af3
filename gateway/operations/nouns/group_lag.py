"""The lag of a group: for each queue, in messages and in time."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Final

from msgspec import Meta

from entrepot.domain.access.model import Action, ResourceType
from entrepot.domain.broker_answers import BrokerAnswers
from entrepot.domain.definitions.consumer_group import GroupStatus, QueueProgress
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.names import split_name
from entrepot.domain.position import EARLIEST_POSITION
from entrepot.gateway.operations.row.operation import Noun
from entrepot.gateway.operations.row.paging import AnsweredBrokers, answered_brokers
from entrepot.gateway.operations.row.problem import bad_request
from entrepot.gateway.operations.row.rights import on
from entrepot.gateway.operations.row.shapes import GroupName, Part, Query, Time, shown_as
from entrepot.gateway.operations.row.statuses import group_statuses
from entrepot.gateway.operations.row.times import time_shape

if TYPE_CHECKING:
    from entrepot.domain.clock import Clock
    from entrepot.domain.ports import Store

MAX_ROWS: Final = 256
READ_AT_ONCE: Final = 16
"""Number of oldest messages that are read side by side."""
AGE_SECONDS: Final = 1.5
"""Longest wait for the ages of a page."""
MAX_TEXT: Final = 256


class QueueLag(Part, frozen=True):
    topic: str
    queue_id: int
    committed_offset: str
    max_offset: str
    in_flight: str
    lag: str
    lag_seconds: float | None
    oldest_time: Time | None


class GroupLag(Part, frozen=True):
    value: list[QueueLag]
    next: str | None
    lag: str | None
    in_flight: str | None
    is_complete: bool
    answered: AnsweredBrokers


shown_as(QueueLag("orders", 0, "41", "44", "1", "3", 12.5, "2026-12-01T08:00:00.000Z"))


class LagAsked(Query, frozen=True):
    lagging: Annotated[bool, Meta(description="Only queues with a lag")] = False
    topic: Annotated[str, Meta(max_length=MAX_TEXT, description="Only queues of this topic, also in the sums")] = ""
    after: Annotated[str, Meta(max_length=MAX_TEXT, description="`next` of the page before")] = ""
    limit: Annotated[int, Meta(ge=1, le=MAX_ROWS, description="Each row costs a read of its oldest message")] = 64


GROUP_LAG: Final = Noun("groups", "/groups/{name}", "lag", is_in_namespaces=True)


class LagOfGroups:
    """The operation of the lag."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store, self._clock = store, clock

    @GROUP_LAG.get(
        "/lag",
        "getGroupLag",
        "Get the lag of a group for each queue, in messages and seconds",
        on(ResourceType.GROUP, Action.GET),
        about="Seconds are the age of the oldest unsettled message, and null while nobody tells it.",
        shows={"next": "orders:0", "lag": "3", "inFlight": "1", "isComplete": True},
    )
    async def show(self, name: GroupName, query: LagAsked) -> GroupLag:
        answers, status = await status_of(self._store, name)
        progress = [each for each in status.progress if query.topic in ("", split_name(each.topic)[1])]
        queues = [each for each in progress if each.lag or not query.lagging]
        if query.after:
            begin = _read_cursor(query.after)
            queues = [each for each in queues if _place(each) > begin]
        shown = queues[: query.limit]
        oldest = await _oldest_times(self._store, shown)
        now_ms = self._clock.now_ms()
        is_known = bool(answers.statuses)
        return GroupLag(
            value=[_row(each, oldest.get(_place(each)), now_ms) for each in shown],
            next=":".join(map(str, _place(shown[-1]))) if len(queues) > query.limit else None,
            lag=str(sum(each.lag for each in progress)) if is_known else None,
            in_flight=str(sum(each.in_flight for each in progress)) if is_known else None,
            is_complete=is_known and not answers.partial,
            answered=answered_brokers(answers),
        )


async def status_of(store: Store, name: str) -> tuple[BrokerAnswers[GroupStatus], GroupStatus]:
    """Return the answers of the brokers, and what they told.  Raises CONSUMER_GROUP_NOT_FOUND."""
    definition = store.topology.group(name)
    if definition is None:
        raise EntrepotError(Code.CONSUMER_GROUP_NOT_FOUND, f"there is no group {split_name(name)[1][:160]!r}")
    answers = await group_statuses(store, [name])
    return answers, answers.statuses.get(name) or GroupStatus(definition, [])


def _place(queue: QueueProgress) -> tuple[str, int]:
    return split_name(queue.topic)[1], queue.queue_id


def _read_cursor(text: str) -> tuple[str, int]:
    topic, colon, queue_id = text.rpartition(":")
    if not (colon and queue_id.isascii() and queue_id.isdecimal() and len(queue_id) < 20):
        raise bad_request(f"after: {text[:80]!r} is not the cursor of a page of queues")
    return topic, int(queue_id)


async def _oldest_times(store: Store, queues: list[QueueProgress]) -> dict[tuple[str, int], int]:
    """Store times of the oldest unsettled messages, as far as they are told in time."""
    found: dict[tuple[str, int], int] = {}

    async def look(queue: QueueProgress) -> None:
        try:
            stored_ms = await _oldest_time(store, queue)
        except EntrepotError:
            return  # its broker is away, or its record is damaged: unknown
        if stored_ms is not None:
            found[_place(queue)] = stored_ms

    lagging = [queue for queue in queues if queue.lag]
    try:
        async with asyncio.timeout(AGE_SECONDS):
            for at in range(0, len(lagging), READ_AT_ONCE):
                await asyncio.gather(*map(look, lagging[at : at + READ_AT_ONCE]))
    except TimeoutError:
        pass  # the others stay unknown
    return found


async def _oldest_time(store: Store, queue: QueueProgress) -> int | None:
    try:
        found = await store.messages.read(queue.topic, queue.queue_id, queue.committed_offset, 1)
    except EntrepotError as error:
        if error.code is not Code.ILLEGAL_OFFSET:
            raise
        # retention has overtaken the group: the oldest message that is left
        first = await store.messages.offset_at(queue.topic, queue.queue_id, EARLIEST_POSITION)
        found = await store.messages.read(queue.topic, queue.queue_id, first, 1)
    return found[0].store_time_ms if found else None


def _row(queue: QueueProgress, oldest_ms: int | None, now_ms: int) -> QueueLag:
    """Show a queue's lag: seconds are null where they are not known, and 0 without a lag."""
    age = None if oldest_ms is None else max(now_ms - oldest_ms, 0) / 1000
    return QueueLag(
        topic=split_name(queue.topic)[1],
        queue_id=queue.queue_id,
        committed_offset=str(queue.committed_offset),
        max_offset=str(queue.max_offset),
        in_flight=str(queue.in_flight),
        lag=str(queue.lag),
        lag_seconds=age if queue.lag else 0.0,
        oldest_time=time_shape(oldest_ms) if oldest_ms is not None else None,
    )
