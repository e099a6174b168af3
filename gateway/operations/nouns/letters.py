"""Letters: a walk over a group's dead letters, the oldest first of each broker, without the deleted ones.

A group has dead letters on every broker that gave messages up, with offsets of their own.  The API's `offset` has the
broker's number in it (`domain.broker_of_queue`), so it is unique.  Broker 0, and a store in this process, have plain
offsets.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from typing import Any

from entrepot.domain.broker_of_queue import broker_of_place, broker_of_queue, first_place, first_queue
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.message import StoredMessage, SystemProperty, dead_letter_origin
from entrepot.domain.names import dead_letter_topic, split_name
from entrepot.domain.ports import Store
from entrepot.gateway.messaging.deleted_letters import DeletedLetters
from entrepot.gateway.operations.nouns.full_message import FullMessageShown, full_fields
from entrepot.gateway.operations.nouns.message_head import HEAD, MessageShown, head_of
from entrepot.gateway.operations.row.masking import Shown as Seen
from entrepot.gateway.operations.row.shapes import Part, Time, shown_as
from entrepot.gateway.operations.row.times import time_shape


@dataclass(slots=True)
class _Part:
    """One broker's dead letters: the first and the end offset."""

    topic: str
    queue_id: int
    start: int
    end: int

    @property
    def left(self) -> int:
        return self.end - self.start

    @property
    def first_offset(self) -> int:
        """The broker's number as part of an offset."""
        return first_place(broker_of_queue(self.queue_id))


class Letters:
    """A walk that can go on later at `next`."""

    def __init__(self, store: Store, parts: list[_Part], deleted: Set[int]) -> None:
        self._store, self._parts, self._deleted = store, parts, deleted
        self.looked_at = 0

    @property
    def total(self) -> int:
        """Number of letters ahead, deleted ones included."""
        return sum(part.left for part in self._parts)

    @property
    def next(self) -> int | None:
        """The first offset that was not looked at; None at the end."""
        return next((part.first_offset + part.start for part in self._parts if part.left > 0), None)

    async def batch(self, most: int) -> list[StoredMessage]:
        """The next letters, up to `most`; perhaps none before the end, where all of them are deleted."""
        for part in self._parts:
            if part.left > 0:
                found = await self._store.messages.read(part.topic, part.queue_id, part.start, min(most, part.left))
                part.start = found[-1].queue_offset + 1 if found else part.end
                self.looked_at += len(found)
                return [message for message in found if message.commit_log_offset not in self._deleted]
        return []


async def letters_of(store: Store, group: str, from_offset: int = 0) -> Letters:
    """A walk over a group's dead letters.  A deleted group may have left some.  Raises CONSUMER_GROUP_NOT_FOUND."""
    topic = dead_letter_topic(group)
    if store.topology.topic(topic) is None:
        if store.topology.group(group) is None:
            raise EntrepotError(Code.CONSUMER_GROUP_NOT_FOUND, f"there is no group {split_name(group)[1][:160]!r}")
        return Letters(store, [], frozenset())
    parts = [_Part(topic, each.queue_id, each.first, each.max_offset) for each in await store.messages.bounds(topic)]
    for part in parts:
        part.start = min(max(from_offset - part.first_offset, part.start), part.end)
    return Letters(store, parts, await DeletedLetters(store.key_values).of(group))


async def first_places(store: Store, group: str) -> dict[int, int]:
    """The commit-log places of the oldest letters by broker number; brokers without any are missing."""
    topic = dead_letter_topic(group)
    found: dict[int, int] = {}
    for each in await store.messages.bounds(topic):
        if each.first < each.max_offset:
            for message in await store.messages.read(topic, each.queue_id, each.first, 1):
                found[broker_of_queue(each.queue_id)] = message.commit_log_offset
    return found


async def letter_at(store: Store, group: str, offset: int) -> StoredMessage:
    """The letter with an offset of the API.  Raises ILLEGAL_OFFSET for an offset without one."""
    topic, broker = dead_letter_topic(group), broker_of_place(offset)
    local = offset - first_place(broker)
    found = await store.messages.read(topic, first_queue(broker), local, 1)
    if not found or found[0].queue_offset != local:
        raise EntrepotError(Code.ILLEGAL_OFFSET, f"there is no dead letter at {offset}")
    return found[0]


def offset_of(message: StoredMessage) -> int:
    """The API's offset of a letter."""
    return first_place(broker_of_queue(message.queue_id)) + message.queue_offset


def reason_of(message: StoredMessage) -> str:
    """Why a letter was given up; empty where nothing says it."""
    return message.system_text(SystemProperty.DEAD_LETTER_REASON) or ""


class LetterOrigin(Part, frozen=True):
    topic: str
    namespace: str
    queue_id: int | None
    queue_offset: int | None
    id: str | None


class DeadLetterShown(MessageShown, frozen=True, kw_only=True):
    """A message that was given up, and why"""

    offset: int
    reason: str | None
    time: Time | None
    attempts: int | None
    origin: LetterOrigin | None


class FullDeadLetter(FullMessageShown, frozen=True, kw_only=True):
    """A dead letter with its content."""

    offset: int
    reason: str | None
    time: Time | None
    attempts: int | None
    origin: LetterOrigin | None


shown_as(
    DeadLetterShown(
        **HEAD,
        queue_offset=41,
        offset=3,
        reason="rejected",
        time="2026-12-01T08:00:00.000Z",
        attempts=16,
        origin=LetterOrigin("orders", "default", 2, 41, HEAD["id"]),
    )
)


def letter_shown(message: StoredMessage) -> DeadLetterShown:
    """Return a dead letter without its content: the message, its origin, and the reason and time of giving it up."""
    return DeadLetterShown(**head_of(message), queue_offset=message.queue_offset, **_letter_fields(message))


def full_letter(shown: Seen) -> FullDeadLetter:
    """Return a dead letter with its content, as far as it is shown."""
    return FullDeadLetter(**full_fields(shown), **_letter_fields(shown.message))


def _letter_fields(message: StoredMessage) -> dict[str, Any]:
    came_from, origin = dead_letter_origin(message), None
    if came_from is not None:
        namespace, topic = split_name(came_from[0])
        message_id = message.system_text(SystemProperty.DEAD_LETTER_MESSAGE_ID)
        origin = LetterOrigin(topic, namespace, _as_number(came_from[1]), _as_number(came_from[2]), message_id)
    return {
        "offset": offset_of(message),
        "reason": message.system_text(SystemProperty.DEAD_LETTER_REASON),
        "time": time_shape(message.time_ms(SystemProperty.DEAD_LETTER_TIME_MS) or 0),
        "attempts": _as_number(message.system_text(SystemProperty.DEAD_LETTER_ATTEMPTS) or ""),
        "origin": origin,
    }


def _as_number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 20 else None
