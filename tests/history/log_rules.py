"""Rules of the log: what is confirmed is there, once, at its offset, in order; what is there was published."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from tests.history.operations import Item, Publish
from tests.history.record import QueueKey, Record, Violation


def check_log(record: Record) -> Iterator[Violation]:
    for queue in record.seen:
        yield from _seen(record, queue)
        yield from _order(record, queue)
        yield from _batches(record, queue)
    yield from _published(record)
    for queue in record.whole:
        yield from _whole(record, queue)


def _seen(record: Record, queue: QueueKey) -> Iterator[Violation]:
    """One byte string at an offset, one offset for a message, and nothing that was not published here before."""
    for item, by in record.seen[queue]:
        first = record.at[queue][item.offset]
        if first.item != item:
            yield Violation("changed", f"{queue}: {first.item} was seen, and {item}", (first.by, by))
        place = record.places[item.message]
        if place != (queue, item.offset):
            yield Violation("stored twice", f"{item.message} is at {place}, and at {(queue, item.offset)}", (by,))
        published = record.publishes.get(item.message)
        if published is None or published.digest != item.digest or (published.topic, published.queue) != queue:
            yield Violation("phantom", f"{item} in {queue} was not published so", (by,))
        elif not published.may_be_done:
            yield Violation("refused and there", f"{item} in {queue}", (published, by))
        elif by.is_before(published):
            yield Violation("phantom", f"{item} in {queue} was seen before it was published", (by, published))


def _published(record: Record) -> Iterator[Violation]:
    for each in record.publishes.values():
        whole = record.whole.get((each.topic, each.queue))
        if each.is_ok and whole is not None and each.message not in record.places:
            yield Violation("lost", f"{each.message} was confirmed, and nobody ever saw it", (each, whole))


def _whole(record: Record, queue: QueueKey) -> Iterator[Violation]:
    """What was confirmed or seen stays."""
    whole = record.whole[queue]
    kept: dict[int, Item] = {}
    for offset, item in enumerate(whole.items):
        kept[item.offset] = item
        if item.offset != offset:
            yield Violation("hole", f"{queue}: {item} stands where offset {offset} is due", (whole,))
            return
    for item, by in record.seen[queue]:
        if item.offset not in kept:
            published = record.publishes.get(item.message)
            is_lost = published is not None and published.is_ok
            yield Violation("lost" if is_lost else "flicker", f"{item} in {queue} was seen, and is gone", (by, whole))


def _placed(record: Record, queue: QueueKey) -> list[tuple[int, Publish]]:
    """Publishes whose offset is known, by offset."""
    found = ((offset, record.publishes.get(seen.item.message)) for offset, seen in record.at[queue].items())
    return sorted(((offset, each) for offset, each in found if each is not None), key=lambda pair: pair[0])


def _order(record: Record, queue: QueueKey) -> Iterator[Violation]:
    """What was published after another one was confirmed lies behind it."""
    earliest: Publish | None = None
    for _, each in reversed(_placed(record, queue)):
        if earliest is not None and earliest.is_before(each):
            text = f"{queue}: {each.message} lies before {earliest.message}, which was confirmed when it was published"
            yield Violation("order", text, (earliest, each))
        if each.is_ok and (earliest is None or each.ended < earliest.ended):
            earliest = each


def _batches(record: Record, queue: QueueKey) -> Iterator[Violation]:
    batches: dict[tuple[str, int], list[Publish]] = {}
    for _, each in _placed(record, queue):
        batches.setdefault((each.client, each.batch), []).append(each)
    for batch in batches.values():
        for one, next_one in pairwise(batch):
            if one.place > next_one.place:
                text = f"{queue}: {one.message} lies before {next_one.message} of its batch"
                yield Violation("order", text, (one, next_one))
