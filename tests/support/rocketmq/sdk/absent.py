"""Calls of the ports that RocketMQ's published gRPC protocol cannot carry: they are refused with UNSUPPORTED.
Key-values may instead be served by a *side store*, such as the embedded broker."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NoReturn

from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.key_value import MAX_SCAN, KeyValue, KeyValueChange, OnEvents
from entrepot.domain.message import StoredMessage
from entrepot.domain.query import MessageConsumer, MessageHop, MessagePage, MessageQuery, RecordOrigin


def refuse(what: str, instead: str = "") -> NoReturn:
    """Raise UNSUPPORTED with the impossible action, and an alternative."""
    text = f"RocketMQ's gRPC protocol cannot {what}"
    raise EntrepotError(Code.UNSUPPORTED, f"{text}: {instead}" if instead else text)


class NoMessageFinder:
    """Implements `domain.ports.MessageFinder` with refusals; RocketMQ's own tools find messages."""

    async def query(self, query: MessageQuery) -> MessagePage:
        refuse("look messages up")

    async def messages_by_id(self, message_id: bytes, *, everywhere: bool = False) -> list[StoredMessage]:
        refuse("look messages up")

    async def message_at(self, commit_log_offset: int) -> StoredMessage:
        refuse("look messages up")

    async def message_consumers(self, message: StoredMessage) -> list[MessageConsumer]:
        refuse("say what became of a message")

    async def record_origin(self, commit_log_offset: int) -> RecordOrigin:
        refuse("tell which master wrote a message")

    async def message_trace(self, message_id: bytes) -> list[MessageHop]:
        refuse("say which way a message took")


class NoKeyValues:
    """Implements `domain.ports.KeyValues` with refusals, without a side store."""

    async def get(self, keys: Sequence[str]) -> list[KeyValue | None]:
        self._refuse()

    async def scan(self, prefix: str, *, after: str = "", limit: int = MAX_SCAN) -> list[KeyValue]:
        self._refuse()

    async def write(self, changes: Sequence[KeyValueChange]) -> int:
        self._refuse()

    def age_seconds(self) -> float:
        return 0.0

    def watch(self, prefix: str, on_events: OnEvents, on_begun: Callable[[], None]) -> Callable[[], None]:
        self._refuse()

    @staticmethod
    def _refuse() -> NoReturn:
        refuse("keep key-values", "the store needs a side store for them")
