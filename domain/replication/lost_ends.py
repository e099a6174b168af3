"""Lost ends: logs that lack what was confirmed, as those of disks that were put back to an earlier state.

A replica that restarts with a snapshot of its present run looks like itself: starts that are heard of do not reveal it
(`mastership.RunHistory`).  Its log does.  A replica gives up what it had as confirmed only by an unclean election, and
has the EPOCH record of that from then on.  So a log that ends before has lost its end: it can lead, and count, only
once it has copied that.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from entrepot.domain.replication.mastership import Appointment, FenceAnswer, Member

MAX_KNOWN: Final = 64
"""Most data directories of a group whose logs are remembered."""


def lacks_own(answer: FenceAnswer, known: Iterable[FenceAnswer], latest: Appointment) -> str:
    """Return why a log lacks what its own replica told as confirmed before; empty if it does not."""
    return lacks_confirmed(answer, [each for each in known if each.member == answer.member], latest)


def lacks_confirmed(answer: FenceAnswer, known: Iterable[FenceAnswer], latest: Appointment) -> str:
    """Return why a log lacks what is known as confirmed, by the last appointment; empty if it does not."""
    for each in known:
        is_given_up = latest.is_unclean and each.last[0] < latest.epoch
        if each.confirmed > answer.end and each.last >= answer.last and not is_given_up:
            return (
                f"the log of replica {answer.member.replica} ends at {answer.end}, and {each.confirmed} was confirmed: "
                "its disk was put back to an earlier state; it counts once it has copied the rest"
            )
    return ""


class KnownLogs:
    """The last word of each data directory about its log.  `answers`: by directory."""

    def __init__(self) -> None:
        self._latest: dict[Member, FenceAnswer] = {}

    @property
    def answers(self) -> list[FenceAnswer]:
        return [*self._latest.values()]

    def note(self, answer: FenceAnswer) -> None:
        """Take a directory's word about its log.  What it told as confirmed before still counts."""
        known = self._latest.pop(answer.member, answer)
        latest = max(known, answer, key=lambda each: each.last)
        self._latest[answer.member] = latest._replace(confirmed=max(known.confirmed, answer.confirmed))
        if len(self._latest) > MAX_KNOWN:
            del self._latest[next(iter(self._latest))]

    def give_up(self, epoch: int) -> None:
        """Forget what was told before an epoch whose election was unclean."""
        self._latest = {member: each for member, each in self._latest.items() if each.last[0] >= epoch}
