"""ReadService: messages of a master's or slave's store by offset, position, key and id over the wire, and tails."""

from __future__ import annotations

from typing import Any

from entrepot.broker.remoting.listener import ServerStream
from entrepot.broker.remoting.service import Service
from entrepot.broker.server.served_store import ReadMessages
from entrepot.broker.server.streams import TailStream
from entrepot.domain.errors import EntrepotError
from entrepot.domain.ports import MessageSearch
from entrepot.protocols.wire import operations as wire
from entrepot.protocols.wire import store_rows as rows


class ReadService:
    """The service of reads and searches, with its open tails."""

    def __init__(self, messages: ReadMessages, finder: MessageSearch) -> None:
        self._messages, self._finder = messages, finder
        self._tails: dict[str, set[TailStream]] = {}

    def install(self, service: Service) -> None:
        """Register its operations with a service."""
        service.serve(self._messages, (*rows.MESSAGES, *rows.RECORD_READS))
        service.serve(self._finder, rows.SEARCH)
        service.streams[wire.TAIL] = self._open_tail

    def close(self, error: EntrepotError) -> None:
        """End all tails: nothing is served here any more."""
        for streams in tuple(self._tails.values()):
            for stream in tuple(streams):
                stream.end(error)

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
