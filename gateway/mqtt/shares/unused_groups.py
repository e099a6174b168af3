"""UnusedGroups: the end of groups that shared subscriptions made, and that nobody uses any more.

| key                   | value                                                                    |
|-----------------------|--------------------------------------------------------------------------|
| `share-group/<group>` | `ShareGroupRecord`: what the group is for, and when it was used last     |

Only a group with a record ends, and only while it is the one that the record tells of: a group that an operator or
another door made or changed stays. Several gateways may sweep at once: a record is changed only where it is unchanged.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Final

import msgspec
import structlog

from entrepot.domain.clock import Clock
from entrepot.domain.definitions.consumer_group import ConsumerGroup, GroupStatus
from entrepot.domain.errors import NOT_THERE, EntrepotError
from entrepot.domain.key_value import KeyValue, KeyValueChange
from entrepot.domain.ports import Store
from entrepot.domain.ports.key_value_pages import key_value_pages
from entrepot.domain.share import share_group, whole_topic
from entrepot.gateway.key_values.compare_and_set import if_unchanged
from entrepot.gateway.mqtt.shares.groups import groups_of
from entrepot.gateway.mqtt.topics.names import Share
from entrepot.gateway.work.periodic_work import PeriodicWork

SHARE_GROUP_PREFIX: Final = "share-group/"
SLOWEST_SECONDS: Final = 60.0
"""Longest interval between sweeps."""
SWEEPS_PER_LIFE: Final = 8
WRITES_PER_LIFE: Final = 4
"""A use is written down when so large a part of the group's life has passed since the last one."""
PAGE: Final = 500
NOT_SEEN: Final = -1

log = structlog.get_logger(__name__)


class ShareGroupRecord(msgspec.Struct, array_like=True, frozen=True):
    """The origin of a group that a share made. `start` and `revision` are those of its definition.

    `seen_settled`: messages settled when half of its life was over, or NOT_SEEN; `seen_waiting`: some waited then. New
    fields come last, with a default.
    """

    share_name: str
    filter: str
    start: str
    revision: int
    used_at_ms: int
    seen_settled: int = NOT_SEEN
    seen_waiting: bool = False

    def is_of(self, group: ConsumerGroup | None) -> bool:
        """True if the group is still the one that the share made."""
        return group is not None and (group.start, group.revision) == (self.start, self.revision)

    @property
    def is_open_to_others(self) -> bool:
        """True if the group has the name of a whole Topic's share, by which consumers of other doors join it."""
        return whole_topic(self.filter) is not None


class UnusedGroups:
    """The sweeper. `life_seconds`: time from the last use to the end of a group, 0 for no end. `in_use`: groups of
    shares with members here. `lasting`: shares of all recorded sessions."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        life_seconds: int,
        in_use: Callable[[], set[str]],
        lasting: Callable[[], Awaitable[set[Share]]],
    ) -> None:
        self._store, self._clock = store, clock
        self._life_ms = life_seconds * 1000
        self._in_use, self._lasting = in_use, lasting
        period = min(SLOWEST_SECONDS, max(life_seconds, 1) / SWEEPS_PER_LIFE)
        self.sweeping = PeriodicWork("groups of shared subscriptions", period, self.sweep)
        self._were_in_use: set[str] = set()
        """Groups in use at the last sweep."""
        self.is_on = False
        self.ended = 0
        """Groups that this gateway has ended."""

    def start(self) -> None:
        """Write uses down, and sweep periodically."""
        self.is_on = self._life_ms > 0
        if self.is_on:
            self.sweeping.start()

    async def close(self) -> None:
        await self.sweeping.close()

    # -- uses ----------------------------------------------------------------------------------------------------

    async def made(self, group: ConsumerGroup, share_name: str, topic_filter: str) -> None:
        """Write down that a share made a group. Without a record it has no end."""
        if not self.is_on:
            return
        record = ShareGroupRecord(share_name, topic_filter, group.start, group.revision, self._clock.now_ms())
        try:
            await self._store.key_values.write([KeyValueChange(_key(group.name), msgspec.msgpack.encode(record))])
        except EntrepotError as error:
            log.warning(
                "could not record the group of a share: it stays when unused", group=group.name, problem=error.message
            )

    async def used(self, groups: Iterable[str]) -> None:
        """Write down the use of groups by a new share here, before it relies on them."""
        names = sorted(set(groups)) if self.is_on else []
        try:
            found = await self._store.key_values.get([_key(name) for name in names]) if names else []
            for each in found:
                if each is not None and (record := _record(each)) is not None:
                    await self._use(each, record)
        except EntrepotError as error:
            log.info("could not record the use of a share's group", problem=error.message)

    async def _use(self, found: KeyValue, record: ShareGroupRecord) -> None:
        now_ms = self._clock.now_ms()
        if now_ms - record.used_at_ms >= self._life_ms // WRITES_PER_LIFE:
            await self._change(found, _used(record, now_ms))

    async def _change(self, found: KeyValue, record: ShareGroupRecord | None) -> bool:
        """Write or delete a record; False where another writer was first."""
        value = None if record is None else msgspec.msgpack.encode(record)
        change = KeyValueChange(found.key, value, found.version)
        return await if_unchanged(self._store.key_values.write([change])) is not None

    # -- sweeping ------------------------------------------------------------------------------------------------

    async def sweep(self) -> None:
        """Write uses down, and end the groups whose life is over. Raises what the store raises."""
        in_use, overdue = self._in_use(), []
        just_left, self._were_in_use = self._were_in_use - in_use, in_use
        async for page in key_value_pages(self._store.key_values, SHARE_GROUP_PREFIX, PAGE):
            for found in page:
                record = _record(found)
                if record is None:
                    await self._change(found, None)
                elif _group(found) in in_use:
                    await self._use(found, record)
                elif _group(found) in just_left:
                    await self._change(found, _used(record, self._clock.now_ms()))
                elif self._clock.now_ms() - record.used_at_ms < self._life_ms // 2:
                    continue
                elif record.is_of(self._store.topology.group(_group(found))):
                    overdue.append((found, record))
                else:  # it is gone, or was made by others since
                    await self._change(found, None)
        if overdue:
            await self._look(overdue)

    async def _look(self, overdue: list[tuple[KeyValue, ShareGroupRecord]]) -> None:
        """Look closer at groups that no share here has used for half of their life."""
        lasting = {group for share in await self._lasting() for group in groups_of(share.name, share.filter)}
        for found, record in overdue:
            name = _group(found)
            try:
                status = await self._store.topology.group_status(name)
            except EntrepotError as error:
                if error.code in NOT_THERE:
                    continue
                raise
            now_ms = self._clock.now_ms()
            is_over = now_ms - record.used_at_ms >= self._life_ms and record.seen_settled != NOT_SEEN
            if name in lasting or _is_read(record, status) or (is_over and not self._may_end(record, status)):
                await self._change(found, _used(record, now_ms))
            elif is_over:
                await self._end(found, record)
            elif record.seen_settled == NOT_SEEN:
                seen = msgspec.structs.replace(record, seen_settled=_settled(status), seen_waiting=_waits(status))
                await self._change(found, seen)

    @staticmethod
    def _may_end(record: ShareGroupRecord, status: GroupStatus) -> bool:
        """True unless a consumer of another door may be asking. One that asks takes what waits, so messages that waited
        for half of the group's life show that nobody does; but only on the share's own topic."""
        if not record.is_open_to_others or status.group.name != share_group(record.share_name):
            return True
        return record.seen_waiting and {each.topic for each in status.progress} == {whole_topic(record.filter)}

    async def _end(self, found: KeyValue, record: ShareGroupRecord) -> None:
        """End a group; a member that comes at this moment changes the record, and keeps it."""
        name = _group(found)
        if not await self._change(found, None):
            return
        try:
            await self._store.topology.delete_group(name)
        except EntrepotError as error:
            if error.code not in NOT_THERE:
                await self._store.key_values.write([KeyValueChange(found.key, found.value)])  # the next sweep ends it
                raise
        self.ended += 1
        log.info("the group of a share that nobody uses was deleted", group=name, filter=record.filter)


def _is_read(record: ShareGroupRecord, status: GroupStatus) -> bool:
    """True if a consumer of any door holds messages, or has settled some since half of the group's life was over."""
    is_further = record.seen_settled not in (NOT_SEEN, _settled(status))
    return is_further or any(each.in_flight for each in status.progress)


def _settled(status: GroupStatus) -> int:
    """Messages settled from the beginning on, in all queues together. Only consumers change it, retention does not."""
    return sum(each.committed_offset for each in status.progress)


def _waits(status: GroupStatus) -> bool:
    return any(each.lag for each in status.progress)


def _used(record: ShareGroupRecord, now_ms: int) -> ShareGroupRecord:
    return msgspec.structs.replace(record, used_at_ms=now_ms, seen_settled=NOT_SEEN, seen_waiting=False)


def _key(group: str) -> str:
    return SHARE_GROUP_PREFIX + group


def _group(found: KeyValue) -> str:
    return found.key.removeprefix(SHARE_GROUP_PREFIX)


def _record(found: KeyValue) -> ShareGroupRecord | None:
    """The record; None if it is corrupted: its group has no end then."""
    try:
        return msgspec.msgpack.decode(found.value, type=ShareGroupRecord)
    except msgspec.DecodeError:
        log.error("the record of a share's group cannot be read", group=_group(found))
        return None
