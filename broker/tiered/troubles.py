"""Troubles: work on topics that ended the uploader's process, and how carefully it is tried again.

Whatever a message, a file or a library does to that process, it is one topic's: the uploader says what it begins, and
the broker remembers it when the process ends. Uploads are then tried in smaller parts, as plain rows, message by
message, until what was being uploaded is in the table. Work that still ends the process is set aside for longer and
longer, and the other topics go on. The problem stays with the topic until it is solved.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

from entrepot.broker.tiered.source import Begun, Caution, Progress, Work

ENDS_TO_SET_ASIDE: Final = 2
"""Ends of the process after which work that cannot be done more carefully is set aside."""
FIRST_REST: Final = 60.0
LONGEST_REST: Final = 3600.0
"""Longest time for which work is set aside, in seconds; doubled each time."""
MAX_QUEUES_NAMED: Final = 8


_HOW: Final = {
    Caution.SMALLER: "tried again in smaller parts",
    Caution.PLAIN: "tried again in smaller parts of plain rows",
    Caution.TINY: "tried again in very small parts of plain rows",
    Caution.ALONE: "tried again message by message",
}


@dataclass(slots=True)
class _Count:
    """Ends of the process by one kind of work, of which `rests` set it aside, and the end of the last rest, in seconds
    of the steady clock. `last`: how the process ended."""

    ends: int = 0
    rests: int = 0
    rests_until: float = 0.0
    last: str = ""

    def rest(self, now: float) -> None:
        self.rests_until = now + min(FIRST_REST * 2.0 ** min(self.rests, 16), LONGEST_REST)
        self.rests += 1


@dataclass(slots=True)
class _Trouble:
    """The troubles of a topic. `tried`: ends of the uploads that ended the process, each within the one before.
    `firsts`: offsets that the disk begins at, of all queues that the topic has now."""

    counts: dict[Work, _Count] = field(default_factory=dict)
    tried: list[dict[int, int]] = field(default_factory=list)
    firsts: Mapping[int, int] = field(default_factory=dict)

    def is_behind(self, tried: Mapping[int, int], ends: Mapping[int, int]) -> bool:
        """True if all that was tried is in the table, by its ends, or is no longer there."""
        known = {queue: end for queue, end in tried.items() if queue in self.firsts or not self.firsts}
        return all(max(ends.get(queue, 0), self.firsts.get(queue, 0)) >= end for queue, end in known.items())


class Troubles:
    """The troubles of a broker's topics. `steady`: seconds of a clock that never jumps. `told`: a topic's progress
    whose problem is another one now."""

    def __init__(self, steady: Callable[[], float], told: Callable[[Progress], None]) -> None:
        self._steady, self._told = steady, told
        self._of: dict[str, _Trouble] = {}
        self._said: dict[str, Progress] = {}
        self._begun: Begun | None = None

    def keep(self, roots: set[str]) -> None:
        """Forget all but these tables."""
        for root in (self._of.keys() | self._said.keys()) - roots:
            self._of.pop(root, None)
            self._said.pop(root, None)

    def begins(self, begun: Begun) -> None:
        """Note what the uploader begins; what it had begun before is over."""
        if self._begun is None or (self._begun.root, self._begun.work) != (begun.root, begun.work):
            self.survived()
        self._begun = begun

    def survived(self) -> None:
        """The uploader has got over what it had begun. Uploads alone show that by progress: they may have failed."""
        begun, self._begun = self._begun, None
        if begun is None or begun.work is Work.UPLOAD or (trouble := self._of.get(begun.root)) is None:
            return
        if trouble.counts.pop(begun.work, None) is not None:
            self._tell(begun.topic, begun.root)

    def ended(self, how: str) -> bool:
        """The process has ended by itself. False if it did nothing for a topic."""
        begun, self._begun = self._begun, None
        if begun is None:
            return False
        trouble = self._of.setdefault(begun.root, _Trouble())
        count = trouble.counts.setdefault(begun.work, _Count())
        if begun.work is Work.UPLOAD:
            trouble.tried = [*trouble.tried, begun.ends][: Caution.SET_ASIDE]
            is_last = len(trouble.tried) >= Caution.SET_ASIDE
        else:
            is_last = count.ends + 1 >= ENDS_TO_SET_ASIDE
        count.ends, count.last = count.ends + 1, how
        if is_last:
            count.rest(self._steady())
        self._tell(begun.topic, begun.root)
        return True

    def has(self, root: str) -> bool:
        """True for a topic with troubles."""
        return root in self._of

    def note_firsts(self, topic: str, root: str, firsts: Mapping[int, int]) -> None:
        """Note where the disk begins by queue: what it has let go of is tried no more."""
        trouble = self._of.get(root)
        if trouble is not None and trouble.tried and trouble.firsts != firsts:
            trouble.firsts = firsts
            self._tell(topic, root)

    def caution(self, root: str) -> Caution:
        """Return how a topic is to be uploaded now."""
        trouble = self._of.get(root)
        if trouble is None:
            return Caution.NONE
        if any(self._rests(trouble, work) for work in (Work.OPEN, Work.UPLOAD)):
            return Caution.SET_ASIDE
        return Caution(min(len(trouble.tried), Caution.ALONE))

    def keeps_house(self, root: str) -> bool:
        """True if the table of a topic is to be merged and cleaned."""
        trouble = self._of.get(root)
        return trouble is None or not self._rests(trouble, Work.HOUSEKEEPING)

    def with_problem(self, progress: Progress) -> Progress:
        """Return the uploader's report with the topic's troubles; those that it has got over are forgotten."""
        self._said[progress.root] = progress
        trouble = self._of.get(progress.root)
        if trouble is None:
            return progress
        while trouble.tried and trouble.is_behind(trouble.tried[-1], progress.ends):
            trouble.tried.pop()
            trouble.counts[Work.UPLOAD].rests = 0
        if not trouble.tried:
            trouble.counts.pop(Work.UPLOAD, None)
        if not trouble.counts:
            del self._of[progress.root]
        told = "; ".join(_text(trouble, work, count) for work, count in trouble.counts.items())
        problem = f"{told}; {progress.problem}" if told and progress.problem else told or progress.problem
        is_set_aside = any(trouble.counts[work].rests for work in (Work.OPEN, Work.UPLOAD) if work in trouble.counts)
        return msgspec.structs.replace(progress, problem=problem, is_stuck=progress.is_stuck or is_set_aside)

    def _tell(self, topic: str, root: str) -> None:
        self._told(self.with_problem(self._said.get(root) or Progress(topic, root, {})))

    def _rests(self, trouble: _Trouble, work: Work) -> bool:
        count = trouble.counts.get(work)
        return count is not None and self._steady() < count.rests_until


def _text(trouble: _Trouble, work: Work, count: _Count) -> str:
    """Return the words for a topic's troubles with one kind of work."""
    how, where = "tried again", ""
    if work is Work.UPLOAD:
        queues = ", ".join(f"{queue}: {end}" for queue, end in sorted(trouble.tried[-1].items())[:MAX_QUEUES_NAMED])
        how, where = _HOW.get(Caution(len(trouble.tried)), how), f" up to offsets of queues {queues}"
    if count.rests:
        how = "set aside, and tried again from time to time"
    times = "" if count.ends == 1 else f", {count.ends} times"
    return f"the uploader ended ({count.last}) while it {work}{where}{times}: {how}"
