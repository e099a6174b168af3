"""Driver: the one loop between a socket and a conversation.

ADR 6: a conversation (a frontend's side of one connection) decides and the driver acts. It hands over bytes, writes
what is due, and stops reading while producers should pause. Invariant: it reports the end exactly once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from time import perf_counter
from typing import Protocol, cast

import structlog

from entrepot.domain.closing import close_once
from entrepot.domain.descriptors import descriptor_of
from entrepot.gateway.transport.deadlines import DeadlineWheel
from entrepot.gateway.transport.early_bytes import EarlyBytes
from entrepot.gateway.transport.intake import Intake, Place
from entrepot.gateway.transport.source import Source, source_of
from entrepot.protocols.proxy import ProxyHeader

FINISH_SECONDS = 0.25
"""Longest wait for a peer that has said goodbye to close by itself."""
GOODBYE_SECONDS = 5.0
"""Longest time for a peer to read the last bytes before its connection is cut."""

MAX_UNREAD_BYTES = 1 << 20
"""Answers that may wait for a peer that does not read; beyond it, reading from the peer stops."""

LARGE_BYTES = 64 * 1024
TURN_SECONDS = 0.03
"""Longest time to process one read; a longer one, of very many packets, lets other connections have a turn."""

log = structlog.get_logger(__name__)


class Conversation(Protocol):
    """A frontend's side of one connection."""

    def connected(self, driver: Driver) -> None:
        """Take the driver of the new connection."""

    def received(self, data: bytes, now: float) -> None:
        """Take bytes from the peer."""

    def data_to_send(self) -> bytes:
        """Return the bytes that are due."""

    def writable(self) -> None:
        """Continue after the write buffer has drained."""

    def deadline(self) -> float:
        """Time to call `timed_out`; infinity for never."""

    def timed_out(self, now: float) -> None: ...

    def resumed(self, now: float) -> None:
        """Note the end of a pause in reading that was not the peer's doing."""

    def overburdened(self) -> None:
        """Say goodbye and close: too many bytes before the login, by this connection or by all such together."""

    def lost(self) -> None:
        """Note the end of the connection; called once."""


@dataclass(frozen=True, slots=True)
class ListenerTerms:
    """Parts shared by all connections of one listener. `name` is the listener's, as in the ready file; `write_limit` is
    the most bytes that may wait for one socket."""

    name: str
    converse: Callable[[], Conversation]
    """Makes the conversation of a new connection: the client's time for its CONNECT begins here."""
    loop: asyncio.AbstractEventLoop
    wheel: DeadlineWheel
    intake: Intake
    write_limit: int
    early: EarlyBytes
    """Bytes of connections before their login, over all listeners."""


class Driver(asyncio.Protocol):
    """One connection; `is_congested` while the write buffer is over its limit.

    Deliveries stop at congestion; answers do not. So a peer that sends much and reads nothing is not read either, once
    MAX_UNREAD_BYTES of answers wait. That is its own doing: unlike `is_paused` it does not stop the peer's keep alive.

    `place` is its share of the listener's limits, if an acceptor has claimed one; else the driver asks for it.
    """

    __slots__ = (
        "_congested_from",
        "_conversation",
        "_terms",
        "_early",
        "_ending",
        "_header",
        "_is_behind",
        "_is_choked",
        "_pauses",
        "_place",
        "_transport",
        "is_congested",
        "source",
    )

    source: Source
    """Origin of the connection; set from `connected` on."""

    def __init__(
        self,
        terms: ListenerTerms,
        conversation: Conversation,
        place: Place | None = None,
        header: ProxyHeader | None = None,
    ) -> None:
        self._terms = terms
        self._conversation = conversation
        self._place = place
        self._header = header
        self._transport: asyncio.Transport | None = None
        self._pauses: frozenset[Hashable] = frozenset()
        """Reasons of the conversation not to read."""
        self._is_choked = self._is_behind = False
        """Further reasons not to read: answers that the peer does not read; bytes that were not taken."""
        self._congested_from = 0
        self._early = 0
        """Bytes before the login; negative after it."""
        self._ending: asyncio.TimerHandle | None = None
        self.is_congested = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        terms = self._terms
        stream = cast("asyncio.Transport", transport)  # uvloop's class does not inherit from it
        self.source = source_of(transport, terms.name, self._header)
        self._header = None
        if self._place is None and not self._enter(descriptor_of(transport)):
            stream.abort()
            return
        self._transport = stream
        stream.set_write_buffer_limits(high=terms.write_limit)
        self._conversation.connected(self)
        terms.wheel.add(self._conversation)

    def _enter(self, descriptor: int) -> bool:
        now = self._terms.loop.time()
        self._place = self._terms.intake.enter(now, descriptor)
        return self._place is not None and self._place.claim(self.source.host, now)

    def data_received(self, data: bytes) -> None:
        if self._transport is None:
            return  # refused
        if self._early >= 0 and not self._takes_early(len(data)):
            return
        began = perf_counter() if len(data) >= LARGE_BYTES else 0.0
        if self._hand_over(data):
            self.flush()
            self._look_at_unread()
            if began and perf_counter() - began > TURN_SECONDS:
                self._let_others()

    def _let_others(self) -> None:
        """Pause reading for this turn of the loop, in favour of other connections."""
        if not self._is_behind:
            self._is_behind = True
            self._look_at_reading()
            self._terms.loop.call_soon(self._read_on)

    def _read_on(self) -> None:
        self._is_behind = False
        self._look_at_reading()

    def _takes_early(self, count: int) -> bool:
        """Count bytes before the login; False, with a goodbye to the peer, if there are too many."""
        self._early += count
        if self._terms.early.take(count, self._early):
            return True
        self._terms.intake.refuse("connections that have not logged in hold too much", self.source.host)
        self._conversation.overburdened()
        self.flush()
        return False

    def _look_at_unread(self) -> None:
        """Stop reading once too many answers wait."""
        transport = self._transport
        if not self.is_congested or self._is_choked or transport is None or transport.is_closing():
            return
        if transport.get_write_buffer_size() > self._congested_from + MAX_UNREAD_BYTES:
            self._is_choked = True
            self._look_at_reading()

    def _look_at_reading(self) -> None:
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        if self._pauses or self._is_choked or self._is_behind:
            transport.pause_reading()
        else:
            transport.resume_reading()

    def _hand_over(self, data: bytes) -> bool:
        """Give bytes to the conversation; a failure ends this connection alone and returns False."""
        conversation = self._conversation
        try:
            conversation.received(data, self._terms.loop.time())
        except Exception as error:
            log.exception("a conversation failed", seldom=type(error).__name__)
            self.abort()
            return False
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        if self._place is not None:
            self._place.leave()
        if self._ending is not None:  # the timer would keep the connection in memory
            self._ending.cancel()
        self._release_early()
        if self._transport is not None:
            self._transport = None
            self._pauses = frozenset()
            self._terms.wheel.remove(self._conversation)
            self._conversation.lost()

    def pause_writing(self) -> None:
        self.is_congested = True
        self.delivered()

    def delivered(self) -> None:
        """Note that the last write was a delivery, not an answer."""
        if self.is_congested and self._transport is not None:
            self._congested_from = self._transport.get_write_buffer_size()

    def resume_writing(self) -> None:
        self.is_congested = False
        if self._is_choked:
            self._is_choked = False
            self._look_at_reading()
        self._conversation.writable()
        self.flush()

    # -- what conversations ask for ------------------------------------------------------------------------------

    @property
    def peer(self) -> str:
        """The source's address as text; empty after the end of the connection."""
        return str(self.source) if self._transport is not None else ""

    @property
    def local(self) -> str:
        """The address of this side."""
        name = self._transport.get_extra_info("sockname") if self._transport is not None else None
        return "" if not name else f"{name[0]}:{name[1]}"

    @property
    def write_limit(self) -> int:
        """Bytes that may wait to be written."""
        return self._terms.write_limit

    @property
    def unwritten(self) -> int:
        """Bytes that wait to be written."""
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    def admitted(self) -> None:
        """Note that the client has logged in: the connection is no longer half open."""
        self._release_early()
        if self._place is not None:
            self._place.admitted()

    def _release_early(self) -> None:
        if self._early > 0:
            self._terms.early.release(self._early)
        self._early = -1

    @property
    def is_paused(self) -> bool:
        return bool(self._pauses)

    @property
    def pauses(self) -> frozenset[Hashable]:
        """The conversation's reasons not to read."""
        return self._pauses

    @property
    def is_choked(self) -> bool:
        """True if reading has stopped because the peer does not read its answers."""
        return self._is_choked

    def flush(self) -> None:
        """Write what is due."""
        data = self._conversation.data_to_send()
        if data and self._transport is not None:
            self._transport.write(data)

    def pause_reading(self, reason: Hashable) -> None:
        """Read no more until `resume_reading` has been called with this reason, and with every other one."""
        if reason not in self._pauses and self._transport is not None and not self._transport.is_closing():
            self._pauses |= {reason}
            self._look_at_reading()

    def resume_reading(self, reason: Hashable) -> None:
        """Remove a pause reason; an unknown one is ignored."""
        if reason not in self._pauses:
            return
        self._pauses -= {reason}
        if not self._pauses and self._transport is not None and not self._transport.is_closing():
            self._conversation.resumed(self._terms.loop.time())
            self._look_at_reading()
            self.deadline_moved()

    def deadline_moved(self) -> None:
        """Look at the deadline, which may be sooner than before."""
        if self._transport is not None:
            self._terms.wheel.remove(self._conversation)
            self._terms.wheel.add(self._conversation)

    def close(self) -> None:
        """Write what is due, then close; a peer that reads too slowly loses it."""
        self.flush()
        if self._transport is not None:
            if self._transport.get_write_buffer_size():
                self._end_later(GOODBYE_SECONDS, self.abort)
            close_once(self._transport)

    def finish(self) -> None:
        """Write what is due after the peer's goodbye, and let it close; after FINISH_SECONDS close it here.

        Bytes that it sends meanwhile are read. Unread, or after a close, they would make the kernel reset the
        connection, and the peer might lose the answer to its goodbye.
        """
        self.flush()
        self._end_later(FINISH_SECONDS, self.close)

    def _end_later(self, seconds: float, end: Callable[[], None]) -> None:
        """End the connection after a while, if it has not ended by then."""
        if self._ending is not None:
            self._ending.cancel()
        self._ending = self._terms.loop.call_later(seconds, end)

    def abort(self) -> None:
        """Close at once."""
        if self._transport is not None:
            self._transport.abort()
