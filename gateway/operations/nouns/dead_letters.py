"""Dead letters: list with reason and time, count by reason, resend, delete, export."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
import structlog
from msgspec import UNSET, Meta, UnsetType

from entrepot.domain.access.model import Action, ResourceType
from entrepot.domain.errors import EntrepotError
from entrepot.domain.message import SystemProperty
from entrepot.domain.names import dead_letter_topic
from entrepot.gateway.operations.nouns.letter_actions import (
    FailedLetter,
    Marked,
    Outcome,
    delete_all,
    delete_some,
    places_at,
    resend_some,
    without_deleted,
)
from entrepot.gateway.operations.nouns.letters import (
    DeadLetterShown,
    Letters,
    full_letter,
    letter_shown,
    letters_of,
    offset_of,
    reason_of,
)
from entrepot.gateway.operations.row.asked import Asked
from entrepot.gateway.operations.row.operation import Noun
from entrepot.gateway.operations.row.problem import bad_request
from entrepot.gateway.operations.row.refusals import REFUSAL
from entrepot.gateway.operations.row.rights import on
from entrepot.gateway.operations.row.shapes import (
    Body,
    GroupName,
    Offset,
    Part,
    Pieces,
    Query,
    Time,
    shown_as,
)
from entrepot.gateway.operations.row.times import time_shape

if TYPE_CHECKING:
    from entrepot.domain.message import StoredMessage
    from entrepot.domain.ports import Store
    from entrepot.gateway.operations.row.masking import Shown
    from entrepot.gateway.operations.row.seen import Contents

MAX_LIMIT: Final = 1000
MAX_OFFSETS: Final = 10_000
"""Most letters that one call names, or looks at for those of a reason."""
MAX_REASONS: Final = 1000
MAX_REASON: Final = 1024
READ_AT_ONCE: Final = 256
EXPORT_BATCH: Final = 16
"""Number of messages read at once: small, because bodies may be large and readers slow."""
NDJSON: Final = "application/x-ndjson"

_log = structlog.get_logger(__name__)
_encode: Final = msgspec.json.Encoder().encode_lines


# -- what goes out ---------------------------------------------------------------------------------------------------


class LettersShown(Part, frozen=True):
    value: list[DeadLetterShown]
    next: int | None


class ReasonCount(Part, frozen=True):
    reason: str
    count: int
    first_offset: str
    oldest: Time | None
    newest: Time | None


class ReasonCounts(Part, frozen=True):
    value: list[ReasonCount]
    next: str | None
    looked_at: int
    total: int
    is_complete: bool


class Resent(Part, frozen=True):
    resent_offsets: list[int]
    failed_offsets: list[FailedLetter]
    next: int | UnsetType | None = UNSET


class Deleted(Part, frozen=True):
    deleted: int
    failed_offsets: list[FailedLetter]
    next: int | None


_TIME: Final = "2026-12-01T08:00:00.000Z"
shown_as(ReasonCount("rejected", 2, "3", _TIME, _TIME))
shown_as(FailedLetter(7, REFUSAL))
shown_as(Resent([3, 4], [FailedLetter(7, REFUSAL)], 35))
shown_as(Deleted(2, [FailedLetter(7, REFUSAL)], 35))


# -- what comes in ---------------------------------------------------------------------------------------------------

_From = Annotated[Offset, Meta(description="First queue offset")]
_Reason = Annotated[str, Meta(max_length=MAX_REASON)]


class LettersAsked(Query, frozen=True):
    from_offset: _From = msgspec.field(default=0, name="from_offset")
    limit: Annotated[int, Meta(ge=1, le=MAX_LIMIT)] = 32
    reason: Annotated[_Reason | None, Meta(description="Only letters of this reason")] = None


class ReasonsAsked(Query, frozen=True):
    from_offset: _From = msgspec.field(default=0, name="from_offset")
    scan: Annotated[int, Meta(ge=1, le=MAX_OFFSETS, description="Most dead letters to look at")] = MAX_OFFSETS


class ExportAsked(Query, frozen=True):
    from_offset: _From = msgspec.field(default=0, name="from_offset")


class Chosen(Body, frozen=True):
    """The dead letters of an action: these, those of one reason from an offset on, or all of them."""

    offsets: Annotated[list[Offset], Meta(min_length=1, max_length=MAX_OFFSETS)] | None = None
    all: bool | None = None
    reason: _Reason | None = None
    from_offset: Offset | None = None

    def check(self) -> None:
        """Raise BAD_REQUEST unless exactly one kind is chosen."""
        if [self.offsets is not None, self.all is True, self.reason is not None].count(True) != 1 or self.all is False:
            raise bad_request('one of "offsets", "reason" and "all": true must be given')
        if self.from_offset is not None and self.reason is None:
            raise bad_request("fromOffset: goes with a reason")


# -- the operations --------------------------------------------------------------------------------------------------

DEAD_LETTERS: Final = Noun("groups", "/groups/{name}/dead-letters", "letter", is_in_namespaces=True)


class DeadLetters:
    """The operations of dead letters."""

    def __init__(self, store: Store, contents: Contents) -> None:
        self._store, self._contents = store, contents

    @DEAD_LETTERS.get(
        "",
        "listDeadLetters",
        "List dead letters of a group, the oldest first",
        on(ResourceType.GROUP, Action.SUB),
        shows={"next": 35},
    )
    async def listed(self, name: GroupName, query: LettersAsked) -> LettersShown:
        letters = await letters_of(self._store, name, query.from_offset)
        value: list[DeadLetterShown] = []
        while len(value) < query.limit and letters.next is not None and letters.looked_at < MAX_OFFSETS:
            found = await letters.batch(query.limit - len(value))
            value += [letter_shown(each) for each in found if query.reason in (None, reason_of(each))]
        return LettersShown(value, letters.next)

    @DEAD_LETTERS.get(
        ":reasons",
        "countDeadLetters",
        "Count dead letters of a group by their reason",
        on(ResourceType.GROUP, Action.SUB),
        about="Counts of the letters looked at; `total` has deleted ones in it.",
        shows={"next": "10003", "lookedAt": 10_000, "total": 12_000, "isComplete": False},
    )
    async def reasons(self, name: GroupName, query: ReasonsAsked) -> ReasonCounts:
        return await _reasons(await letters_of(self._store, name, query.from_offset), query.scan)

    @DEAD_LETTERS.get(
        ":export",
        "exportDeadLetters",
        "Export dead letters of a group as newline-delimited JSON, the oldest first",
        on(ResourceType.GROUP, Action.SUB),
        about="Each line is a JSON object: a dead letter with its content.",
        outcome="All of them",
        shows={NDJSON: '{"offset": 3, "reason": "rejected", "body": "bm93"}\n'},
    )
    async def export(self, name: GroupName, query: ExportAsked, asked: Asked) -> Pieces:
        letters = await letters_of(self._store, name, query.from_offset)
        self._contents.note(asked.principal, dead_letter_topic(name), f"export of {letters.total} bodies")
        return Pieces(_lines(letters, self._contents.shown_to(asked.principal)), NDJSON)

    @DEAD_LETTERS.post(
        ":resend",
        "resendDeadLetters",
        "Resend dead letters to the group",
        on(ResourceType.GROUP, Action.UPDATE),
        change="dead letters resent",
        about="`reason` chooses among the next 10,000 letters; `next` is the `fromOffset` of the next call.",
        example={"offsets": [3, 4]},
    )
    async def resend(self, name: GroupName, body: Chosen, asked: Asked) -> Resent:
        body.check()
        store, outcome = self._store, Outcome()
        following: int | UnsetType | None = UNSET
        if body.offsets is not None:
            there = await without_deleted(store, name, body.offsets, outcome)
            await resend_some(store, name, there, outcome)
        else:
            letters = await letters_of(store, name, body.from_offset or 0)
            async for found in _chosen_of(letters, body.reason):
                await resend_some(store, name, [offset for offset, _ in found], outcome)
            following = UNSET if body.reason is None else letters.next
        asked.tell(detail=outcome.told(body.reason))
        return Resent(outcome.done, outcome.failed, following)

    @DEAD_LETTERS.post(
        ":delete",
        "deleteDeadLetters",
        "Delete dead letters of the group",
        on(ResourceType.GROUP, Action.DELETE),
        change="dead letters deleted",
        about="They are no longer shown or resent. With `all` their topic is deleted, with its messages.",
        example={"reason": "rejected"},
    )
    async def delete(self, name: GroupName, body: Chosen, asked: Asked) -> Deleted:
        body.check()
        store, outcome = self._store, Outcome()
        following = None
        if body.offsets is not None:
            await delete_some(store, name, await places_at(store, name, body.offsets, outcome), outcome)
        elif body.reason is not None:
            letters = await letters_of(store, name, body.from_offset or 0)
            found = [each async for batch in _chosen_of(letters, body.reason) for each in batch]
            following = letters.next
            await delete_some(store, name, found, outcome)
        else:
            outcome.count = await delete_all(store, name)
        asked.tell(detail=outcome.told(body.reason))
        return Deleted(outcome.count, outcome.failed, following)


async def _chosen_of(letters: Letters, reason: str | None) -> AsyncIterator[list[Marked]]:
    """All letters, or those of one reason among the next MAX_OFFSETS."""
    while letters.next is not None and (reason is None or letters.looked_at < MAX_OFFSETS):
        batch = await letters.batch(READ_AT_ONCE)
        found = [
            (offset_of(letter), letter.commit_log_offset) for letter in batch if reason in (None, reason_of(letter))
        ]
        if found:
            yield found
        await asyncio.sleep(0)


async def _reasons(letters: Letters, scan: int) -> ReasonCounts:
    """Counts by reason of the letters looked at, the most frequent first, and where to go on."""
    total = letters.total
    counts: dict[str, ReasonCount] = {}
    while letters.next is not None and letters.looked_at < scan and len(counts) < MAX_REASONS:
        for message in await letters.batch(min(READ_AT_ONCE, scan - letters.looked_at)):
            reason, at = reason_of(message), time_shape(message.time_ms(SystemProperty.DEAD_LETTER_TIME_MS) or 0)
            known = counts.get(reason) or ReasonCount(reason, 0, str(offset_of(message)), at, at)
            counts[reason] = msgspec.structs.replace(known, count=known.count + 1, newest=at)
        await asyncio.sleep(0)
    value = sorted(counts.values(), key=lambda each: (-each.count, each.reason))
    following = letters.next
    is_complete = following is None
    return ReasonCounts(value, None if is_complete else str(following), letters.looked_at, total, is_complete)


async def _lines(letters: Letters, shown: Callable[[StoredMessage], Shown]) -> AsyncIterator[bytes]:
    """Yield dead letters as lines.  A failure breaks the answer off, so that it does not look complete."""
    while (at := letters.next) is not None:
        try:
            found = await letters.batch(EXPORT_BATCH)
        except EntrepotError as error:
            _log.warning("an export broke off", offset=at, detail=error.message)
            raise
        yield _encode([full_letter(shown(message)) for message in found])
