"""Membership: the members of a group that read a topic by whole queues, and the queues of each.  A `Membership` is a
value.  Each event makes a new one, with a higher generation if the assignment may have changed; a heartbeat alone keeps
the generation.  Time comes in as an argument."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from entrepot.domain.allocation import AllocationStrategy, allocate
from entrepot.domain.errors import Code, EntrepotError

MAX_MEMBERS: Final = 256
"""Most members of a group on one topic."""
MAX_MEMBER_LENGTH: Final = 128
"""Most characters of a member's id."""
MIN_LEASE_MS: Final = 1_000
MAX_LEASE_MS: Final = 3_600_000
DEFAULT_LEASE_MS: Final = 30_000


def check_member_id(member_id: str) -> None:
    """Raise BAD_REQUEST for an invalid member id (RocketMQ: client id)."""
    if not (0 < len(member_id) <= MAX_MEMBER_LENGTH and member_id.isprintable()):
        raise EntrepotError(
            Code.BAD_REQUEST,
            f"{member_id[: MAX_MEMBER_LENGTH + 1]!r} is not the id of a member: 1 to {MAX_MEMBER_LENGTH} printable "
            "characters",
        )


def check_lease(lease_ms: int) -> None:
    """Raise BAD_REQUEST for a lease that is too short or too long, in milliseconds."""
    if not MIN_LEASE_MS <= lease_ms <= MAX_LEASE_MS:
        raise EntrepotError(
            Code.BAD_REQUEST,
            f"a lease is {MIN_LEASE_MS // 1000} to {MAX_LEASE_MS // 1000} seconds, not {lease_ms / 1000:g}",
        )


@dataclass(frozen=True, slots=True)
class Member:
    """A consumer.  Its lease ends at `expires_at_ms` (epoch), `lease_ms` after its last heartbeat."""

    id: str
    lease_ms: int
    expires_at_ms: int


@dataclass(frozen=True, slots=True)
class Membership:
    """The members of a group on one topic, by id, and the queues to divide.  `generation` grows with every change of
    the members or of `queues`, so it names one assignment.  `strategy`: that of the first member, and so of all.
    `queues`: the topic's queue ids, ascending."""

    generation: int = 0
    strategy: AllocationStrategy = AllocationStrategy.AVERAGED
    queues: tuple[int, ...] = ()
    members: tuple[Member, ...] = ()

    def seen_at(self, now_ms: int, queues: tuple[int, ...]) -> Membership:
        """Return it without members whose lease is over, and with the topic's present queues."""
        members = tuple(member for member in self.members if member.expires_at_ms > now_ms)
        if members == self.members and queues == self.queues:
            return self
        generation = self.generation + (1 if self.members else 0)
        return replace(self, generation=generation, queues=queues, members=members)

    def joined(self, member_id: str, lease_ms: int, strategy: AllocationStrategy | None, now_ms: int) -> Membership:
        """Return it with the member, new or with its lease renewed.  `strategy`: None for that of the others.  Raises
        PRECONDITION_FAILED for a strategy other than the others', TOO_MANY_REQUESTS beyond MAX_MEMBERS."""
        others = tuple(member for member in self.members if member.id != member_id)
        is_new = len(others) == len(self.members)
        if strategy is None:
            strategy = self.strategy if self.members else AllocationStrategy.AVERAGED
        if self.members and strategy is not self.strategy:
            raise EntrepotError(
                Code.PRECONDITION_FAILED,
                f"the members of this group share out queues by {self.strategy}, not {strategy}",
            )
        if is_new and len(others) >= MAX_MEMBERS:
            raise EntrepotError(Code.TOO_MANY_REQUESTS, f"the group has {MAX_MEMBERS} members on this topic already")
        members = (*others, Member(member_id, lease_ms, now_ms + lease_ms))
        return replace(
            self,
            generation=self.generation + is_new,
            strategy=strategy,
            members=tuple(sorted(members, key=lambda member: member.id)),
        )

    def renewed(self, member_id: str, now_ms: int) -> Membership:
        """Return it with a member's lease renewed; unchanged if the member is missing."""
        member = self.member(member_id)
        return self if member is None else self.joined(member_id, member.lease_ms, None, now_ms)

    def left(self, member_id: str) -> Membership:
        """Return it without the member; unchanged if the member is missing."""
        members = tuple(member for member in self.members if member.id != member_id)
        if members == self.members:
            return self
        return replace(self, generation=self.generation + 1, members=members)

    def member(self, member_id: str) -> Member | None:
        return next((member for member in self.members if member.id == member_id), None)

    def assignment(self) -> dict[str, list[int]]:
        """Return the queues of each member."""
        return allocate(self.strategy, self.queues, [member.id for member in self.members])
