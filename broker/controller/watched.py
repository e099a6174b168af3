"""Watched: a group, followed by the leading controller."""

from __future__ import annotations

from entrepot.broker.controller.contest import Contest, Phase
from entrepot.broker.controller.liveness import FINE, Heard, Verdict
from entrepot.domain.replication.control import GroupShape
from entrepot.domain.replication.lost_ends import KnownLogs
from entrepot.domain.replication.mastership import Appointment, has_heard, heard_of


class Watched:
    """A group. `heard`: reports of its replicas, by id. `logs`: of all its directories. `contest`: the election under
    way. `not_before`: time of the next; `pause` before it, while none succeeds. `problem`: in words, or empty.
    `smaller_than`: order of the appointment for which its master last wanted a smaller set, first at
    `smaller_since`."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.heard: dict[int, Heard] = {}
        self.logs = KnownLogs()
        self.contest: Contest | None = None
        self.not_before = self.pause = 0.0
        self.verdict: Verdict = FINE
        self.problem = ""
        self.smaller_than, self.smaller_since = (0, 0), 0.0
        self.reshaping: GroupShape | None = None

    @property
    def is_choosing(self) -> bool:
        """True while a master is chosen. One that is chosen may need others in its set before it opens."""
        return self.contest is not None and self.contest.phase is not Phase.OPENING

    def hear(self, heard: Heard) -> Heard:
        """Take a replica's word in the place of its last one."""
        replica = heard.report.member.replica
        if replica in self.heard:
            heard.follows(self.heard[replica])
        self.heard[replica] = heard
        return heard

    def must_wait(self, made: Appointment, known: Appointment) -> bool:
        """Return True if a master's set cannot change now: one is being chosen, or what its log lacks is not known."""
        return self.is_choosing or self.awaits_report(made, known)

    def awaits_report(self, made: Appointment, known: Appointment) -> bool:
        """Return True if a master wants a start of its own to be taken note of that is not in the appointment `known`,
        and that it has not reported here: a change of the set may overtake that report."""
        master = next((each for each in made.members if each.replica == made.master), None)
        start = None if master is None else heard_of(made.heard, master)
        if start is None or has_heard(known.heard, start):
            return False
        heard = self.heard.get(made.master)
        return heard is None or heard.report.answer.history != start

    def wrong(self, since: float) -> list[str]:
        """Return what is wrong with its replicas, in words: two processes that took turns as one later than `since`,
        and logs that lack something."""
        found = sorted(self.heard.items())
        twins = [
            f"two processes report as replica {replica}: stop one of them"
            for replica, each in found
            if each.twin_at > since
        ]
        return [*twins, *(each.lacks for _, each in found if each.lacks)]

    def fresh(self, now: float, lease: float) -> dict[int, Heard]:
        """Return replicas that report, and take orders."""
        return {replica: each for replica, each in self.heard.items() if each.is_fresh(now, lease)}
