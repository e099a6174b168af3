"""What RocketMQ's published gRPC protocol cannot carry: every such call of the ports is refused with UNSUPPORTED.

Key-values are the one exception: a *side store* may serve them, the embedded broker for one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NoReturn

from domain.errors import Code, EntrepotError
from domain.key_value import MAX_SCAN, KeyValue, KeyValueChange, OnEvents
from domain.message import StoredMessage
from domain.ports import KeyValues
from domain.query import MessageConsumer, MessageHop, MessagePage, MessageQuery
from domain.timing import TimedMessage, TimerCursor


def refuse(what: str, instead: str = "") -> NoReturn:
    """Raise UNSUPPORTED, saying what, and what to do instead."""
    text = f"RocketMQ's gRPC protocol cannot {what}"
    raise EntrepotError(Code.UNSUPPORTED, f"{text}: {instead}" if instead else text)


class NoMessageFinder:
    """`domain.ports.MessageFinder`: the protocol finds nothing; RocketMQ's own tools do."""

    async def query(self, query: MessageQuery) -> MessagePage:
        refuse("look messages up")

    async def messages_by_id(self, message_id: bytes, *, everywhere: bool = False) -> list[StoredMessage]:
        refuse("look messages up")

    async def message_at(self, commit_log_offset: int) -> StoredMessage:
        refuse("look messages up")

    async def message_consumers(self, message: StoredMessage) -> list[MessageConsumer]:
        refuse("say what became of a message")

    async def message_trace(self, message_id: bytes) -> list[MessageHop]:
        refuse("say which way a message took")

    async def retime(self, topic: str, message_id: bytes, deliver_at_ms: int, new_deliver_at_ms: int) -> None:
        refuse("give a timed message another time", "recall it, and send it again")

    async def timed_messages(
        self, topic: str | None = None, *, after: TimerCursor | None = None, limit: int = 100
    ) -> list[TimedMessage]:
        refuse("list timed messages")

    async def resend_dead_letters(
        self, group: str, queue_offsets: Sequence[int], queue_id: int = 0
    ) -> list[EntrepotError | None]:
        refuse("resend dead letters", "read the dead-letter topic, and send them to their topic again")


class SideKeyValues:
    """`domain.ports.KeyValues` of the side store, or none."""

    def __init__(self, side: KeyValues | None) -> None:
        self._side = side

    def _store(self) -> KeyValues:
        if self._side is None:
            refuse("keep key-values", "the store needs a side store for them")
        return self._side

    async def get(self, keys: Sequence[str]) -> list[KeyValue | None]:
        return await self._store().get(keys)

    async def scan(self, prefix: str, *, after: str = "", limit: int = MAX_SCAN) -> list[KeyValue]:
        return await self._store().scan(prefix, after=after, limit=limit)

    async def write(self, changes: Sequence[KeyValueChange]) -> int:
        return await self._store().write(changes)

    def watch(self, prefix: str, on_events: OnEvents, on_begun: Callable[[], None]) -> Callable[[], None]:
        return self._store().watch(prefix, on_events, on_begun)
