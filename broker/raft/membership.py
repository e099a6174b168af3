"""Members of a Raft group, and the one change of them that may be under way (dissertation, chapter 4).

A new member begins as a learner: it copies the log and does not vote. The leader makes it a voter once it has the log.
A replaced voter leaves after that, in a change of its own. So the voters before and after a change always share a
majority.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, NamedTuple, TypeAlias

import msgspec

NOBODY: Final = 0
"""Stand-in for a member's id: ids count from 1."""
MAX_VOTERS: Final = 5
"""Most voters of a group; one more while a member is replaced."""


class MembershipError(ValueError):
    """A change that the group refuses, with the reason."""


class Add(NamedTuple):
    """A new member for the group."""

    member: int


class Remove(NamedTuple):
    """The removal of a voter, or of a learner together with its replacement."""

    member: int


class Replace(NamedTuple):
    """A new member, and the removal of an old voter once the new one is a voter."""

    old: int
    new: int


Change: TypeAlias = Add | Remove | Replace


class Configuration(NamedTuple):
    """Members of the group.

    `voters`: sorted. `learner`: becomes a voter, or NOBODY. `leaving`: goes once there is no learner, or NOBODY.
    `highest`: greatest id ever given; a wiped member comes back with a greater one (ids are used once).
    """

    voters: tuple[int, ...] = ()
    learner: int = NOBODY
    leaving: int = NOBODY
    highest: int = 0

    @property
    def members(self) -> tuple[int, ...]:
        """Everybody to whom the log is sent."""
        return (*self.voters, self.learner) if self.learner else self.voters

    def is_quorum(self, members: Collection[int]) -> bool:
        """True if these include a majority of the voters."""
        return bool(self.voters) and sum(voter in members for voter in self.voters) > len(self.voters) // 2

    def changed(self, change: Change) -> Configuration:
        """Return the configuration with which a change begins. Raises MembershipError."""
        match change:
            case Remove(member):
                return self._without(member)
            case Add(member):
                new, leaving = member, NOBODY
            case Replace(old, member):
                new, leaving = member, old
                if old not in self.voters:
                    raise MembershipError(f"member {old} is not a voter")
        if self.learner or self.leaving:
            raise MembershipError("another change of the members is under way")
        if new <= self.highest:
            raise MembershipError(f"id {new} was used before: a new member has a greater one than {self.highest}")
        if not leaving and len(self.voters) >= MAX_VOTERS:
            raise MembershipError(f"a group has at most {MAX_VOTERS} voters")
        return self._replace(learner=new, leaving=leaving, highest=new)

    def _without(self, member: int) -> Configuration:
        if member and member == self.learner:
            return self._replace(learner=NOBODY, leaving=NOBODY)
        if self.learner or self.leaving not in (NOBODY, member):
            raise MembershipError("another change of the members is under way")
        if member not in self.voters:
            raise MembershipError(f"{member} is not a member")
        if len(self.voters) == 1:
            raise MembershipError("the last voter stays")
        return self._replace(voters=tuple(voter for voter in self.voters if voter != member), leaving=NOBODY)

    def continued(self, *, has_log: bool) -> Configuration | None:
        """Return the next step of a change under way, or None. `has_log`: the learner has the log."""
        if self.learner:
            voters = tuple(sorted((*self.voters, self.learner)))
            return self._replace(voters=voters, learner=NOBODY) if has_log else None
        return self._without(self.leaving) if self.leaving else None

    def encode(self) -> bytes:
        """Return the bytes of an entry."""
        return msgspec.msgpack.encode(self)

    @classmethod
    def decode(cls, data: bytes) -> Configuration:
        """Return the configuration of an entry's bytes. Raises msgspec.DecodeError."""
        return msgspec.msgpack.decode(data, type=cls)


def first_configuration(members: Collection[int]) -> Configuration:
    """Return the configuration with which all first members of a group begin."""
    return Configuration(tuple(sorted(members)), highest=max(members))
