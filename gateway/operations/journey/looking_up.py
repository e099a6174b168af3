"""Looking up: the messages that one name means.

The log has an index by message id, and one by key for each topic; an event's id is a key.  Other names have none, since
an entry would cost every publish: they are looked for among the newest messages of one topic, up to named limits, and
the answer says how far that went.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.message import StoredMessage, SystemProperty
from entrepot.domain.names import split_name
from entrepot.domain.ports import MessageFinder
from entrepot.domain.query import MessageQuery
from entrepot.gateway.operations.row.ids import ids_of
from entrepot.protocols.amqp.content import ContentHeader
from entrepot.protocols.amqp.mapping import read_origin
from entrepot.protocols.cloudevents.mapping import to_event

MAX_FOUND: Final = 100
"""Messages of one name that are told apart."""
MAX_TOPICS: Final = 500
"""Topics that are asked for a key, where the caller names none."""
AT_ONCE: Final = 16
"""Topics asked at the same time."""
MAX_SCANNED: Final = 20_000
"""Messages that a look-up without an index reads."""
MAX_SCANNED_BYTES: Final = 64 << 20
"""Bytes of their bodies."""
SCAN_SECONDS: Final = 5.0
"""Time that it takes, in seconds."""
PAGE: Final = 250


class By(StrEnum):
    """Kinds of names.  The values are those of REST."""

    MESSAGE_ID = "messageId"
    KEY = "key"
    EVENT = "event"  # source and id of a CloudEvent
    CORRELATION = "correlationData"
    AMQP_ID = "amqpMessageId"


SCANNED: Final = frozenset((By.CORRELATION, By.AMQP_ID))
"""Names without an index."""


@dataclass(frozen=True)
class Wanted:
    """Subject of a look-up.  `topics`: those that the caller may read, of which the messages are.  `source`: of an
    event, empty for any.  `from_ms`, `to_ms` bound the store time."""

    by: By
    id: str
    topics: Sequence[str] = ()
    source: str = ""
    from_ms: int | None = None
    to_ms: int | None = None


@dataclass
class Searched:
    """Extent of a look-up.  `until_ms`: store time of the oldest message read; `is_complete`: all there is was
    read."""

    topics: int = 0
    messages: int = 0
    bytes: int = 0
    until_ms: int | None = None
    is_complete: bool = True


@dataclass
class Found:
    """The messages of a name, the newest first."""

    messages: list[StoredMessage]
    searched: Searched | None = None


async def looked_up(finder: MessageFinder, wanted: Wanted, default_type: str, now: Callable[[], float]) -> Found:
    """Return the messages that a name means.  Raises TOPIC_NOT_FOUND, and UNAVAILABLE where no broker answers."""
    if wanted.by is By.MESSAGE_ID:
        for message_id in ids_of(wanted.id):
            if found := await finder.messages_by_id(message_id):
                return Found(found)
        return Found([])
    if wanted.by in SCANNED:
        return await _scanned(finder, wanted, now)
    return await _by_key(finder, wanted, default_type)


# -- by an index -----------------------------------------------------------------------------------------------------


async def _by_key(finder: MessageFinder, wanted: Wanted, default_type: str) -> Found:
    room = asyncio.Semaphore(AT_ONCE)
    searched = Searched(topics=len(wanted.topics))

    async def asked(topic: str) -> list[StoredMessage]:
        async with room:
            query = MessageQuery(topic, wanted.id, wanted.from_ms, wanted.to_ms, MAX_FOUND)
            try:
                page = await finder.query(query)
            except EntrepotError as error:
                if error.code is Code.TOPIC_NOT_FOUND and len(wanted.topics) > 1:
                    return []  # deleted just now
                raise
            searched.is_complete &= page.next is None
            return page.messages

    pages = await asyncio.gather(*(asked(topic) for topic in wanted.topics))
    found = [message for page in pages for message in page]
    searched.messages = len(found)
    if wanted.by is By.EVENT:
        found = [message for message in found if _is_event(message, wanted, default_type)]
    found.sort(key=lambda message: (-message.store_time_ms, -message.commit_log_offset))
    return Found(found, searched)


def _is_event(message: StoredMessage, wanted: Wanted, default_type: str) -> bool:
    attributes = to_event(message, split_name(message.topic)[0], default_type).attributes
    return attributes.get("id") == wanted.id and (not wanted.source or attributes.get("source") == wanted.source)


# -- without one -----------------------------------------------------------------------------------------------------


async def _scanned(finder: MessageFinder, wanted: Wanted, now: Callable[[], float]) -> Found:
    """Read the newest messages of the topics within the limits."""
    searched, end = Searched(topics=len(wanted.topics)), now() + SCAN_SECONDS
    found: list[StoredMessage] = []
    matches = _matching(wanted)
    for topic in wanted.topics:
        cursor: str | None = None
        while True:
            if len(found) >= MAX_FOUND or _is_enough(searched) or now() >= end:
                searched.is_complete = False
                return Found(found, searched)
            page = await finder.query(MessageQuery(topic, None, wanted.from_ms, wanted.to_ms, PAGE, cursor))
            for message in page.messages:
                searched.messages += 1
                searched.bytes += len(message.body)
                searched.until_ms = min(searched.until_ms or message.store_time_ms, message.store_time_ms)
            found += [message for message in page.messages if matches(message)]
            cursor = page.next
            if cursor is None:
                break
    return Found(found[:MAX_FOUND], searched)


def _is_enough(searched: Searched) -> bool:
    return searched.messages >= MAX_SCANNED or searched.bytes >= MAX_SCANNED_BYTES


def _matching(wanted: Wanted) -> Callable[[StoredMessage], bool]:
    if wanted.by is By.AMQP_ID:
        return lambda message: amqp_id(message) == wanted.id
    ids = ids_of(wanted.id)
    return lambda message: correlation_data(message) in ids


def amqp_header(message: StoredMessage) -> ContentHeader | None:
    """Return the properties that an AMQP client published a message with, or None."""
    kept = message.system.get(SystemProperty.AMQP)
    return ContentHeader(read_origin(kept)[2]) if isinstance(kept, bytes) and kept else None


def amqp_id(message: StoredMessage) -> str | None:
    """Return the message-id of AMQP, or None."""
    header = amqp_header(message)
    return None if header is None else header.message_id


def correlation_data(message: StoredMessage) -> bytes | None:
    """Return MQTT's correlation data, or the correlation id of other protocols; None without either."""
    value = message.system.get(SystemProperty.CORRELATION_ID)
    if value is None and (header := amqp_header(message)) is not None:
        value = header.correlation_id
    return value.encode() if isinstance(value, str) else value if isinstance(value, bytes) else None
