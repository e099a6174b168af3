"""The ranges of one batch, and their pieces.

A limit is spread over the queues by the waiting messages of each, so that none starves. A piece is a list of ranges:
small ones of several queues share a piece, for each costs a task, and a long one is cut.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Final

from entrepot.domain.tiering import ColdSegment
from entrepot.spark_ingest.source.options import Offsets
from entrepot.spark_ingest.source.positions import Bounds, DataLossError

ROWS_PER_PIECE: Final = 50_000
"""Messages that are worth a task of their own."""


@dataclass(frozen=True, slots=True)
class Range:
    """Messages of one queue from an offset up to another, in a cold `segment`, or for None from the brokers."""

    topic: str
    queue_id: int
    start: int
    end: int
    segment: ColdSegment | None = None

    @property
    def rows(self) -> int:
        return self.end - self.start


def ranges_between(
    start: Offsets, end: Offsets, bounds: Bounds, *, fails: bool, tell: Callable[[str], None]
) -> list[Range]:
    """The ranges from `start` to `end`; a new queue begins at its earliest message. Missing messages (expired by
    retention, or the topic was recreated) raise DataLossError if `fails`, else are told and skipped."""
    found: list[Range] = []
    for topic, queues in end.items():
        for queue, last in queues.items():
            ends = bounds.get(topic, {}).get(queue)
            if ends is None:
                lose(f"topic {topic!r} has no queue {queue} any more", fails=fails, tell=tell)
                continue
            first = start.get(topic, {}).get(queue, ends.min_offset)
            if ends.may_lag and first > last:
                continue  # the slave that was asked has less than was read before
            if first > last or (last > ends.max_offset and not ends.may_lag):
                text = f"{topic}/{queue} was to be read from {first} to {last}, and ends at {ends.max_offset}"
                lose(f"{text}: was the topic made anew?", fails=fails, tell=tell)
                last = min(last, ends.max_offset)
                first = min(ends.min_offset, last)
            if first < ends.min_offset and first < last:
                text = f"{topic}/{queue} was to be read from {first} on, and begins at {ends.min_offset}"
                lose(f"{text}: retention has passed it", fails=fails, tell=tell)
                first = min(ends.min_offset, last)
            if first < last:
                found.append(Range(topic, queue, first, last))
    for topic, queues in start.items():
        for queue in queues:
            if queue not in end.get(topic, {}):
                lose(f"topic {topic!r} has no queue {queue} any more", fails=fails, tell=tell)
    return found


def lose(text: str, *, fails: bool, tell: Callable[[str], None]) -> None:
    """Handle lost messages: raise DataLossError if `fails`, else tell it."""
    if fails:
        raise DataLossError(f"DATA_LOSS: {text}. With failOnDataLoss=false reading goes on with what there is")
    tell(text)


def without_remade(
    start: Offsets, queues: Iterable[tuple[str, int]], *, fails: bool, tell: Callable[[str], None]
) -> Offsets:
    """A start without queues whose topic was made anew, so that they begin at their earliest message: DataLossError if
    `fails`."""
    found = {topic: dict(of_topic) for topic, of_topic in start.items()}
    for topic, queue in queues:
        if (at := found.get(topic, {}).pop(queue, None)) is not None:
            text = f"{topic}/{queue} was read up to {at}, and the topic was made anew since"
            lose(f"{text}: it is read from its beginning", fails=fails, tell=tell)
    return found


def limited(start: Offsets, end: Offsets, share: float) -> Offsets:
    """An earlier end, so that about `share` of the waiting messages is read: at least one message of each queue that
    has any."""
    if share >= 1:
        return end
    return {
        topic: {
            queue: min(last, (first := start[topic][queue]) + max(int((last - first) * share), min(last - first, 1)))
            if start[topic][queue] < last
            else last
            for queue, last in queues.items()
        }
        for topic, queues in end.items()
    }


def pieces_of(
    ranges: list[Range], *, min_pieces: int | None, max_rows: int, cores: int | None = None
) -> list[list[Range]]:
    """The ranges in pieces of about the same size, one per task: cold ones in their order, then hot ones by queue."""
    rows = sum(each.rows for each in ranges)
    if not rows:
        return []
    usual = min(-(-rows // ROWS_PER_PIECE), cores or os.cpu_count() or 1)
    count = max(usual, min_pieces or 1, -(-rows // max_rows))
    wanted = -(-rows // count)
    pieces: list[list[Range]] = []
    room = 0
    for each in sorted(ranges, key=lambda r: (r.segment is None, r.topic, r.queue_id if r.segment is None else 0)):
        at = each.start
        while at < each.end:
            if room == 0:
                pieces.append([])
                room = wanted
            taken = min(room, each.end - at)
            pieces[-1].append(replace(each, start=at, end=at + taken))
            at, room = at + taken, room - taken
    return pieces
