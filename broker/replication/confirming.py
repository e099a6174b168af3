"""ConfirmWatch: finds that a master's group can confirm nothing. Pure.

A master that is cut off from its slaves takes messages as before, and nothing of them is confirmed. Its clients would
learn that by a timeout. So after a while it says why, and refuses messages at once: then their outcome is known.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from entrepot.broker.replication.slave_progress import SlaveProgress
from entrepot.domain.replication.confirmation_rule import RuleKind
from entrepot.domain.replication.mastership import Appointment


class ConfirmWatch:
    """The watch of a mastership. `problem`: in words, or empty."""

    def __init__(self) -> None:
        self._short_since: float | None = None
        self.problem = ""

    def look(self, now: float, missing: str, patience: float) -> bool:
        """Note what is missing now (`missing_of`); return True if the problem has changed. It is told after `patience`
        seconds: a slave that is gone leaves the set in that time, and then the rest confirms."""
        if not missing:
            self._short_since = None
        elif self._short_since is None:
            self._short_since = now
        is_long = self._short_since is not None and now - self._short_since >= patience
        before, self.problem = self.problem, missing if is_long else ""
        return self.problem != before


def missing_of(appointment: Appointment, slaves: Mapping[int, SlaveProgress], heard: Collection[int]) -> str:
    """Return why a master cannot confirm by its rule, in words, or nothing. `heard`: ids of the slaves that answer."""
    kind = appointment.rule.kind
    if kind is RuleKind.ASYNC:
        return ""
    counted = appointment.members if kind is RuleKind.IN_SYNC else appointment.known
    others = [each for each in counted if each.replica != appointment.master]
    there = sum(each.replica in heard and slaves[each.replica].member == each for each in others)
    needed = len(others) if kind is RuleKind.IN_SYNC else appointment.rule.required - 1
    if there >= needed:
        return ""
    return f"it cannot confirm: {1 + there} of {1 + needed} replicas that must have a message are there"
