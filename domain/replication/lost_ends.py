"""Lost ends: logs that lack what was confirmed, as those of disks that were put back to an earlier state.

A replica that restarts with a snapshot of its present run looks like itself: starts that are heard of do not reveal it
(`mastership.RunHistory`).  Its log does.  A replica gives up what it had as confirmed only by an unclean election, and
has the EPOCH record of that from then on.  So a log has lost its end if it ends before that with the same last start,
or if it lacks the EPOCH record of a master that opened: that was confirmed.  It can lead, and count, only once it has
copied what it lacks.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from entrepot.domain.replication.mastership import Appointment, FenceAnswer, Member

MAX_KNOWN: Final = 64
"""Most data directories of a group whose logs are remembered."""


class KnownLogs:
    """Last words of a group's replicas on their logs.  `opened`: epoch and run of the last master that is known to
    have confirmed its EPOCH record."""

    def __init__(self) -> None:
        self._latest: dict[Member, FenceAnswer] = {}
        self.opened = (0, 0)

    @property
    def answers(self) -> list[FenceAnswer]:
        """The last word of each data directory, with all that it ever told as confirmed."""
        return [*self._latest.values()]

    def note(self, answer: FenceAnswer, *, is_open: bool = False) -> None:
        """Take a directory's word about its log.  An end that it confirmed before still counts.  `is_open`: of a
        master whose own start is the last one, and confirmed."""
        known = self._latest.pop(answer.member, answer)
        latest = max(known, answer, key=lambda each: each.last)
        self._latest[answer.member] = latest._replace(confirmed=max(known.confirmed, answer.confirmed))
        if len(self._latest) > MAX_KNOWN:
            del self._latest[next(iter(self._latest))]
        if is_open:
            self.opened = max(self.opened, answer.last)
            self._cap(answer)

    def _cap(self, master: FenceAnswer) -> None:
        """Take back what was told of before an open master's start, and is after what that has confirmed: an unclean
        election gave it up, perhaps unseen here."""
        for member, each in self._latest.items():
            if each.last < master.last and each.confirmed > master.confirmed:
                self._latest[member] = each._replace(confirmed=master.confirmed)

    def give_up(self, epoch: int) -> None:
        """Forget what was told before an epoch whose election was unclean."""
        self._latest = {member: each for member, each in self._latest.items() if each.last[0] >= epoch}
        if self.opened[0] < epoch:
            self.opened = (0, 0)

    def lacks_own(self, answer: FenceAnswer, latest: Appointment) -> str:
        """Return why a log lacks what its own replica told as confirmed before; empty if it does not.  `latest`: the
        last appointment."""
        own = self._latest.get(answer.member)
        return "" if own is None else _lacks(answer, [own], latest)

    def lacks_opened(self, answer: FenceAnswer, latest: Appointment) -> str:
        """Return why a log lacks the record of a master that opened; empty if it does not."""
        is_given_up = latest.is_unclean and self.opened[0] < latest.epoch
        if answer.last >= self.opened or is_given_up:
            return ""
        epoch, run = self.opened
        return _put_back(answer, f"lacks what was confirmed in epoch {epoch}, run {run}")

    def lacks_confirmed(self, answer: FenceAnswer, others: Iterable[FenceAnswer], latest: Appointment) -> str:
        """Return why a log lacks what anybody told as confirmed; empty if it does not.  `others`: further words."""
        return self.lacks_opened(answer, latest) or _lacks(answer, [*self._latest.values(), *others], latest)


def _lacks(answer: FenceAnswer, known: Iterable[FenceAnswer], latest: Appointment) -> str:
    for each in known:
        is_given_up = latest.is_unclean and each.last[0] < latest.epoch
        if each.confirmed > answer.end and each.last >= answer.last and not is_given_up:
            return _put_back(answer, f"ends at {answer.end}, and {each.confirmed} was confirmed")
    return ""


def _put_back(answer: FenceAnswer, what: str) -> str:
    return (
        f"the log of replica {answer.member.replica} {what}: "
        "its disk was put back to an earlier state; it counts once it has copied the rest"
    )
