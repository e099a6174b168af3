"""MessageFinder: the look-up of messages."""

from __future__ import annotations

from typing import Protocol

from entrepot.domain.message import StoredMessage
from entrepot.domain.query import MessageConsumer, MessageHop, MessagePage, MessageQuery, RecordOrigin


class MessageSearch(Protocol):
    """Searches for messages (`domain.query`); slaves answer them, too."""

    async def query(self, query: MessageQuery) -> MessagePage:
        """Return messages of a topic, the newest first.  Raises TOPIC_NOT_FOUND, BAD_REQUEST (invalid cursor)."""

    async def messages_by_id(self, message_id: bytes, *, everywhere: bool = False) -> list[StoredMessage]:
        """Return every stored message with an id, the newest first, at most MAX_QUERY_MESSAGES.  Ids may repeat:
        producers choose them, and a dead letter keeps that of its message.  A broker that is away is skipped; with
        `everywhere` that raises UNAVAILABLE."""

    async def message_at(self, commit_log_offset: int) -> StoredMessage:
        """Return the message whose record lies at an offset.  Raises OFFSET_NOT_FOUND."""


class MessageFinder(MessageSearch, Protocol):
    """The look-up of messages, and of what became of them."""

    async def message_consumers(self, message: StoredMessage) -> list[MessageConsumer]:
        """Return the state of a stored message for each group that reads its topic, by name of the group.  A message
        with one of its `further_places` as its place is asked about there."""

    async def message_trace(self, message_id: bytes) -> list[MessageHop]:
        """Return the hops of messages with an id, oldest first: all of traced ones (`Topic.trace`), else the failed
        attempts (`domain.query.is_failure`).  At least the newest MAX_QUERY_MESSAGES."""

    async def record_origin(self, commit_log_offset: int) -> RecordOrigin:
        """Return which mastership wrote the record at an offset.  Raises OFFSET_NOT_FOUND for an unknown broker;
        UNAVAILABLE while its master is away."""
