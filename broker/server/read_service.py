"""ReadService: messages of a master's or slave's store by offset, position, key and id over the wire, and tails."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from entrepot.broker.remoting.listener import Call, ServerStream, Service
from entrepot.broker.server.served_store import FoundMessages, ReadMessages
from entrepot.broker.server.streams import TailStream
from entrepot.domain.errors import EntrepotError
from entrepot.domain.expression.filter import FilterExpression
from entrepot.domain.query import MessageQuery
from entrepot.protocols.remoting import operations as wire
from entrepot.protocols.remoting.message_batch import encode_stored


class ReadService:
    """A service that looks its ports up on each call: a store without a log serves the rest."""

    def __init__(self, messages: ReadMessages, finder: FoundMessages) -> None:
        self._messages, self._finder = messages, finder
        self._tails: dict[str, set[TailStream]] = {}

    def install(self, service: Service) -> None:
        """Register its operations with a service."""
        messages, finder = self._messages, self._finder
        service.calls |= {
            wire.READ: stored(messages.read),
            wire.PULL: self._pull,
            wire.MATCHING_OFFSETS: messages.matching_offsets,
            wire.OFFSET_AT: messages.offset_at,
            wire.BOUNDS: messages.bounds,
            wire.RECORDS: lambda *asked: messages.records(*asked),
            wire.BYTES_BETWEEN: lambda *asked: messages.bytes_between(*asked),
            wire.QUERY: self._query,
            wire.MESSAGES_BY_ID: stored(finder.messages_by_id),
            wire.MESSAGE_AT: self._message_at,
        }
        service.streams[wire.TAIL] = self._open_tail

    def close(self, error: EntrepotError) -> None:
        """End all tails: nothing is served here any more."""
        for streams in tuple(self._tails.values()):
            for stream in tuple(streams):
                stream.end(error)

    async def _pull(
        self, topic: str, queue_id: int, from_offset: int, max_messages: int, filter: FilterExpression | None
    ) -> tuple[bytes, int, int, int]:
        pulled = await self._messages.pull(topic, queue_id, from_offset, max_messages, filter)
        return encode_stored(pulled.messages), pulled.next_offset, pulled.min_offset, pulled.max_offset

    async def _query(self, query: MessageQuery) -> tuple[bytes, str | None]:
        page = await self._finder.query(query)
        return encode_stored(page.messages), page.next

    async def _message_at(self, commit_log_offset: int) -> bytes:
        return encode_stored([await self._finder.message_at(commit_log_offset)])

    def _open_tail(self, stream: ServerStream, topic: str, *arguments: Any) -> None:
        opened = TailStream(self._messages, stream, topic, *arguments)
        self._tails.setdefault(topic, set()).add(opened)
        close = stream.on_close

        def closed() -> None:
            self._tails.get(topic, set()).discard(opened)
            close()

        stream.on_close = closed

    def topic_is_gone(self, name: str) -> None:
        """End the tails of a deleted topic."""
        for stream in self._tails.pop(name, ()):
            stream.topic_is_gone()


def stored(call: Callable[..., Awaitable[list[Any]]]) -> Call:
    """Wrap a call to return stored messages in their wire form."""

    async def answered(*arguments: Any) -> bytes:
        return encode_stored(await call(*arguments))

    return answered
