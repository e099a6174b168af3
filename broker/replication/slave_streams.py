"""SlaveStreams: a master's log on its way to its slaves, as far as each has given credit.

Written records are sent at once, while the master's own sync is under way. For a slave that is behind, the files are
read, one run at a time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

import structlog

from entrepot.broker.remoting.listener import ServerStream
from entrepot.broker.replication.files.runs import WELCOME_ITEM, encode_run, read_run
from entrepot.broker.store.commit_log import CommitLog
from entrepot.domain.errors import Code, CorruptedError, EntrepotError
from entrepot.domain.replication.greeting import Welcome
from entrepot.protocols.wire.values import encode

TELL_SECONDS: Final = 0.002
"""Time after which the confirmed offset is sent alone, in seconds; before, it goes with the next records."""
log = structlog.get_logger(__name__)


class SlaveStreams:
    """The streams by the machine's numbers. `on_sent` is told (replica, stream, end), `on_gone` (replica, stream)."""

    def __init__(
        self,
        confirmed: Callable[[], int],
        on_sent: Callable[[int, int, int], None],
        on_gone: Callable[[int, int], None],
    ) -> None:
        self._confirmed, self._on_sent, self._on_gone = confirmed, on_sent, on_gone
        self._loop = asyncio.get_running_loop()
        self._log: CommitLog | None = None
        self._streams: dict[int, _Outgoing] = {}
        self._count = 0
        self._telling: asyncio.TimerHandle | None = None

    def lead(self, commit_log: CommitLog) -> None:
        """Send from this log from now on."""
        self._log = commit_log

    def open(self, replica: int, stream: ServerStream) -> int:
        """Add a slave's stream; return its number."""
        self._count += 1
        number = self._count
        self._streams[number] = _Outgoing(replica, stream)
        stream.on_close = lambda: self._closed(number)
        stream.on_credit = lambda: self._send(number)
        return number

    def _closed(self, number: int) -> None:
        found = self._streams.pop(number, None)
        if found is not None:
            self._on_gone(found.replica, number)

    def silence(self, number: int) -> float | None:
        """Return the seconds since a slave was heard; None where its stream has ended."""
        found = self._streams.get(number)
        return None if found is None else found.stream.channel.silence

    def welcome(self, number: int, welcome: Welcome) -> None:
        """Accept a slave, and begin to send."""
        found = self._streams.get(number)
        if found is not None:
            found.next = welcome.start
            found.told = welcome.confirmed
            found.stream.send(WELCOME_ITEM + encode((number, welcome)))
            self._send(number)

    def refuse(self, number: int, reason: str) -> None:
        found = self._streams.get(number)
        if found is not None:
            log.warning("a slave is refused", replica=found.replica, reason=reason)
            found.stream.end(EntrepotError(Code.PRECONDITION_FAILED, reason))

    def close(self) -> None:
        """End all streams: the mastership has ended."""
        self._log = None
        for number in tuple(self._streams):
            self.refuse(number, "it is no longer master")
        if self._telling is not None:
            self._telling.cancel()
            self._telling = None

    def written(self) -> None:
        """Send the log's new records."""
        for number in tuple(self._streams):
            self._send(number)

    def confirmed(self) -> None:
        """Tell the new confirmed offset soon."""
        if self._telling is None and self._streams:
            self._telling = self._loop.call_later(TELL_SECONDS, self._tell)

    def _tell(self) -> None:
        self._telling = None
        for found in self._streams.values():
            if found.next is not None and found.told < self._confirmed() and found.stream.has_credit:
                self._send_run(found, b"")

    def _send(self, number: int) -> None:
        found, commit_log = self._streams.get(number), self._log
        if found is None or commit_log is None or found.next is None:
            return
        while found.next < commit_log.written_offset and found.stream.has_credit:
            try:
                data = read_run(commit_log, found.next, commit_log.written_offset)
            except CorruptedError as error:
                log.error("the log cannot be sent to a slave", replica=found.replica, problem=error.message)
                found.stream.end(error)
                return
            self._on_sent(found.replica, number, found.next + len(data))
            self._send_run(found, data)

    def _send_run(self, found: _Outgoing, data: bytes) -> None:
        assert found.next is not None
        found.told = self._confirmed()
        found.stream.send(encode_run(found.next, found.told, data))
        found.next += len(data)


class _Outgoing:
    """A slave's stream. `next`: next offset to send; None before the welcome. `told`: confirmed offset it knows."""

    __slots__ = ("next", "replica", "stream", "told")

    def __init__(self, replica: int, stream: ServerStream) -> None:
        self.replica, self.stream = replica, stream
        self.next: int | None = None
        self.told = 0
