"""Rules of reading by offset: no hole, nothing short of what was known to be there, no step back of a tail."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator
from itertools import accumulate

from tests.history.operations import Read, Tailed
from tests.history.record import QueueKey, Record, Violation


class KnownEnds:
    """How far a queue was known to reach, by time: by confirmed publishes, and by what was seen."""

    def __init__(self, record: Record, queue: QueueKey) -> None:
        ends = [(seen.by.ended, seen.item.offset + 1) for seen in record.seen[queue]]
        for message, (place, offset) in record.places.items():
            published = record.publishes.get(message)
            if place == queue and published is not None and published.is_ok:
                ends.append((published.ended, offset + 1))
        ends.sort()
        self._moments = [moment for moment, _ in ends]
        self._ends = list(accumulate((end for _, end in ends), max))

    def before(self, moment: int) -> int:
        known = bisect_left(self._moments, moment)
        return self._ends[known - 1] if known else 0


def check_reads(record: Record) -> Iterator[Violation]:
    ends: dict[QueueKey, KnownEnds] = {}
    for read in record.of(Read):
        queue = (read.topic, read.queue)
        if queue not in ends:
            ends[queue] = KnownEnds(record, queue)
        yield from _read(read, ends[queue].before(read.begun))
    yield from _tails(record)


def _read(read: Read, end: int) -> Iterator[Violation]:
    """`end`: how far the queue was known to reach when it began."""
    for offset, item in enumerate(read.items, read.first):
        if item.offset != offset:
            yield Violation("hole", f"{read.topic}/{read.queue}: {item} stands where offset {offset} is due", (read,))
            return
    wanted = min(read.first + read.most, end)
    is_answered = read.is_ok or read.code == "ILLEGAL_OFFSET"
    if is_answered and not read.may_lag and read.first + len(read.items) < wanted:
        text = f"{read.topic}/{read.queue}: offset {read.first + len(read.items)} was known to be there, up to {end}"
        yield Violation("short read", text, (read,))


def _tails(record: Record) -> Iterator[Violation]:
    """All of a queue from the beginning of the tail on, each message once."""
    tails: dict[tuple[str, int, str], list[Tailed]] = defaultdict(list)
    for each in record.of(Tailed):
        tails[each.topic, each.queue, each.tail].append(each)
    for (topic, queue, name), parts in tails.items():
        due = parts[0].first
        for part in parts:
            for item in part.items:
                if item.offset != due:
                    text = f"tail {name} of {topic}/{queue} got {item} where offset {due} is due"
                    yield Violation("tail", text, (part,))
                    due = item.offset
                due += 1
        whole = record.whole.get((topic, queue))
        if whole is not None and due != len(whole.items):
            text = f"tail {name} of {topic}/{queue} ended at {due}, the queue at {len(whole.items)}"
            yield Violation("tail", text, (parts[-1], whole))
