"""Rules of confirmation: the disks that a byte must reach to be confirmed, and the replicas that may become master.  A
replica has a byte once it is synced.

ADR 47: one log on several disks.  Invariant: nothing is confirmed that the master's own disk lacks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class RuleKind(StrEnum):
    ASYNC = "async"
    """The master alone: a failover may lose what it had not sent."""
    IN_SYNC = "in-sync"
    """Every member of the in-sync set."""
    QUORUM = "quorum"
    """`required` of the configured `replicas`."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule.  `replicas`: number of configured ones.  `required`: size of a quorum, with the master.  `min_in_sync`:
    members needed for publishing."""

    kind: RuleKind = RuleKind.IN_SYNC
    replicas: int = 1
    required: int = 1
    min_in_sync: int = 1

    def __post_init__(self) -> None:
        if not 1 <= self.required <= self.replicas:
            raise ValueError(f"a quorum of {self.required} among {self.replicas} replicas cannot be")
        if not 1 <= self.min_in_sync <= self.replicas:
            raise ValueError(f"min_in_sync is 1 to {self.replicas}, not {self.min_in_sync}")

    @property
    def text(self) -> str:
        """The rule as text; `parse_rule` reads it."""
        return f"{self.required}-{self.replicas}" if self.kind is RuleKind.QUORUM else self.kind.value

    @property
    def fenced_answers(self) -> int:
        """Replicas of a quorum that must promise before an election: one of them has every confirmed byte."""
        return self.replicas - self.required + 1


def default_min_in_sync(replicas: int) -> int:
    """Return 2 for three and more replicas, else 1: a lone survivor of two goes on."""
    return 2 if replicas > 2 else 1


def confirmed_offset(rule: Rule, own: int, acknowledged: Mapping[int, int], members: frozenset[int]) -> int:
    """Return the offset before which every byte is where the rule wants it.  `own`: end of the master's synced log;
    `acknowledged`: that of each other replica, 0 if unknown.  `members`: the in-sync set without the master."""
    if rule.kind is RuleKind.ASYNC:
        return own
    if rule.kind is RuleKind.IN_SYNC:
        return min([own, *(acknowledged.get(member, 0) for member in members)])
    others = rule.required - 1
    if not others:
        return own
    ends = sorted(acknowledged.values(), reverse=True)
    return min(own, ends[others - 1]) if len(ends) >= others else 0


def parse_rule(text: str, replicas: int, min_in_sync: int | None = None) -> Rule:
    """Parse a rule: `async`, `in-sync`, or `2-3` for 2 of three.  Raises ValueError."""
    least = default_min_in_sync(replicas) if min_in_sync is None else min_in_sync
    if text in (RuleKind.ASYNC, RuleKind.IN_SYNC):
        return Rule(RuleKind(text), replicas, min_in_sync=least)
    required, is_said, count = text.partition("-")
    if not is_said or not (required.isdecimal() and count.isdecimal()):
        raise ValueError(f"{text!r} is not a rule: async, in-sync, or such as 2-3")
    if int(count) != replicas:
        raise ValueError(f"the rule {text} is of {count} replicas, and {replicas} are named")
    return Rule(RuleKind.QUORUM, replicas, int(required), min(least, replicas))
