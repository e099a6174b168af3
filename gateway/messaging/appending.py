"""Appending of the gateway's own messages: no queue is chosen and no id minted, and the caller waits."""

from __future__ import annotations

from collections.abc import Sequence

from entrepot.domain.errors import EntrepotError
from entrepot.domain.filter_hash import filter_hash
from entrepot.domain.message import Message
from entrepot.domain.ports import MessageAppender


async def append_and_wait(store: MessageAppender, messages: Sequence[Message]) -> Sequence[EntrepotError | None]:
    """Append; return the outcome of each message when all are durable. Raises what made all of them fail."""
    for message in messages:
        message.filter_hash = filter_hash(message.sub_topic, message.tag)
    refusals = await store.append(messages).wait(0, len(messages))
    return refusals or [None] * len(messages)
