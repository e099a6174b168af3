"""Members of a group with whole queues: heartbeat, leave, list, commit offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

from msgspec import Meta

from entrepot.domain.allocation import AllocationStrategy
from entrepot.domain.membership import DEFAULT_LEASE_MS, MAX_LEASE_MS, MAX_MEMBER_LENGTH, MIN_LEASE_MS
from entrepot.domain.timestamp import to_rfc3339
from entrepot.domain.topic import MAX_QUEUES
from entrepot.gateway.operations.row.change_names import NO_CHANGE
from entrepot.gateway.operations.row.operation import Noun
from entrepot.gateway.operations.row.problem import bad_request
from entrepot.gateway.operations.row.rights import consuming
from entrepot.gateway.operations.row.shapes import (
    Body,
    GroupName,
    Listed,
    Offset,
    Part,
    PlainName,
    Query,
    Shown,
    Time,
    TopicName,
    shown_as,
)

if TYPE_CHECKING:
    from entrepot.gateway.messaging.membership import Memberships


# -- what goes out ---------------------------------------------------------------------------------------------------


class OwnQueue(Part, frozen=True):
    queue_id: int
    committed_offset: int
    max_offset: int


class AssignmentShown(Shown, frozen=True):
    """The queues of a member, of this generation"""

    generation: int
    strategy: AllocationStrategy
    members: list[str]
    lease_seconds: float
    queues: list[OwnQueue]


class MemberShown(Part, frozen=True):
    member: str
    queues: list[int]
    lease_seconds: float
    expires_at: Time | None


class MembersShown(Part, frozen=True):
    value: list[MemberShown]
    generation: int
    strategy: AllocationStrategy | None


class Committed(Part, frozen=True):
    queue_id: int
    committed_offset: int


shown_as(AssignmentShown(2, AllocationStrategy.AVERAGED, ["line-1"], 30.0, [OwnQueue(0, 41, 44)]))
shown_as(MemberShown("line-1", [0, 1], 30.0, "2026-12-01T08:00:00.000Z"))
shown_as(Committed(0, 44))


# -- what comes in ---------------------------------------------------------------------------------------------------


class Heartbeat(Body, frozen=True):
    """A member's heartbeat.  Without a strategy it takes that of the other members."""

    lease_seconds: Annotated[float, Meta(ge=MIN_LEASE_MS / 1000, le=MAX_LEASE_MS / 1000)] = DEFAULT_LEASE_MS / 1000
    strategy: AllocationStrategy | None = None


class HeartbeatAsked(Query, frozen=True):
    generation: Annotated[Offset | None, Meta(description="Known generation; the answer waits for another one")] = None
    wait_time: Annotated[
        float, Meta(ge=0, description="Longest wait, in seconds, at most the setting `http.max_wait_seconds`")
    ] = 0


class QueueOffset(Body, frozen=True):
    """Offset of the next message to consume from a queue."""

    queue_id: Offset
    offset: Offset


class Commit(Body, frozen=True):
    """A member's progress in its queues."""

    member: Annotated[str, Meta(min_length=1, max_length=MAX_MEMBER_LENGTH)]
    generation: Offset
    offsets: Annotated[list[QueueOffset], Meta(min_length=1, max_length=MAX_QUEUES)]

    def by_queue(self) -> dict[int, int]:
        """Offsets by queue.  Raises BAD_REQUEST for a queue named twice."""
        offsets = {one.queue_id: one.offset for one in self.offsets}
        if len(offsets) < len(self.offsets):
            raise bad_request("offsets: names a queue twice")
        return offsets


# -- the operations --------------------------------------------------------------------------------------------------

MEMBERS: Final = Noun("members", "/groups/{name}/topics/{topic}", "member", is_in_namespaces=True)
_MEMBER: Final = consuming("topic", "name")


class Members:
    """The operations of members."""

    def __init__(self, memberships: Memberships, max_wait_seconds: float) -> None:
        self._memberships, self._max_wait = memberships, max_wait_seconds

    @MEMBERS.post(
        "/members/{member}",
        "heartbeatMember",
        "Join a group or send a heartbeat, and get the member's queues",
        _MEMBER,
        change=NO_CHANGE,
        example={"leaseSeconds": 30, "strategy": "AVERAGED"},
        waits=True,  # the poll of a client that has gone must not keep a member alive
    )
    async def heartbeat(
        self, name: GroupName, topic: TopicName, member: PlainName, query: HeartbeatAsked, body: Heartbeat
    ) -> AssignmentShown:
        if query.wait_time > self._max_wait:
            raise bad_request(f"waitTime: Input should be less than or equal to {self._max_wait:g}")
        assignment = await self._memberships.heartbeat(
            name,
            topic,
            member,
            lease_ms=int(body.lease_seconds * 1000),
            strategy=body.strategy,
            known_generation=query.generation,
            wait_seconds=query.wait_time,
        )
        membership = assignment.membership
        return AssignmentShown(
            generation=membership.generation,
            strategy=membership.strategy,
            members=[each.id for each in membership.members],
            lease_seconds=assignment.lease_ms / 1000,
            queues=[OwnQueue(each.queue_id, each.committed_offset, each.max_offset) for each in assignment.progress],
        )

    @MEMBERS.delete(
        "/members/{member}",
        "removeMember",
        "Leave a group; the other members take the queues",
        _MEMBER,
        change=NO_CHANGE,
    )
    async def leave(self, name: GroupName, topic: TopicName, member: PlainName) -> None:
        await self._memberships.leave(name, topic, member)

    @MEMBERS.get(
        "/members",
        "listMembers",
        "List the members of a group on a topic, with their queues",
        _MEMBER,
        shows={"generation": 2, "strategy": "AVERAGED"},
    )
    async def listed(self, name: GroupName, topic: TopicName) -> MembersShown:
        membership = await self._memberships.members(name, topic)
        queues = membership.assignment()
        return MembersShown(
            value=[
                MemberShown(each.id, list(queues[each.id]), each.lease_ms / 1000, to_rfc3339(each.expires_at_ms))
                for each in membership.members
            ],
            generation=membership.generation,
            strategy=membership.strategy if membership.members else None,
        )

    @MEMBERS.post(
        "/offsets",
        "commitOffsets",
        "Commit offsets of the member's queues",
        _MEMBER,
        change=NO_CHANGE,
        example={"member": "line-1", "generation": 2, "offsets": [{"queueId": 0, "offset": 44}]},
    )
    async def commit(self, name: GroupName, topic: TopicName, body: Commit) -> Listed[Committed]:
        committed = await self._memberships.commit(name, topic, body.member, body.generation, body.by_queue())
        return Listed([Committed(queue_id, offset) for queue_id, offset in committed.items()])
