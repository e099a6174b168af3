"""Attempts: the hops of consumer groups, joined from traces, from copies in the log, and from the groups' windows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from entrepot.domain.journey.facts import JourneyFacts, Reading
from entrepot.domain.journey.lineage import own_place, source_of
from entrepot.domain.journey.model import JourneyHop, JourneyKind
from entrepot.domain.message import Place, StoredMessage, SystemProperty
from entrepot.domain.names import dead_letter_group, is_retry_topic, retry_group
from entrepot.domain.query import MOVED, RESENT, ConsumptionState, HopKind, MessageHop

GROUP: Final = "group/"
"""Prefix of the lanes of groups."""
MAX_LISTED: Final = 20
"""Attempts that are named one by one."""
MAX_DIGITS: Final = 9


@dataclass
class Course:
    """One group's hops and copies at one place, in the order of time.  `reading`: its latest known state there."""

    group: str
    place: Place
    hops: list[MessageHop] = field(default_factory=list)
    letters: list[StoredMessage] = field(default_factory=list)
    retries: list[StoredMessage] = field(default_factory=list)
    reading: Reading | None = None

    @property
    def lane(self) -> str:
        return GROUP + self.group

    def is_resent(self, copy: StoredMessage) -> bool:
        """True for a retry that was sent again from the dead letters, not moved out of the way."""
        if any(hop.detail == MOVED and hop.time_ms == copy.store_time_ms for hop in self.hops):
            return False
        return any(letter.commit_log_offset < copy.commit_log_offset for letter in self.letters)


def group_hops(facts: JourneyFacts, family: Sequence[StoredMessage], places: set[Place]) -> Iterator[JourneyHop]:
    """Yield the hops of each group at each place of the message."""
    for course in _courses(facts, family, places).values():
        yield from _attempts(course)
        yield from _moves(course)
        yield from _unkept(course, facts)


def _courses(
    facts: JourneyFacts, family: Sequence[StoredMessage], places: set[Place]
) -> Mapping[tuple[str, Place], Course]:
    found: dict[tuple[str, Place], Course] = {}
    first_places: dict[Place, Place] = {}

    def course(group: str, place: Place) -> Course:
        return found.setdefault((group, place), Course(group, place))

    for hop in sorted(facts.hops, key=lambda hop: hop.time_ms):
        place = hop.topic, hop.queue_id, hop.queue_offset
        if hop.group and place in places:
            course(hop.group, place).hops.append(hop)
    for each in family:
        source = source_of(each)
        if source is None:
            continue
        if (group := dead_letter_group(each.topic)) is not None:
            course(group, source).letters.append(each)
        elif is_retry_topic(each.topic):
            course(retry_group(each.topic), source).retries.append(each)
            first_places[own_place(each)] = source
    for reading in sorted(facts.readings, key=lambda reading: reading.place in first_places):
        if reading.place in places:  # a retry's state is the later one
            course(reading.consumer.group, first_places.get(reading.place, reading.place)).reading = reading
    return found


# -- attempts --------------------------------------------------------------------------------------------------------


def _attempts(course: Course) -> Iterator[JourneyHop]:
    """Yield the hops that traces keep, with the outcome of each delivery.  Moves are told by `_moves`."""
    for at, hop in enumerate(course.hops):
        if hop.kind is HopKind.DELIVERED:
            yield _told(course, JourneyKind.DELIVERED, hop, _outcome(hop, course.hops[at + 1 :]))
        elif hop.kind is HopKind.ACKNOWLEDGED:
            yield _told(course, JourneyKind.ACKNOWLEDGED, hop, "acknowledged")
        elif hop.kind is HopKind.RETRIED and hop.detail not in (RESENT, MOVED):
            yield _told(course, JourneyKind.FAILED, hop, hop.detail)


def _outcome(delivery: MessageHop, later: Sequence[MessageHop]) -> str:
    """Return how an attempt ended, in words; empty where that is not kept, or it has not ended."""
    for hop in later:
        if hop.kind is HopKind.DELIVERED:
            return "not settled in time" if hop.attempt > delivery.attempt else "given back before it counted"
        if hop.kind is HopKind.STORED or hop.detail == MOVED:
            continue
        if hop.detail == RESENT:
            return ""
        if hop.attempt == delivery.attempt:
            return hop.detail or str(hop.kind)
    return ""


def _told(course: Course, kind: JourneyKind, hop: MessageHop, outcome: str) -> JourneyHop:
    return JourneyHop(
        kind,
        hop.time_ms,
        course.lane,
        *course.place,
        group=course.group,
        attempt=hop.attempt,
        client=hop.consumer,
        outcome=outcome,
        detail=hop.detail,
    )


# -- moves -----------------------------------------------------------------------------------------------------------


def _moves(course: Course) -> Iterator[JourneyHop]:
    """Yield dead letters, resends and moves: each once, by its copy in the log or else by its trace."""
    for letter in course.letters:
        time_ms = letter.time_ms(SystemProperty.DEAD_LETTER_TIME_MS)
        at_ms = letter.store_time_ms if time_ms is None else time_ms
        why = letter.system_text(SystemProperty.DEAD_LETTER_REASON) or ""
        yield _moved(course, JourneyKind.DEAD_LETTERED, at_ms, own_place(letter), attempts_of(letter), why)
    for copy in course.retries:
        kind, detail = (JourneyKind.RESENT, RESENT) if course.is_resent(copy) else (JourneyKind.MOVED, MOVED)
        yield _moved(course, kind, copy.store_time_ms, own_place(copy), 0, detail)
    times = {copy.time_ms(SystemProperty.DEAD_LETTER_TIME_MS) for copy in course.letters}
    retried = {copy.store_time_ms for copy in course.retries}
    for hop in course.hops:
        if hop.kind is HopKind.DEAD_LETTERED and hop.time_ms not in times:
            yield _moved(course, JourneyKind.DEAD_LETTERED, hop.time_ms, course.place, hop.attempt, hop.detail)
        elif hop.detail in (RESENT, MOVED) and hop.time_ms not in retried:
            kind = JourneyKind.RESENT if hop.detail == RESENT else JourneyKind.MOVED
            yield _moved(course, kind, hop.time_ms, course.place, 0, hop.detail)


def attempts_of(letter: StoredMessage) -> int:
    """Return the attempts before a dead letter; 0 where it does not tell."""
    text = letter.system_text(SystemProperty.DEAD_LETTER_ATTEMPTS) or ""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= MAX_DIGITS else 0


def _moved(course: Course, kind: JourneyKind, time_ms: int, place: Place, attempt: int, detail: str) -> JourneyHop:
    group = course.group
    return JourneyHop(kind, time_ms, course.lane, *place, group=group, attempt=attempt, outcome=detail, detail=detail)


# -- what is not kept ------------------------------------------------------------------------------------------------


def _unkept(course: Course, facts: JourneyFacts) -> Iterator[JourneyHop]:
    """Yield what windows and dead letters tell and no hop does."""
    reason = (
        "not all of its hops are traced"
        if course.place[0] in facts.traced
        else f"tracing is off for topic {course.place[0]}"
    )
    rounds = _rounds(course)
    reading = course.reading
    state = None if reading is None else reading.consumer.state
    if reading is not None and state is not ConsumptionState.DEAD_LETTERED:
        rounds[-1].most = max(rounds[-1].most, reading.consumer.attempts)
    if state is ConsumptionState.CONSUMED and not (rounds[-1].is_acknowledged or _is_buried(course)):
        detail = f"The group has settled it. When, and which consumer took it, is not kept: {reason}."
        yield _unseen(course, JourneyKind.ACKNOWLEDGED, detail, "settled", attempt=rounds[-1].most, is_known=True)
    for each in rounds:
        missing = [number for number in range(1, each.most + 1) if number not in each.seen]
        if missing:
            listed = ", ".join(map(str, missing[:MAX_LISTED])) + (" and more" if len(missing) > MAX_LISTED else "")
            words = f"attempts {listed}" if len(missing) > 1 else f"attempt {listed}"
            detail = f"When {words} began, and who got it, is not kept: {reason}."
            yield _unseen(course, JourneyKind.DELIVERED, detail, "", attempt=missing[0], is_known=False)


def _is_buried(course: Course) -> bool:
    """True if the last attempt ended as a dead letter: the window of a resent copy is settled by that, too."""
    kinds = [hop.kind for hop in _moves(course)]
    return kinds.count(JourneyKind.DEAD_LETTERED) > kinds.count(JourneyKind.RESENT)


def _unseen(
    course: Course, kind: JourneyKind, detail: str, outcome: str, *, attempt: int, is_known: bool
) -> JourneyHop:
    group, place = course.group, course.place
    return JourneyHop(
        kind,
        None,
        course.lane,
        *place,
        group=group,
        attempt=attempt,
        outcome=outcome,
        detail=detail,
        is_known=is_known,
    )


@dataclass
class _Round:
    """The attempts up to a resend, at which they begin anew.  `seen`: those with a known beginning; `most`: greatest
    number known."""

    seen: set[int] = field(default_factory=set)
    most: int = 0
    is_acknowledged: bool = False


def _rounds(course: Course) -> list[_Round]:
    """Return the attempts between resends, as traces and dead letters tell them."""
    told = {hop.time_ms for hop in course.hops if hop.detail == RESENT}
    untold = [
        copy.store_time_ms for copy in course.retries if course.is_resent(copy) and copy.store_time_ms not in told
    ]
    found = [_Round()]
    letters = [(each.store_time_ms, attempts_of(each)) for each in course.letters]
    for hop in course.hops:
        while untold and untold[0] <= hop.time_ms:
            _close(found, letters, untold.pop(0))
        if hop.detail == RESENT:
            _close(found, letters, hop.time_ms)
            continue
        current = found[-1]
        current.most = max(current.most, hop.attempt)
        if hop.kind is HopKind.DELIVERED:
            current.seen.add(hop.attempt)
        current.is_acknowledged |= hop.kind is HopKind.ACKNOWLEDGED
    for time_ms in untold:
        _close(found, letters, time_ms)
    for _, attempts in letters:
        found[-1].most = max(found[-1].most, attempts)
    return found


def _close(found: list[_Round], letters: list[tuple[int, int]], time_ms: int) -> None:
    """End a round at a resend, with the attempts of the dead letter before it."""
    while letters and letters[0][0] <= time_ms:
        found[-1].most = max(found[-1].most, letters.pop(0)[1])
    found.append(_Round())
