"""Telling: the journey that facts add up to.

ADR 57: the rest is said to be unknown.  Invariant: each hop has a fact behind it.  Where the state of a group says that
something was, and no hop is kept of it, the journey says so with the reason, and makes none up.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from entrepot.domain.journey.attempts import GROUP, group_hops
from entrepot.domain.journey.facts import JourneyFacts, Storage
from entrepot.domain.journey.lineage import descendants, own_place, places_of, source_of
from entrepot.domain.journey.model import Journey, JourneyHop, JourneyKind, Lane, LaneKind
from entrepot.domain.journey.taking_in import taken_in
from entrepot.domain.message import Place, StoredMessage, SystemProperty
from entrepot.domain.names import dead_letter_group, is_queue_feed, is_retry_topic

DOOR: Final = "door"
LOG: Final = "log"
TIER: Final = "tier"
BRIDGE: Final = "bridge/"
_RANK: Final = {kind: rank for rank, kind in enumerate(JourneyKind)}
_NO_STORAGE: Final = Storage()
_LAST: Final = 1 << 30
"""Stands for the attempt of hops that tell none."""


def journey_of(facts: JourneyFacts) -> Journey:
    """Return the journey of a message."""
    family = [facts.message, *descendants(facts.message, facts.copies)]
    places = {place for each in family for place in places_of(each)}
    sources = {source for each in family if (source := source_of(each)) is not None}
    found = [
        *_way_in(facts),
        *_stored(facts, family),
        *group_hops(facts, family, places | sources),
        *_tables(facts),
        *_gaps(facts, family),
    ]
    hops = tuple(sorted(found, key=_order))
    return Journey(hops, _lanes(hops, facts))


def _order(hop: JourneyHop) -> tuple[bool, bool, int, bool, int, int]:
    """Sort hops without a time after those with one, and what is not known after both.  Of one moment, an attempt's
    end comes before the next attempt."""
    is_later = _RANK[hop.kind] >= _RANK[JourneyKind.DELIVERED]
    attempt = (hop.attempt or _LAST) if is_later else 0
    return not hop.is_known, hop.time_ms is None, hop.time_ms or 0, is_later, attempt, _RANK[hop.kind]


# -- the way in ------------------------------------------------------------------------------------------------------


def _way_in(facts: JourneyFacts) -> Iterator[JourneyHop]:
    message = facts.message
    if facts.is_gone:
        detail = "Its record has left the log, or never was in it: only a trace tells of it. The way in is not known."
        yield JourneyHop(JourneyKind.TAKEN_IN, None, DOOR, detail=detail, is_known=False)
        return
    way, topic = taken_in(message), message.topic
    bridge = message.system_text(SystemProperty.BRIDGE)
    gateway = way.gateway or facts.gateway
    if bridge is not None:
        detail = "Its way before, at the other broker, is not known here."
        yield JourneyHop(JourneyKind.BRIDGED_IN, message.born_time_ms, BRIDGE + bridge, gateway=gateway, detail=detail)
    elif source_of(message) is None:
        name = message.sub_topic or topic
        yield JourneyHop(
            JourneyKind.TAKEN_IN,
            message.born_time_ms,
            DOOR,
            door=way.door,
            client=way.client,
            gateway=gateway,
            detail=f"Sent to {name}.",
        )
        missing = [
            word for word, known in (("door", way.door), ("client", way.client), ("gateway", gateway)) if not known
        ]
        if missing:
            reason = f"tracing is off for topic {topic}" if topic not in facts.traced else "no gateway wrote it down"
            detail = f"Which {', '.join(missing)} took it is not kept: {reason}."
            yield JourneyHop(JourneyKind.TAKEN_IN, None, DOOR, detail=detail, is_known=False)
        detail = "When its producer was told is not kept. A producer is told once the log has it as its rule wants."
        yield JourneyHop(JourneyKind.CONFIRMED, None, DOOR, detail=detail, is_known=False)
    at_ms = message.time_ms(SystemProperty.DELIVER_AT_MS)
    if at_ms is not None:
        yield JourneyHop(JourneyKind.SCHEDULED, at_ms, LOG, topic, detail="Its delivery time: it waited until then.")


# -- the log ---------------------------------------------------------------------------------------------------------


def _stored(facts: JourneyFacts, family: list[StoredMessage]) -> Iterator[JourneyHop]:
    """Yield a hop for each place in the log; the moves of groups are told with their attempts."""
    for each in family:
        storage = facts.storages.get(each.commit_log_offset, _NO_STORAGE)
        is_moved = is_retry_topic(each.topic) or dead_letter_group(each.topic) is not None
        for place in places_of(each):
            is_first = place == own_place(facts.message)
            if is_moved and not is_first:
                continue
            is_queued = is_queue_feed(place[0]) or not is_first
            kind = JourneyKind.QUEUED if is_queued else JourneyKind.STORED
            detail = _storage_words(storage) if is_first else ""
            yield _at(kind, each, place, storage, detail)


def _at(kind: JourneyKind, message: StoredMessage, place: Place, storage: Storage, detail: str) -> JourneyHop:
    topic, queue_id, offset = place
    return JourneyHop(
        kind,
        message.store_time_ms,
        LOG,
        topic,
        queue_id,
        offset,
        broker=storage.broker,
        epoch=storage.epoch,
        detail=detail,
    )


def _storage_words(storage: Storage) -> str:
    words = []
    if storage.replica:
        words.append(f"Replica {storage.replica} was master.")
    if storage.holders:
        words.append(f"Now on {', '.join(storage.holders)}.")
    if storage.lacking:
        words.append(f"Not on {', '.join(storage.lacking)}.")
    return " ".join(words)


# -- tables ----------------------------------------------------------------------------------------------------------


def _tables(facts: JourneyFacts) -> Iterator[JourneyHop]:
    for place, tier in facts.tiering.items():
        if tier.is_uploaded:
            detail = f"The table {tier.table} in the object store has it. When, and in which segment, is not kept."
            yield JourneyHop(JourneyKind.TIERED, None, TIER, *place, detail=detail)
        elif tier.problem:
            detail = f"Not in the object store: {tier.problem}"
            yield JourneyHop(JourneyKind.TIERED, None, TIER, *place, detail=detail, is_known=False)
    for each in facts.ingested:
        version = f"version {each.version} of " if each.version else ""
        detail = (
            f"Batch {each.batch} of a Spark job wrote {version}{each.table} ({each.format}). Rows that are dead, late "
            "or duplicates are not in it, but in the tables beside it."
        )
        yield JourneyHop(JourneyKind.INGESTED, each.time_ms, TIER, *own_place(facts.message), detail=detail)


# -- what is not known -----------------------------------------------------------------------------------------------


def _gaps(facts: JourneyFacts, family: list[StoredMessage]) -> Iterator[JourneyHop]:
    told = set()
    for each in family:
        storage = facts.storages.get(each.commit_log_offset)
        if storage is None or storage.broker in told:
            continue
        told.add(storage.broker)
        name = storage.broker or "The store"
        if storage.problem:
            detail = f"{name}: epoch and replicas are not known: {storage.problem}"
            yield JourneyHop(JourneyKind.STORED, None, LOG, broker=storage.broker, detail=detail, is_known=False)
        if storage.dropped_hops:
            detail = f"{name} had no room for {storage.dropped_hops} hops since its start: attempts may be missing."
            yield JourneyHop(JourneyKind.DELIVERED, None, LOG, broker=storage.broker, detail=detail, is_known=False)
    for broker, reason in facts.silent.items():
        detail = f"{broker} does not answer, so what it keeps of the message is missing: {reason}"
        yield JourneyHop(JourneyKind.STORED, None, LOG, broker=broker, detail=detail, is_known=False)


# -- lanes -----------------------------------------------------------------------------------------------------------


def _lanes(hops: tuple[JourneyHop, ...], facts: JourneyFacts) -> tuple[Lane, ...]:
    return tuple(_lane(lane, facts) for lane in dict.fromkeys(hop.lane for hop in hops))


def _lane(lane: str, facts: JourneyFacts) -> Lane:
    if lane.startswith(GROUP):
        group = lane.removeprefix(GROUP)
        receiver = facts.receivers.get(group)
        if receiver is None:
            return Lane(lane, LaneKind.GROUP, group)
        return Lane(lane, receiver.kind, receiver.name, receiver.detail)
    if lane.startswith(BRIDGE):
        return Lane(lane, LaneKind.BRIDGE, lane.removeprefix(BRIDGE))
    if lane == DOOR:
        return Lane(lane, LaneKind.DOOR, "Door", taken_in(facts.message).gateway or facts.gateway)
    if lane == TIER:
        return Lane(lane, LaneKind.TIER, "Tier and tables")
    storage = facts.storages.get(facts.message.commit_log_offset, _NO_STORAGE)
    return Lane(lane, LaneKind.LOG, "Log", storage.broker)
