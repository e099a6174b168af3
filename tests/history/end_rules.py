"""Rules of the end: a group that was drained has settled all there is."""

from __future__ import annotations

from collections.abc import Iterator

from tests.history.operations import Drained
from tests.history.record import Record, Violation


def check_end(record: Record) -> Iterator[Violation]:
    for drained in record.of(Drained):
        for (topic, _), whole in record.whole.items():
            if topic != drained.topic:
                continue
            for item in whole.items:
                if not _is_settled(record, topic, drained.group, item.message):
                    text = f"{item} of {topic}/{whole.queue} was never settled by {drained.group}"
                    yield Violation("not handed out", text, (drained, whole))


def _is_settled(record: Record, topic: str, group: str, message: str) -> bool:
    """By a confirmed acknowledgement, or perhaps by one of the last delivery: others were without effect."""
    deliveries = record.deliveries.get((topic, group, message), [])
    return any(
        ack.is_ok or (ack.may_be_done and not any(each.is_before(other) for other in deliveries))
        for each in deliveries
        for ack in each.acknowledged
    )
