"""MessageFinder: looking messages up."""

from __future__ import annotations

from typing import Protocol

from domain.message import StoredMessage
from domain.query import MessageConsumer, MessageHop, MessagePage, MessageQuery


class MessageFinder(Protocol):
    """Looking messages up (`domain.query`)."""

    async def query(self, query: MessageQuery) -> MessagePage:
        """Messages of a topic, the newest first.  Raises TOPIC_NOT_FOUND, BAD_REQUEST (a cursor that is none)."""
        ...

    async def messages_by_id(self, message_id: bytes, *, everywhere: bool = False) -> list[StoredMessage]:
        """Every stored message with an id, the newest first: producers choose ids, and a dead letter keeps that of the
        message it was made from.  At most MAX_QUERY_MESSAGES.

        A broker that is away is passed over; with `everywhere` that raises UNAVAILABLE."""
        ...

    async def message_at(self, commit_log_offset: int) -> StoredMessage:
        """The message whose record lies at a place.  Raises OFFSET_NOT_FOUND."""
        ...

    async def message_consumers(self, message: StoredMessage) -> list[MessageConsumer]:
        """What became of a stored message for each group that reads its topic, by name of the group."""
        ...

    async def message_trace(self, message_id: bytes) -> list[MessageHop]:
        """The hops of messages with an id that were traced (`Topic.trace`), oldest first; empty where none was.  At
        least the newest MAX_QUERY_MESSAGES."""
        ...
