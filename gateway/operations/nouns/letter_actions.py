"""Resending and deleting of dead letters, with the outcome of each."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from entrepot.domain.broker_of_queue import broker_of_place, first_queue, local_place
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.names import dead_letter_topic
from entrepot.domain.ports import Store
from entrepot.gateway.messaging.deleted_letters import DeletedLetters
from entrepot.gateway.operations.nouns.letters import first_places, letter_at, letters_of
from entrepot.gateway.operations.row.refusals import RefusalShown, refusal_shown
from entrepot.gateway.operations.row.shapes import Part

LETTER_ERRORS: Final = frozenset({Code.ILLEGAL_OFFSET, Code.TOPIC_NOT_FOUND, Code.MESSAGE_CORRUPTED})
"""Refusals of one letter that let the others go on."""
READ_AT_ONCE: Final = 32
Marked = tuple[int, int]
"""A letter by its offset in the API, with its place in the commit log."""


class FailedLetter(Part, frozen=True):
    offset: int
    error: RefusalShown


class Outcome:
    """The offsets that were acted on, and the refusals of others."""

    def __init__(self) -> None:
        self.done: list[int] = []
        self.failed: list[FailedLetter] = []
        self.count = 0

    def fail(self, offset: int, refusal: EntrepotError) -> None:
        self.failed.append(FailedLetter(offset, refusal_shown(refusal)))

    def told(self, reason: str | None) -> str:
        """The outcome in words, for the audit log."""
        of = "" if reason is None else f" of reason {reason!r}"
        return f"{self.count or len(self.done)}{of}, {len(self.failed)} failed"


async def resend_some(store: Store, group: str, offsets: list[int], outcome: Outcome) -> None:
    """Resend letters that are not deleted."""
    by_broker: dict[int, list[int]] = {}
    for offset in offsets:
        by_broker.setdefault(broker_of_place(offset), []).append(offset)
    for broker, its_offsets in by_broker.items():
        refusals = await store.consumption.resend_dead_letters(
            group, list(map(local_place, its_offsets)), first_queue(broker)
        )
        for offset, refusal in zip(its_offsets, refusals, strict=True):
            if refusal is None:
                outcome.done.append(offset)
            else:
                outcome.fail(offset, refusal)


async def without_deleted(store: Store, group: str, offsets: list[int], outcome: Outcome) -> list[int]:
    """The offsets of letters that are not deleted; the others are refused."""
    marks = await DeletedLetters(store.key_values).of(group)
    if not marks:
        return offsets
    deleted = {offset for offset, place in await _places(store, group, offsets) if place in marks}
    for offset in deleted:
        outcome.fail(offset, EntrepotError(Code.ILLEGAL_OFFSET, f"the dead letter at {offset} is deleted"))
    return [offset for offset in offsets if offset not in deleted]


async def places_at(store: Store, group: str, offsets: list[int], outcome: Outcome) -> list[Marked]:
    """The places of letters by their offsets; missing and deleted ones are refused."""
    await letters_of(store, group)  # raises where there is no such group
    marks = await DeletedLetters(store.key_values).of(group)
    known = dict(await _places(store, group, offsets))
    found: list[Marked] = []
    for offset in dict.fromkeys(offsets):
        place = known.get(offset)
        if place is None or place in marks:
            state = "there is none" if place is None else "it is deleted already"
            outcome.fail(offset, EntrepotError(Code.ILLEGAL_OFFSET, f"no dead letter at {offset}: {state}"))
        else:
            found.append((offset, place))
    return found


async def _places(store: Store, group: str, offsets: Sequence[int]) -> list[Marked]:
    """The places of the letters that are there."""

    async def place(offset: int) -> Marked | None:
        try:
            return offset, (await letter_at(store, group, offset)).commit_log_offset
        except EntrepotError as error:
            if error.code not in LETTER_ERRORS:
                raise
            return None

    found: list[Marked] = []
    for at in range(0, len(offsets), READ_AT_ONCE):
        told = await asyncio.gather(*map(place, offsets[at : at + READ_AT_ONCE]))
        found += [each for each in told if each is not None]
    return found


async def delete_some(store: Store, group: str, letters: Sequence[Marked], outcome: Outcome) -> None:
    """Mark letters as deleted.  Raises as `DeletedLetters.add`."""
    if not letters:
        return
    oldest = await first_places(store, group)

    def is_there(place: int) -> bool:
        first = oldest.get(broker_of_place(place))
        return first is None or place >= first

    await DeletedLetters(store.key_values).add(group, [place for _, place in letters], is_there)
    outcome.done += [offset for offset, _ in letters]
    outcome.count = len(outcome.done)


async def delete_all(store: Store, group: str) -> int:
    """Delete the dead-letter topic with its messages; returns their number.  Letters that come later make it anew."""
    letters = await letters_of(store, group)
    topic = dead_letter_topic(group)
    if store.topology.topic(topic) is None:
        return 0
    deleted = DeletedLetters(store.key_values)
    count = letters.total - len(await deleted.of(group))
    await store.topology.delete_topic(topic)
    await deleted.forget(group)
    return max(count, 0)
