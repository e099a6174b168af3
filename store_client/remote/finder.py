"""The look-up of messages over several brokers: each is asked, and the answers are merged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from heapq import merge
from itertools import islice
from typing import Final, TypeVar

import msgspec

from entrepot.domain.broker_of_queue import broker_of_place, local_place
from entrepot.domain.errors import AWAY, Code, EntrepotError
from entrepot.domain.message import StoredMessage
from entrepot.domain.query import (
    MAX_QUERY_MESSAGES,
    MessageConsumer,
    MessageHop,
    MessagePage,
    MessageQuery,
    RecordOrigin,
)
from entrepot.protocols.wire import store_rows as rows
from entrepot.store_client.remote.asking import Asking, ask_all
from entrepot.store_client.remote.broker_client import BrokerClient, unavailable
from entrepot.store_client.remote.cluster import Cluster
from entrepot.store_client.remote.riding import rides

T = TypeVar("T")
_read_cursor: Final = msgspec.json.Decoder(dict[str, str]).decode


class RemoteFinder:
    """Implements `domain.ports.MessageFinder`."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    @rides
    async def query(self, query: MessageQuery) -> MessagePage:
        brokers = self._cluster.readers_of_topic(query.topic)
        cursors = _cursors_of(query.cursor)
        asked = [c for c in brokers if cursors is None or str(c.number) in cursors]
        if cursors is not None and len(asked) < len(cursors):
            raise unavailable("one that the cursor goes on at is away")
        pages: list[tuple[Asking, str, MessagePage]] = []
        for client in asked:
            cursor = cursors[str(client.number)] if cursors is not None else ""
            pages.append((client, cursor, await client.ask(rows.QUERY.ask(replace(query, cursor=cursor or None)))))
        return _merged(pages, min(max(query.limit, 1), MAX_QUERY_MESSAGES))

    async def messages_by_id(self, message_id: bytes, *, everywhere: bool = False) -> list[StoredMessage]:
        what = "messages cannot be looked up"
        brokers = self._cluster.all_ready(what) if everywhere else self._cluster.some_ready(what)
        answers = await ask_all(brokers, lambda client: client.ask(rows.MESSAGES_BY_ID.ask(message_id)))
        return sorted(_all_of(answers, everywhere=everywhere), key=_newest_first)[:MAX_QUERY_MESSAGES]

    async def message_at(self, commit_log_offset: int) -> StoredMessage:
        client = self._at(commit_log_offset)
        source = self._cluster.slaves.instead_of(client) or client
        return await source.ask(rows.MESSAGE_AT.ask(commit_log_offset))

    async def record_origin(self, commit_log_offset: int) -> RecordOrigin:
        client = self._at(commit_log_offset)
        return replace(await client.ask(rows.RECORD_ORIGIN.ask(commit_log_offset)), broker=client.name)

    def _at(self, commit_log_offset: int) -> BrokerClient:
        """Return the broker of a place.  Raises OFFSET_NOT_FOUND."""
        client = self._cluster.of_number(broker_of_place(commit_log_offset)) if commit_log_offset >= 0 else None
        if client is None:
            raise EntrepotError(Code.OFFSET_NOT_FOUND, f"no message lies at {commit_log_offset}")
        return client

    async def message_consumers(self, message: StoredMessage) -> list[MessageConsumer]:
        client = self._cluster.of_queue(message.topic, message.queue_id)
        return await client.ask(rows.MESSAGE_CONSUMERS.ask(message))

    async def message_trace(self, message_id: bytes) -> list[MessageHop]:
        brokers = self._cluster.some_ready("traces cannot be looked up")
        answers = await ask_all(brokers, lambda client: client.ask(rows.MESSAGE_TRACE.ask(message_id)))
        return sorted(_all_of(answers), key=lambda hop: hop.time_ms)


def _cursors_of(cursor: str | None) -> dict[str, str] | None:
    """Return the cursor of each broker by number, empty for its start; None for a new query."""
    if cursor is None:
        return None
    try:
        return _read_cursor(cursor)
    except msgspec.DecodeError:
        raise EntrepotError(Code.BAD_REQUEST, f"{cursor[:80]!r} is not a cursor") from None


def _merged(pages: list[tuple[Asking, str, MessagePage]], limit: int) -> MessagePage:
    """Return the newest of all pages, each given with its cursor, and the new cursors of the brokers."""
    # Each broker's own order is kept even where its clock was set back: a page is taken from its start.
    found = list(islice(merge(*(page.messages for _, _, page in pages), key=_newest_first), limit))
    cursors: dict[str, str] = {}
    for client, cursor, page in pages:
        taken = [m for m in found if broker_of_place(m.commit_log_offset) == client.number]
        if len(taken) == len(page.messages):
            if page.next is not None:
                cursors[str(client.number)] = page.next
        else:  # some of its answer was left: it is asked for again
            cursors[str(client.number)] = str(local_place(taken[-1].commit_log_offset)) if taken else cursor
    return MessagePage(found, msgspec.json.encode(cursors).decode() if cursors else None)


def _newest_first(message: StoredMessage) -> tuple[int, int]:
    return -message.store_time_ms, -message.commit_log_offset


def _all_of(answers: list[tuple[BrokerClient, list[T] | EntrepotError]], *, everywhere: bool = False) -> list[T]:
    _check_answered(answers, everywhere=everywhere)
    return [each for _, told in answers if not isinstance(told, EntrepotError) for each in told]


def _check_answered(answers: Sequence[tuple[BrokerClient, object]], *, everywhere: bool = False) -> None:
    """Raise a serious refusal, or that nobody answered; with `everywhere` any refusal."""
    refusals = [answer for _, answer in answers if isinstance(answer, EntrepotError)]
    for refusal in refusals:
        if everywhere or refusal.code not in AWAY or len(refusals) == len(answers):
            raise refusal
