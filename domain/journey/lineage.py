"""Lineage: the copies that stem from a message, told from other messages with the same id.

Producers choose ids, and may choose one twice.  A copy says where it came from: a dead letter and a retry name the
place where the group read the message first, a subscription's message names the place that it was fed from.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from entrepot.domain.message import Message, Place, StoredMessage, SystemProperty
from entrepot.domain.names import is_subscription_feed

_DEAD_LETTER = (
    SystemProperty.DEAD_LETTER_TOPIC,
    SystemProperty.DEAD_LETTER_QUEUE,
    SystemProperty.DEAD_LETTER_QUEUE_OFFSET,
)
_RETRY = (SystemProperty.RETRY_TOPIC, SystemProperty.RETRY_QUEUE, SystemProperty.RETRY_QUEUE_OFFSET)
MAX_DIGITS = 19


def own_place(message: StoredMessage) -> Place:
    """Return the message's first place."""
    return message.topic, message.queue_id, message.queue_offset


def places_of(message: StoredMessage) -> list[Place]:
    """Return all places of a message's record, its own first."""
    own = own_place(message)
    return [own, *(place for place in message.further_places if place != own)]


def is_copy(message: Message) -> bool:
    """True for a message that the system made of another one."""
    system = message.system
    return any(
        name in system
        for name in (
            SystemProperty.DEAD_LETTER_TOPIC,
            SystemProperty.RETRY_TOPIC,
            SystemProperty.FED_FROM,
            SystemProperty.SENT_TO,
        )
    )


def source_of(message: StoredMessage) -> Place | None:
    """Return the place that a copy was made from, or None where it names none."""
    if SystemProperty.DEAD_LETTER_TOPIC in message.system:
        return _place_in(message, _DEAD_LETTER)
    if SystemProperty.RETRY_TOPIC in message.system:
        return _place_in(message, _RETRY)
    if is_subscription_feed(message.topic):
        text = message.system_text(SystemProperty.FED_FROM) or ""
        queue, offset, topic = [*text.split(" ", 2), "", ""][:3]
        return _place(topic, queue, offset)
    return None


def descendants(message: StoredMessage, others: Iterable[StoredMessage]) -> list[StoredMessage]:
    """Return the copies that stem from a message, the oldest first."""
    waiting = sorted(others, key=lambda each: (each.store_time_ms, each.commit_log_offset))
    places = set(places_of(message))
    found: list[StoredMessage] = []
    while True:
        made = [each for each in waiting if _stems_from(each, message, places)]
        if not made:
            return sorted(found, key=lambda each: (each.store_time_ms, each.commit_log_offset))
        found += made
        waiting = [each for each in waiting if each not in made]
        places.update(place for each in made for place in places_of(each))


def roots(found: Sequence[StoredMessage]) -> list[StoredMessage]:
    """Return the messages of an id that stem from none of the others, in the given order.  A copy whose message is gone
    is one itself."""
    known = {place for message in found if not is_copy(message) for place in places_of(message)}
    copies = [message for message in found if is_copy(message)]
    places = known | {place for copy in copies for place in places_of(copy)}
    own = [message for message in found if not is_copy(message)]
    return [
        message
        for message in found
        if not is_copy(message)
        or not (source_of(message) in places or any(_is_for_other_queues(message, each) for each in own))
    ]


def _stems_from(copy: StoredMessage, message: StoredMessage, places: set[Place]) -> bool:
    source = source_of(copy)
    return source in places if source is not None else _is_for_other_queues(copy, message)


def _is_for_other_queues(copy: StoredMessage, message: StoredMessage) -> bool:
    """True for the part of a message that another broker's queues got."""
    sent_to = copy.system_text(SystemProperty.SENT_TO)
    return sent_to is not None and sent_to == message.topic and copy.born_time_ms == message.born_time_ms


def _place_in(message: StoredMessage, names: tuple[str, str, str]) -> Place | None:
    topic, queue, offset = (message.system_text(name) or "" for name in names)
    return _place(topic, queue, offset)


def _place(topic: str, queue: str, offset: str) -> Place | None:
    """Return the place of texts, or None: properties of another store may be anything."""
    numbers = (queue, offset)
    if not topic or not all(text.isascii() and text.isdecimal() and len(text) <= MAX_DIGITS for text in numbers):
        return None
    return topic, int(queue), int(offset)
