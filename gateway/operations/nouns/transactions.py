"""Transactions: list the half messages that wait for their producer's commit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

from msgspec import Meta

from entrepot.domain.message import SystemProperty
from entrepot.gateway.operations.nouns.message_head import HEAD, HeadShown, head_of
from entrepot.gateway.operations.row.asked import Asked
from entrepot.gateway.operations.row.operation import Noun, Words
from entrepot.gateway.operations.row.problem import bad_request
from entrepot.gateway.operations.row.rights import CONTENTS_IN_QUERY
from entrepot.gateway.operations.row.shapes import MAX_NUMBER, Continued, Flag, Query, Time, shown_as
from entrepot.gateway.operations.row.times import time_shape
from entrepot.gateway.operations.row.waiting import known_topic, waiting_in

if TYPE_CHECKING:
    from entrepot.domain.clock import Clock
    from entrepot.domain.ports import Store
    from entrepot.domain.transaction import HalfMessage

MAX_LIMIT: Final = 1000
MAX_CURSOR: Final = 20
_COLUMNS: Final = ("topic", "transactionId", "ageSeconds", "checks", "nextCheckAt", "producer", "size")
_Named = Annotated[str, Meta(min_length=1)]
_Cursor = Annotated[str, Meta(max_length=MAX_CURSOR)]


class HalfMessageShown(HeadShown, frozen=True, kw_only=True):
    """A message that waits for its producer's commit"""

    transaction_id: str | None
    checks: int
    next_check_at: Time | None
    age_seconds: float
    producer: str | None


shown_as(
    HalfMessageShown(
        **HEAD,
        transaction_id="7F0000010001",
        checks=1,
        next_check_at="2026-12-01T08:00:00.000Z",
        age_seconds=8.5,
        producer="10.0.0.7",
    )
)


class TransactionsAsked(Query, frozen=True):
    topic: Annotated[_Named | None, Flag("Topic of the messages; else all.")] = None
    limit: Annotated[int, Meta(ge=1, le=MAX_LIMIT), Flag("Maximum number of messages.")] = 32
    cursor: Annotated[
        _Cursor | None,
        Meta(description="`next` of the page before"),
        Flag("Cursor of an earlier answer, to continue there."),
    ] = None


TRANSACTIONS: Final = Noun(
    "transactions", "/transactions", "transaction", "Half messages of transactions.", is_in_namespaces=True
)


class Transactions:
    """The operation of half messages."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store, self._clock = store, clock

    @TRANSACTIONS.get(
        "",
        "listTransactions",
        "List half messages that wait for their end, the oldest first",
        CONTENTS_IN_QUERY,
        shows={"next": "8113"},
        words=Words(
            "list",
            "List half messages that wait for their end, the oldest first.",
            columns=("topic", "transaction", "age s", "checks", "next check", "producer", "size"),
            cells=_COLUMNS,
            continued_by="--cursor",
        ),
    )
    async def listed(self, asked: Asked, query: TransactionsAsked) -> Continued[HalfMessageShown]:
        topic = known_topic(self._store, asked, query.topic)
        page, following = await waiting_in(
            asked.namespace,
            lambda after, count: self._store.transactions.half_messages(topic, after=after, limit=count),
            _place,
            -1 if query.cursor is None else _read_cursor(query.cursor),
            query.limit,
        )
        now_ms = self._clock.now_ms()
        return Continued([_shown(half, now_ms) for half in page], None if following is None else str(following))


def _place(half: HalfMessage) -> int:
    return half.message.commit_log_offset


def _shown(half: HalfMessage, now_ms: int) -> HalfMessageShown:
    message = half.message
    return HalfMessageShown(
        **head_of(message),
        transaction_id=message.system_text(SystemProperty.TRANSACTION_ID),
        checks=half.checks,
        next_check_at=time_shape(half.due_ms),
        age_seconds=max(now_ms - message.store_time_ms, 0) / 1000,
        producer=message.system_text(SystemProperty.BORN_HOST),
    )


def _read_cursor(text: str) -> int:
    number = int(text) if text.isascii() and text.isdecimal() else None
    if number is None or number > MAX_NUMBER:
        raise bad_request(f"cursor: {text[:40]!r} is not the cursor of a listing")
    return number
