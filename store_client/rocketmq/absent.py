"""What RocketMQ's published gRPC protocol cannot carry: every such call of the ports is refused with UNSUPPORTED.

Key-values are the one exception: a *side store* may serve them, the embedded broker for one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NoReturn

from domain.errors import Code, EntrepotError
from domain.key_value import MAX_SCAN, KeyValue, KeyValueChange, OnEvents
from domain.message import StoredMessage
from domain.query import MessageConsumer, MessageHop, MessagePage, MessageQuery


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


class NoKeyValues:
    """`domain.ports.KeyValues` without a side store."""

    async def get(self, keys: Sequence[str]) -> list[KeyValue | None]:
        self._refuse()

    async def scan(self, prefix: str, *, after: str = "", limit: int = MAX_SCAN) -> list[KeyValue]:
        self._refuse()

    async def write(self, changes: Sequence[KeyValueChange]) -> int:
        self._refuse()

    def watch(self, prefix: str, on_events: OnEvents, on_begun: Callable[[], None]) -> Callable[[], None]:
        self._refuse()

    @staticmethod
    def _refuse() -> NoReturn:
        refuse("keep key-values", "the store needs a side store for them")
