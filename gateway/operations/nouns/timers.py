"""Timers: list scheduled messages, cancel and reschedule them.  A handle contains its namespace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

from msgspec import Meta

from entrepot.domain.access.model import Action, ResourceType, whole_topic
from entrepot.domain.access.model import Request as Need
from entrepot.domain.recall_handle import RecallHandle
from entrepot.domain.timestamp import MAX_EPOCH_MS
from entrepot.domain.timing import TimedMessage, TimerCursor
from entrepot.gateway.operations.nouns.message_head import HEAD, HeadShown, head_of
from entrepot.gateway.operations.row.asked import Asked
from entrepot.gateway.operations.row.ids import id_text
from entrepot.gateway.operations.row.operation import Noun, Words
from entrepot.gateway.operations.row.problem import bad_request
from entrepot.gateway.operations.row.rights import CONTENTS_IN_QUERY, Right
from entrepot.gateway.operations.row.shapes import (
    MAX_CURSOR_LENGTH,
    MAX_NUMBER,
    Body,
    Continued,
    Flag,
    Part,
    PlainName,
    Query,
    Time,
    shown_as,
)
from entrepot.gateway.operations.row.times import epoch_ms_of, time_text
from entrepot.gateway.operations.row.waiting import known_topic, waiting_in

if TYPE_CHECKING:
    from entrepot.domain.ports import Store

MAX_LIMIT: Final = 1000
_HANDLE: Final = "AQAAAZrxqmUAB29yZGVycwAB"
_Named = Annotated[str, Meta(min_length=1)]
_Cursor = Annotated[str, Meta(min_length=1, max_length=MAX_CURSOR_LENGTH)]


class TimerShown(HeadShown, frozen=True, kw_only=True):
    """A message that waits for its time"""

    handle: str
    deliver_at: Time


class Retimed(Part, frozen=True):
    handle: str
    deliver_at: Time


shown_as(TimerShown(**HEAD, handle=_HANDLE, deliver_at="2026-12-24T18:00:00.000Z"))
shown_as(Retimed(_HANDLE, "2026-12-01T08:00:00.000Z"))


class Retime(Body, frozen=True):
    """A scheduled message's new delivery time."""

    deliver_at: Annotated[
        Annotated[int, Meta(ge=0, le=MAX_EPOCH_MS)] | str,
        Flag("New delivery time: RFC 3339 or epoch milliseconds.", name="TIME"),
    ]


class TimersAsked(Query, frozen=True):
    topic: Annotated[_Named | None, Flag("Topic of the messages; else all topics.")] = None
    limit: Annotated[int, Meta(ge=1, le=MAX_LIMIT), Flag("Maximum number of messages.")] = 32
    cursor: Annotated[_Cursor | None, Flag("Cursor of an earlier list, to continue there.")] = None


def _publishing(own: Any, asked: Asked) -> list[Need]:
    """Needs of cancelling and rescheduling: the right to publish."""
    handle = RecallHandle.decode(asked.stored["handle"])
    return [Need(Action.PUB, ResourceType.TOPIC, whole_topic(handle.topic))]


TIMERS: Final = Noun(
    "timers",
    "/timers",
    "timer",
    "Scheduled messages.",
    is_in_namespaces=True,
    helps={"handle": "Handle from the list."},
)


class Timers:
    """The operations of scheduled messages."""

    def __init__(self, store: Store) -> None:
        self._store = store

    @TIMERS.get(
        "",
        "listTimers",
        "List scheduled messages, the next one first",
        CONTENTS_IN_QUERY,
        shows={"next": "AAAB"},
        words=Words(
            "list",
            "Messages that wait, the next one first.",
            columns=("deliver at", "topic", "keys", "size", "handle"),
            cells=lambda each: (each["deliverAt"], each["topic"], " ".join(each["keys"]), each["size"], each["handle"]),
            continued_by="--cursor",
        ),
    )
    async def listed(self, asked: Asked, query: TimersAsked) -> Continued[TimerShown]:
        topic = known_topic(self._store, asked, query.topic)
        page, following = await waiting_in(
            asked.namespace,
            lambda after, count: self._store.timers.timed_messages(topic, after=after, limit=count),
            _cursor_of,
            None if query.cursor is None else _read_cursor(query.cursor),
            query.limit,
        )
        return Continued([_shown(each) for each in page], None if following is None else _cursor_text(following))

    @TIMERS.delete(
        "/{handle}",
        "recallMessage",
        "Recall a scheduled message",
        Right(_publishing),
        change="timer recalled",
        is_plain=True,
        words=Words(
            "recall",
            "Recall a scheduled message: it is never delivered. Asks for confirmation.",
            outcome="recalled",
            confirm="Take the message back, so that it is never delivered?",
            done="recalled",
        ),
    )
    async def recall(self, handle: PlainName, asked: Asked) -> None:
        timer = RecallHandle.decode(handle)
        asked.tell(f"topic {timer.topic}", f"message {id_text(timer.message_id)}")
        await self._store.timers.recall(timer.topic, timer.message_id, timer.deliver_at_ms)

    @TIMERS.put(
        "/{handle}",
        "retimeMessage",
        "Change the delivery time of a scheduled message",
        Right(_publishing),
        example={"deliverAt": "2026-12-25T08:00:00Z"},
        is_plain=True,
        words=Words(
            "retime",
            "Change a message's delivery time. It gets a new handle.",
            outcome="{answer[deliverAt]}  {answer[handle]}",
        ),
    )
    async def retime(self, handle: PlainName, asked: Asked, body: Retime) -> Retimed:
        timer = RecallHandle.decode(handle)
        deliver_at_ms = epoch_ms_of(str(body.deliver_at), "deliverAt")
        deliver_at = time_text(deliver_at_ms)
        asked.tell(f"topic {timer.topic}", f"message {id_text(timer.message_id)} to {deliver_at}")
        await self._store.timers.retime(timer.topic, timer.message_id, timer.deliver_at_ms, deliver_at_ms)
        return Retimed(RecallHandle(timer.topic, timer.message_id, deliver_at_ms).encode(), deliver_at)


def _shown(timed: TimedMessage) -> TimerShown:
    message = timed.message
    handle = RecallHandle(message.topic, message.message_id, timed.deliver_at_ms)
    return TimerShown(**head_of(message), handle=handle.encode(), deliver_at=time_text(timed.deliver_at_ms))


def _cursor_of(timed: TimedMessage) -> TimerCursor:
    return TimerCursor(timed.deliver_at_ms, timed.message.commit_log_offset)


def _cursor_text(cursor: TimerCursor) -> str:
    return f"{cursor.deliver_at_ms}-{cursor.commit_log_offset}"


def _read_cursor(text: str) -> TimerCursor:
    numbers = [int(part) if part.isascii() and part.isdecimal() else -1 for part in text.split("-")]
    if len(numbers) != 2 or not all(0 <= number <= MAX_NUMBER for number in numbers):
        raise bad_request(f"cursor: {text[:80]!r} is not the cursor of a listing")
    return TimerCursor(*numbers)
