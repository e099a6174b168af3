"""Looking messages up over several brokers: each is asked, and the answers are merged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from heapq import merge
from itertools import islice
from typing import Final

import msgspec

from domain.errors import AWAY, Code, EntrepotError
from domain.message import StoredMessage
from domain.query import MAX_QUERY_MESSAGES, MessageConsumer, MessageHop, MessagePage, MessageQuery
from domain.shard import broker_of_place, local_place
from domain.timing import TimedMessage, TimerCursor
from domain.transaction import TransactionEnd
from protocols.remoting import operations as wire
from store_client.remote.broker_client import BrokerClient, unavailable
from store_client.remote.cluster import Cluster
from store_client.remote.topology import ask_all

BEHIND_ALL: Final = (1 << 62) - 1
_read_cursor: Final = msgspec.json.Decoder(dict[str, str]).decode


class RemoteFinder:
    """`domain.ports.MessageFinder`, and what else is asked of all: timers and transactions."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def query(self, query: MessageQuery) -> MessagePage:
        brokers = self._cluster.of_topic(query.topic)
        cursors = _cursors_of(query.cursor)
        asked = [c for c in brokers if cursors is None or str(c.number) in cursors]
        if cursors is not None and len(asked) < len(cursors):
            raise unavailable("one that the cursor goes on at is away")
        pages: list[tuple[BrokerClient, str, MessagePage]] = []
        for client in asked:
            cursor = cursors[str(client.number)] if cursors is not None else ""
            pages.append((client, cursor, await self._page(client, replace(query, cursor=cursor or None))))
        return _merged(pages, min(max(query.limit, 1), MAX_QUERY_MESSAGES))

    async def _page(self, client: BrokerClient, query: MessageQuery) -> MessagePage:
        found, following = await client.ask(wire.QUERY, query)
        return MessagePage(client.decode(found), following)

    async def messages_by_id(self, message_id: bytes, everywhere: bool) -> list[StoredMessage]:
        what = "messages cannot be looked up"
        brokers = self._cluster.all_ready(what) if everywhere else self._cluster.some_ready(what)
        answers = await ask_all(brokers, lambda c: c.ask_messages(wire.MESSAGES_BY_ID, message_id))
        return sorted(_all_of(answers, everywhere=everywhere), key=_newest_first)[:MAX_QUERY_MESSAGES]

    async def message_at(self, place: int) -> StoredMessage:
        client = self._cluster.of_number(broker_of_place(place)) if place >= 0 else None
        if client is None:
            raise EntrepotError(Code.OFFSET_NOT_FOUND, f"no message lies at {place}")
        [message] = await client.ask_messages(wire.MESSAGE_AT, local_place(place))
        return message

    async def message_consumers(self, message: StoredMessage) -> list[MessageConsumer]:
        client = self._cluster.of_message(message)
        found: list[MessageConsumer] = await client.ask(wire.MESSAGE_CONSUMERS, client.own(message))
        return found

    async def message_trace(self, message_id: bytes) -> list[MessageHop]:
        brokers = self._cluster.some_ready("traces cannot be looked up")
        answers = await ask_all(brokers, lambda c: c.ask(wire.MESSAGE_TRACE, message_id))
        hops = [
            replace(hop, queue_id=client.world_queue(hop.queue_id))
            for client, told in answers
            if not isinstance(told, EntrepotError)
            for hop in told
        ]
        _check_answered(answers)
        return sorted(hops, key=lambda hop: hop.time_ms)

    # -- timers --------------------------------------------------------------------------------------------------

    async def recall(self, topic: str, message_id: bytes, deliver_at_ms: int) -> None:
        await self._at_one(wire.RECALL, topic, message_id, deliver_at_ms)

    async def retime(self, topic: str, message_id: bytes, deliver_at_ms: int, new_deliver_at_ms: int) -> None:
        await self._at_one(wire.RETIME, topic, message_id, deliver_at_ms, new_deliver_at_ms)

    async def _at_one(self, operation: wire.Operation, topic: str, *arguments: object) -> None:
        """Ask all; one of them has it.  Raises why none did: that one is away, rather than that it is nowhere."""
        answers = await ask_all(self._cluster.of_topic(topic), lambda c: c.ask(operation, topic, *arguments))
        refusals = [answer for _, answer in answers if isinstance(answer, EntrepotError)]
        if len(refusals) == len(answers):
            if self._cluster.absent_of(topic):
                refusals.append(unavailable(f"one that may have it of topic {topic!r} is away"))
            raise next((r for r in refusals if r.code != Code.OFFSET_NOT_FOUND), refusals[0])

    async def timed_messages(self, topic: str | None, after: TimerCursor | None, limit: int) -> list[TimedMessage]:
        brokers = (
            self._cluster.some_ready("timers cannot be listed") if topic is None else self._cluster.of_topic(topic)
        )
        found: list[TimedMessage] = []
        for client in brokers:
            cursor = None if after is None else _cursor_at(client, after)
            batch, times = await client.ask(wire.TIMED_MESSAGES, topic, cursor, limit)
            found += map(TimedMessage, client.decode(batch), times)
        found.sort(key=lambda timed: (timed.deliver_at_ms, timed.message.commit_log_offset))
        return found[:limit]

    # -- transactions --------------------------------------------------------------------------------------------

    async def end_transactions(self, ends: list[TransactionEnd]) -> list[EntrepotError | None]:
        """Who began them may be another gateway, so all brokers are asked; one of them has each."""
        brokers = self._cluster.some_ready("transactions cannot be ended")
        answers = await ask_all(brokers, lambda c: c.ask(wire.END_TRANSACTIONS, ends))
        outcomes: list[EntrepotError | None] = []
        for at in range(len(ends)):
            told = [answer if isinstance(answer, EntrepotError) else answer[at] for _, answer in answers]
            if self._cluster.absent_of(ends[at].topic):
                told.append(unavailable("one that may have the transaction is away"))
            if any(outcome is None for outcome in told):
                outcomes.append(None)
            else:
                in_earnest = (o for o in told if o is not None and o.code != Code.INVALID_TRANSACTION_ID)
                outcomes.append(next(in_earnest, told[0]))
        return outcomes

    async def take_checks(self, topics: list[str], max_messages: int) -> list[StoredMessage]:
        found: list[StoredMessage] = []
        for client in self._cluster.some_ready("transactions cannot be looked at"):
            if len(found) < max_messages:
                found += await client.ask_messages(wire.TAKE_CHECKS, topics, max_messages - len(found))
        return found


def _cursors_of(cursor: str | None) -> dict[str, str] | None:
    """By broker number: where its answer goes on, empty for its beginning; None where nothing was asked yet."""
    if cursor is None:
        return None
    try:
        return _read_cursor(cursor)
    except msgspec.DecodeError:
        raise EntrepotError(Code.BAD_REQUEST, f"{cursor[:80]!r} is not a cursor") from None


def _merged(pages: list[tuple[BrokerClient, str, MessagePage]], limit: int) -> MessagePage:
    """The newest of all pages, each with the cursor it was asked with; and where each broker goes on."""
    # Each broker's own order is kept even where its clock was set back: what is taken of a page is its beginning.
    found = list(islice(merge(*(page.messages for _, _, page in pages), key=_newest_first), limit))
    cursors: dict[str, str] = {}
    for client, cursor, page in pages:
        taken = [m for m in found if broker_of_place(m.commit_log_offset) == client.number]
        if len(taken) == len(page.messages):
            if page.next is not None:
                cursors[str(client.number)] = page.next
        else:  # of what it told some was left: it is told again
            cursors[str(client.number)] = str(local_place(taken[-1].commit_log_offset)) if taken else cursor
    return MessagePage(found, msgspec.json.encode(cursors).decode() if cursors else None)


def _newest_first(message: StoredMessage) -> tuple[int, int]:
    return -message.store_time_ms, -message.commit_log_offset


def _cursor_at(client: BrokerClient, after: TimerCursor) -> TimerCursor:
    """Where one broker goes on: messages of one time are told by broker, then by place."""
    number = broker_of_place(after.commit_log_offset)
    if number == client.number:
        return TimerCursor(after.deliver_at_ms, local_place(after.commit_log_offset))
    return TimerCursor(after.deliver_at_ms, BEHIND_ALL if client.number < number else -1)


def _all_of(
    answers: list[tuple[BrokerClient, list[StoredMessage] | EntrepotError]], *, everywhere: bool = False
) -> list[StoredMessage]:
    _check_answered(answers, everywhere=everywhere)
    return [message for _, told in answers if not isinstance(told, EntrepotError) for message in told]


def _check_answered(answers: Sequence[tuple[BrokerClient, object]], *, everywhere: bool = False) -> None:
    """Raise a refusal in earnest, or that nobody answered; with `everywhere` any refusal."""
    refusals = [answer for _, answer in answers if isinstance(answer, EntrepotError)]
    for refusal in refusals:
        if everywhere or refusal.code not in AWAY or len(refusals) == len(answers):
            raise refusal
