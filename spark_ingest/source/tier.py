"""The cold ranges of a batch: they are read from the tables in the object store, without a broker.

Only ranges that a table has wholly are read there. The rest, hot or lost, is left to the brokers.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from entrepot.domain.broker_of_queue import local_queue
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.tiering import MAX_HOLES, Hole, TierAddress, TierStatus, joined
from entrepot.spark_ingest.source.options import OptionError
from entrepot.spark_ingest.source.planning import Range, lose
from entrepot.spark_ingest.source.stores import cold_reader_of
from entrepot.spark_ingest.source.telling import tell_once
from entrepot.store_client.blocking import BlockingReader, ColdReader, StoreLocation

UNREADABLE: Final = frozenset((Code.COLD_CORRUPTED, Code.MESSAGE_CORRUPTED))
"""Refusals by a store for segments that are gone or corrupted."""
AWAY_SECONDS: Final = 60.0
"""Pause before a store is tried again that could not be opened: a try may take as long."""
_away: dict[TierAddress, float] = {}
THROUGH_BROKERS: Final = "cold messages are read through the brokers"


def without_holes(
    statuses: Sequence[TierStatus], ranges: Sequence[Range], *, fails: bool, tell: Callable[[str], None]
) -> list[Range]:
    """The ranges without messages that left the disk before they were uploaded: DataLossError if `fails`."""
    holes: dict[tuple[str, int], list[Hole]] = {}
    for status in statuses:
        if len(status.holes) >= MAX_HOLES:
            text = f"{status.topic} has lost {status.missing} messages at more places than are told"
            lose(f"{text}: they left the disk before they were uploaded", fails=fails, tell=tell)
        for queue_id, first, end in status.holes:
            holes.setdefault((status.topic, queue_id), []).append(Hole(first, end))
    found: list[Range] = []
    for each in ranges:
        at = each.start
        for hole in joined(holes.get((each.topic, each.queue_id), [])):
            first, end = max(hole.first, at), min(hole.end, each.end)
            if first >= end:
                continue
            text = f"{each.topic}/{each.queue_id} has lost messages {first} to {end}"
            lose(f"{text}: they left the disk before they were uploaded", fails=fails, tell=tell)
            if at < first:
                found.append(replace(each, start=at, end=first))
            at = end
        if at < each.end:
            found.append(replace(each, start=at))
    return found


def with_cold(
    reader: BlockingReader, location: StoreLocation, statuses: Sequence[TierStatus], ranges: Sequence[Range]
) -> list[Range]:
    """The same messages, with the segment where a table has them. A store that cannot be opened here is told once, and
    the brokers are asked. Raises EntrepotError without brokers, OptionError for invalid options of the tier."""
    found = list(ranges)
    for status in statuses:
        address = location.tier or status.address
        if address is None or is_away(location, address) or not any(_may_be_in(each, status) for each in found):
            continue
        try:
            found = _carved(reader, cold_reader_of(address), status, found)
        except EntrepotError as error:
            if location.has_tier_only:
                raise
            if location.tier is not None and error.code is Code.BAD_REQUEST:
                raise OptionError(f"tier.url and its others: {error.message}") from error
            tell_through_brokers(address, error)
    return found


def tell_through_brokers(address: TierAddress, error: EntrepotError) -> None:
    """Tell once that a store is not read from here; one that is away is left alone for a while."""
    if error.code not in UNREADABLE:
        _away[address] = time.monotonic() + AWAY_SECONDS
    tell_once(f"{THROUGH_BROKERS}: {error.message}", address.url)


def is_away(location: StoreLocation, address: TierAddress) -> bool:
    """True for a store that could not be read from here a moment ago, if brokers can be asked."""
    return not location.has_tier_only and time.monotonic() < _away.get(address, 0.0)


def without_lost(ranges: Sequence[Range], *, fails: bool, tell: Callable[[str], None]) -> list[Range]:
    """The ranges that have a segment. The others are lost without a broker: DataLossError if `fails`."""
    for each in ranges:
        if each.segment is None:
            text = f"{each.topic}/{each.queue_id} has lost messages {each.start} to {each.end}"
            lose(f"{text}: no segment of its table has them", fails=fails, tell=tell)
    return [each for each in ranges if each.segment is not None]


def _may_be_in(each: Range, status: TierStatus) -> bool:
    """True if the table may have the range: parts that the broker does not know yet are looked up in it."""
    if each.segment is not None or each.topic != status.topic:
        return False
    return each.start < dict(status.uploaded).get(local_queue(each.queue_id), 0)


def _carved(reader: BlockingReader, cold: ColdReader, status: TierStatus, ranges: Sequence[Range]) -> list[Range]:
    asked = [each for each in ranges if _may_be_in(each, status)]
    direct, rest = found_in(cold, status.table, asked)
    ends = {b.queue_id: b for b in reader.bounds(status.topic)}  # read after the table: it has no more than the log
    others = {
        each.queue_id
        for each in direct
        if (known := ends.get(each.queue_id)) is None
        or (not known.may_lag and cold.end(status.table, each.queue_id) > known.max_offset)
    }
    if others:
        tell_once(f"the table {status.table} has more than the log, which has lost messages: {THROUGH_BROKERS}")
        return list(ranges)
    return [*direct, *rest, *(each for each in ranges if each not in asked)]


def found_in(cold: ColdReader, table: str, ranges: Sequence[Range]) -> tuple[list[Range], list[Range]]:
    """Split ranges of a topic by the segments of its table's newest version; and the parts that it lacks."""
    if not ranges:
        return [], []
    topic = ranges[0].topic
    parts = [(each.queue_id, each.start, each.end) for each in ranges]
    direct = [Range(topic, *part, segment) for part, segment in cold.found(table, parts)]
    rest: list[Range] = []
    for each in ranges:
        at = each.start
        for part in sorted((d for d in direct if d.queue_id == each.queue_id), key=lambda d: d.start):
            if part.end <= at or part.start >= each.end:
                continue
            if at < part.start:
                rest.append(replace(each, start=at, end=part.start))
            at = part.end
        if at < each.end:
            rest.append(replace(each, start=at))
    return direct, rest
