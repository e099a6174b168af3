"""Memberships: consumers of a group that own whole queues of a topic, and commit offsets.

These are RocketMQ's push and pull consumers in cluster mode. A membership is one key-value of the store,
`membership/<namespace>/<group>/<topic>`. So a member may heartbeat at any gateway, and no gateway has its own state.
Every change is a compare-and-set that is tried again where another gateway came first. Any reader drops members whose
lease is over. Leases are judged by the clock of the reading gateway, so clocks should differ by much less than a lease.

Committed offsets are the group's own, those that `group_status` tells. A commit names its generation. It is
refused when that is over, or when the member does not hold the queue. So a member that was away cannot move the new
owner's offset. Within one gateway the check and the commit are one step. Between gateways they are not: a commit
checked by one may land after another has shared the queues out anew, perhaps after a commit of the new owner.
Messages may then be read again (at least once); none is skipped that was never committed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final
from weakref import WeakValueDictionary

import msgspec

from entrepot.domain.allocation import AllocationStrategy
from entrepot.domain.clock import Clock
from entrepot.domain.definitions.consumer_group import EARLIEST, LATEST, ConsumerGroup, QueueProgress, parse_start
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.key_value import ABSENT, MAX_SCAN, KeyValueChange
from entrepot.domain.membership import DEFAULT_LEASE_MS, Membership, check_lease, check_member_id
from entrepot.domain.names import check_group_name, check_same_namespace, split_name
from entrepot.domain.ports import Store
from entrepot.domain.position import EARLIEST_POSITION, LATEST_POSITION, Position, PositionKind
from entrepot.gateway.key_values.compare_and_set import if_unchanged
from entrepot.gateway.messaging.assignment_waiters import AssignmentWaiters, Waiter
from entrepot.gateway.settings import GroupsSettings

PREFIX: Final = "membership/"
MAX_TRIES: Final = 32
"""Tries of a change that another gateway overtakes."""

_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder(Membership).decode

Change = Callable[[Membership, int], Membership]
"""Change of a membership at a time (epoch milliseconds)."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """A member's view: the `membership`, the group's `progress` on the member's queues, and its lease. A member that
    left, or was dropped, while it waited has no queues."""

    membership: Membership
    progress: list[QueueProgress]
    lease_ms: int


class Memberships:
    """The memberships of all groups, as this gateway sees and changes them."""

    def __init__(self, store: Store, clock: Clock, group_defaults: GroupsSettings) -> None:
        self._store = store
        self._clock = clock
        self._group_defaults = group_defaults
        self._waiters = AssignmentWaiters(store, PREFIX, _generation_of)
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def heartbeat(
        self,
        group: str,
        topic: str,
        member_id: str,
        *,
        lease_ms: int = DEFAULT_LEASE_MS,
        strategy: AllocationStrategy | None = None,
        known_generation: int | None = None,
        wait_seconds: float = 0,
    ) -> Assignment:
        """Join, or stay a member; the first use creates the group. With `known_generation`, wait for another one.

        A waiting member stays a member. Raises TOPIC_NOT_FOUND, FORBIDDEN (not readable, or of another namespace),
        ILLEGAL_CONSUMER_GROUP, BAD_REQUEST (id or lease), PRECONDITION_FAILED (another strategy than the other
        members'), TOO_MANY_REQUESTS (members, or long polls).
        """
        check_member_id(member_id)
        check_lease(lease_ms)
        await self._ensure_group(group, topic)

        def join(membership: Membership, now_ms: int) -> Membership:
            return membership.joined(member_id, lease_ms, strategy, now_ms)

        if known_generation is None or wait_seconds <= 0:
            membership = await self._change(group, topic, join)
        else:
            with self._waiters.waiting(_key(group, topic), topic, known_generation) as waiter:
                membership = await self._change(group, topic, join)
                end = asyncio.get_running_loop().time() + wait_seconds
                membership = await self._waited(group, topic, member_id, membership, waiter, end)
        return await self._assignment(group, topic, member_id, membership, lease_ms)

    async def _waited(
        self, group: str, topic: str, member_id: str, membership: Membership, waiter: Waiter, end: float
    ) -> Membership:
        """Return the membership when its generation is not the known one any more, or the time is over."""
        loop = asyncio.get_running_loop()

        def renew(membership: Membership, now_ms: int) -> Membership:
            return membership.renewed(member_id, now_ms)

        while membership.generation == waiter.known_generation and not self._waiters.is_released:
            remaining = end - loop.time()
            if remaining <= 0:
                break
            await waiter.wait(min(remaining, self._seconds_to_look(membership, member_id)))
            membership = await self._change(group, topic, renew)
        return membership

    def _seconds_to_look(self, membership: Membership, member_id: str) -> float:
        """Seconds until a change is due: half of the member's own lease, or the end of another member's."""
        now_ms = self._clock.now_ms()
        dues = [
            member.lease_ms // 2 if member.id == member_id else member.expires_at_ms - now_ms
            for member in membership.members
        ]
        return max(min(dues, default=DEFAULT_LEASE_MS), 1) / 1000

    async def leave(self, group: str, topic: str, member_id: str) -> None:
        """Give a member's queues to the others at once; no error for a consumer that is not (or no longer) a member."""
        check_member_id(member_id)
        self._check_names(group, topic)
        await self._change(group, topic, lambda membership, _: membership.left(member_id))

    async def members(self, group: str, topic: str) -> Membership:
        """Return the present membership. Raises TOPIC_NOT_FOUND, CONSUMER_GROUP_NOT_FOUND."""
        self._check_names(group, topic)
        if self._store.topology.group(group) is None:
            raise EntrepotError(Code.CONSUMER_GROUP_NOT_FOUND, f"there is no group {group!r}")
        return await self._change(group, topic, lambda membership, _: membership)

    async def commit(
        self, group: str, topic: str, member_id: str, generation: int, offsets: Mapping[int, int]
    ) -> dict[int, int]:
        """Commit the offset of the next message of each queue (RocketMQ: update consumer offset, increase only).

        Return the committed offsets, durable by then. An offset after the committed one changes nothing.

        Raises PRECONDITION_FAILED (the generation is over, a queue is not the member's, or pop consumers hold messages
        of it: their handles would be void), ILLEGAL_OFFSET (outside of the queue); then nothing was committed.
        """
        check_member_id(member_id)
        self._check_names(group, topic)
        async with self._lock(_key(group, topic)):
            membership = await self._change_alone(group, topic, lambda membership, _: membership)
            _check_holder(membership, member_id, generation, offsets)
            await self._check_offsets(topic, offsets)
            progress = {queue.queue_id: queue for queue in await self._progress(group, topic, membership.queues)}
            onward = {queue_id: at for queue_id, at in offsets.items() if at > progress[queue_id].committed_offset}
            for queue_id in onward:
                if progress[queue_id].in_flight:
                    raise EntrepotError(
                        Code.PRECONDITION_FAILED, f"consumers that receive hold messages of queue {queue_id}"
                    )
            await self._go_on_from(group, topic, onward)
        return {queue_id: max(at, progress[queue_id].committed_offset) for queue_id, at in offsets.items()}

    async def forget(self, *, group: str | None = None, topic: str | None = None) -> None:
        """Drop the memberships of a group or topic that was deleted."""
        prefix = f"{PREFIX}{split_name(group or topic or '')[0]}/"
        if group is not None:
            prefix += f"{split_name(group)[1]}/"
        after = ""
        while facts := await self._store.key_values.scan(prefix, after=after, limit=MAX_SCAN):
            after = facts[-1].key
            gone = [fact.key for fact in facts if topic is None or fact.key.endswith(f"/{split_name(topic)[1]}")]
            if gone:
                await self._store.key_values.write([KeyValueChange(key, None) for key in gone])

    def release_waiting(self) -> None:
        """Answer every long poll now, and let none wait from here on (the gateway is draining)."""
        self._waiters.release()

    # -- the membership ----------------------------------------------------------------------------------------------

    async def _change(self, group: str, topic: str, change: Change) -> Membership:
        async with self._lock(_key(group, topic)):
            return await self._change_alone(group, topic, change)

    async def _change_alone(self, group: str, topic: str, change: Change) -> Membership:
        """Return the membership after a change, stored if it differs; other gateways may change it at the same time."""
        key = _key(group, topic)
        for _ in range(MAX_TRIES):
            queues, now_ms = self._queues(topic), self._clock.now_ms()
            [kept] = await self._store.key_values.get([key])
            before = Membership() if kept is None else _decode(kept.value)
            after = change(before.seen_at(now_ms, queues), now_ms)
            if after == before or (kept is None and not after.members):
                return after
            expected = ABSENT if kept is None else kept.version
            changes = [KeyValueChange(key, _encode(after), expected)]
            if await if_unchanged(self._store.key_values.write(changes)) is not None:
                return after
        raise EntrepotError(Code.TOO_MANY_REQUESTS, f"too many change the members of group {group!r} at once")

    def _queues(self, topic: str) -> tuple[int, ...]:
        """The topic's queues in this gateway's view, which may be behind another gateway's for a moment."""
        found = self._store.topology.topic(topic)
        if found is None:
            raise EntrepotError(Code.TOPIC_NOT_FOUND, f"there is no topic {topic!r}")
        return tuple(sorted(self._store.topology.queues(found).readable))

    def _lock(self, key: str) -> asyncio.Lock:
        return self._locks.setdefault(key, asyncio.Lock())

    async def _ensure_group(self, group: str, topic: str) -> None:
        self._check_names(group, topic)
        found = self._store.topology.topic(topic)
        if found is not None and not found.permission.readable:
            raise EntrepotError(Code.FORBIDDEN, f"topic {topic!r} is not readable")
        if found is not None and self._store.topology.group(group) is None:
            await self._store.topology.put_group(self._group_defaults.by_use(group))

    def _check_names(self, group: str, topic: str) -> None:
        check_group_name(split_name(group)[1])
        check_same_namespace(topic, group)

    # -- offsets -----------------------------------------------------------------------------------------------------

    async def _assignment(
        self, group: str, topic: str, member_id: str, membership: Membership, lease_ms: int
    ) -> Assignment:
        """Read progress after the membership: it includes all commits of the generation before."""
        mine = set(membership.assignment().get(member_id, ()))
        async with self._lock(_key(group, topic)):
            progress = await self._progress(group, topic, membership.queues)
        return Assignment(membership, [queue for queue in progress if queue.queue_id in mine], lease_ms)

    async def _progress(self, group: str, topic: str, queues: tuple[int, ...]) -> list[QueueProgress]:
        """Return the group's progress on the queues, after starting it on those that are new to it. Two gateways that
        start it at one moment set the same offset; a commit in between is undone, and read again."""
        status = await self._store.topology.group_status(group)
        while True:
            known = {queue.queue_id: queue for queue in status.progress if queue.topic == topic}
            missing = [queue_id for queue_id in queues if queue_id not in known]
            if not missing:
                return [known[queue_id] for queue_id in queues]
            if not known:
                status = await self._store.consumption.reset_group(group, topic, _start(status.group))
            else:  # queues added later are read from their beginning
                status = await self._store.consumption.reset_group(group, topic, EARLIEST_POSITION, missing[0])

    async def _check_offsets(self, topic: str, offsets: Mapping[int, int]) -> None:
        bounds = {queue.queue_id: queue for queue in await self._store.messages.bounds(topic)}
        for queue_id, offset in offsets.items():
            queue = bounds.get(queue_id)
            if queue is None or not 0 <= offset <= queue.max_offset:
                end = 0 if queue is None else queue.max_offset
                raise EntrepotError(
                    Code.ILLEGAL_OFFSET, f"offset {offset} of queue {queue_id} is outside of 0 to {end}"
                )

    async def _go_on_from(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        """Set all offsets at once, durable together; raise the first refusal after all have ended."""
        resets = [
            self._store.consumption.reset_group(group, topic, Position(PositionKind.OFFSET, offset), queue_id)
            for queue_id, offset in offsets.items()
        ]
        for outcome in await asyncio.gather(*resets, return_exceptions=True):
            if isinstance(outcome, BaseException):
                raise outcome


def _check_holder(membership: Membership, member_id: str, generation: int, offsets: Mapping[int, int]) -> None:
    """Raise PRECONDITION_FAILED unless the member holds the queues in this very generation."""
    mine = membership.assignment().get(member_id)
    if mine is None:
        raise EntrepotError(Code.PRECONDITION_FAILED, f"{member_id!r} is not a member (any more): join again")
    if generation != membership.generation:
        raise EntrepotError(
            Code.PRECONDITION_FAILED,
            f"generation {generation} is not the present one, which is {membership.generation}: ask for your queues",
        )
    others = sorted(set(offsets).difference(mine))
    if others:
        raise EntrepotError(Code.PRECONDITION_FAILED, f"queue {others[0]} is not one of {member_id!r}")


def _start(group: ConsumerGroup) -> Position:
    if group.start in (EARLIEST, LATEST):
        return EARLIEST_POSITION if group.start == EARLIEST else LATEST_POSITION
    return Position(PositionKind.TIME, max(parse_start(group.start) or 0, 0))


def _key(group: str, topic: str) -> str:
    """The membership's key; the namespace is always there, so that no two groups share a key or prefix."""
    namespace, plain = split_name(group)
    return f"{PREFIX}{namespace}/{plain}/{split_name(topic)[1]}"


def _generation_of(value: bytes | None) -> int:
    return 0 if value is None else _decode(value).generation
