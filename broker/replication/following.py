"""Following: a slave's connection to its master, and the stream over it.

It stays connected to the master that the machine follows, and greets again whenever the stream has ended. The machine
decides on everything received.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

import structlog

from entrepot.broker.remoting.link import ClientStream, Link, LinkSettings
from entrepot.broker.replication.files.runs import WELCOME_ITEM, Run, decode_runs
from entrepot.domain.background import background
from entrepot.domain.errors import Code, CorruptedError, EntrepotError
from entrepot.domain.replication.control import NEVER
from entrepot.domain.replication.greeting import Greeting, Welcome
from entrepot.protocols.wire import operations as wire
from entrepot.protocols.wire.values import Codec

AGAIN_SECONDS: Final = 0.2
"""Pause before a master that refused, or broke off, is greeted again, in seconds."""
MOST_AGAIN_SECONDS: Final = 10.0
"""Longest pause before a master that sent a corrupted record is greeted again, in seconds."""
ASK_SECONDS: Final = 5.0
PART_SECONDS: Final = 1.0
"""Longest time for which a stopping slave waits for its master to know, in seconds."""
CHECKED_BYTES: Final = 1 << 20
"""Bytes of the log after a received corrupted record that the master checks, too."""
_WELCOME: Final[Codec[tuple[int, Welcome]]] = Codec(tuple[int, Welcome])
log = structlog.get_logger(__name__)


class Following:
    """A connection. `prepare` makes a missing store ready from the master's seed; `greet` gives the greeting.
    `on_welcome`, `on_runs`, `on_lost`: its results. `segment_size`: of the log."""

    def __init__(
        self,
        settings: LinkSettings,
        *,
        prepare: Callable[[wire.StoreSeed | None], Awaitable[bool]],
        greet: Callable[[], Greeting],
        on_welcome: Callable[[Welcome], None],
        on_runs: Callable[[list[Run]], None],
        on_lost: Callable[[], None],
        segment_size: Callable[[], int],
    ) -> None:
        self._settings = settings
        self._prepare, self._greet = prepare, greet
        self._on_welcome, self._on_runs, self._on_lost = on_welcome, on_runs, on_lost
        self._segment_size = segment_size
        self._loop = asyncio.get_running_loop()
        self._link: Link | None = None
        self._stream: ClientStream | None = None
        self._number = 0
        self._joining: asyncio.Task[None] | None = None
        self._again: asyncio.TimerHandle | None = None
        self._closing: set[asyncio.Task[None]] = set()
        self._is_held = False
        self._corrupted_pause = 0.0
        self.problem = ""

    @property
    def silence(self) -> float:
        """Seconds since the master was heard; `NEVER` where no connection is up."""
        return NEVER if self._link is None else min(self._link.silence, NEVER)

    def hold(self) -> None:
        """End the stream, and greet nobody until `go_on`: the log is copied from elsewhere."""
        self._is_held = True
        self._end_stream()
        self._on_lost()

    def go_on(self) -> None:
        self._is_held = False
        self._join()

    def follow(self, address: str) -> None:
        """Follow the master at an address from now on."""
        if self._link is None or self._link.address != address:
            self.unfollow()
            self._link = Link(address, self._settings, on_up=self._join)
            self._link.start()
        elif self._link.is_up:
            self._end_stream()
            self._join()

    def unfollow(self) -> None:
        """Follow nobody; records still under way do not come any more."""
        self._end_stream()
        link, self._link = self._link, None
        if link is not None:
            closing = background(self._loop).start("close of a link", link.close())
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)

    def _end_stream(self) -> None:
        if self._joining is not None:
            self._joining.cancel()
            self._joining = None
        if self._again is not None:
            self._again.cancel()
            self._again = None
        stream, self._stream = self._stream, None
        if stream is not None and self._link is not None:
            self._link.close_stream(stream)

    async def part(self, replica: int) -> None:
        """Tell the master that this replica stops, so that nothing waits a lease for it."""
        link = self._link
        if link is not None and await link.wait_up(PART_SECONDS):
            with suppress(EntrepotError):  # then it is missed
                await link.ask(wire.PART, replica, seconds=PART_SECONDS)

    async def close(self) -> None:
        self.unfollow()
        await asyncio.gather(*self._closing, return_exceptions=True)

    # -- joining -------------------------------------------------------------------------------------------------

    def _join(self) -> None:
        self._again = None
        is_idle = self._joining is None and self._stream is None and not self._is_held
        if is_idle and self._link is not None and self._link.is_up:
            self._joining = background(self._loop).start("greeting of the master", self._greet_master(self._link))

    async def _greet_master(self, link: Link) -> None:
        try:
            if not await self._prepare(None):
                await self._prepare(await link.ask(wire.SEED, seconds=ASK_SECONDS))
            self._joining = None
            operation = wire.REPLICATE
            self._stream = link.open_stream(
                operation, operation.encode_arguments(*self._greet()), self._item, self._ended
            )
            self.problem = ""
        except EntrepotError as error:
            self._joining = None
            self._try_again(error)
        except Exception as error:  # such as a disk without room for a new store
            self._joining = None
            log.exception("could not follow the master")
            self._try_again(EntrepotError(Code.INTERNAL_ERROR, str(error)))

    def _try_again(self, error: EntrepotError, pause: float = AGAIN_SECONDS) -> None:
        if error.message != self.problem:
            self.problem = error.message
            log.warning("could not follow the master", problem=error.message)
        if self._link is not None and self._again is None:
            self._again = self._loop.call_later(pause, self._join)

    def _ended(self, error: EntrepotError) -> None:
        self._stream = None
        self._on_lost()
        self._try_again(error)

    # -- the stream ----------------------------------------------------------------------------------------------

    def _item(self, item: bytes) -> None:
        if item[:1] == WELCOME_ITEM:
            self._number, welcome = _WELCOME.decode(item[1:])
            self._on_welcome(welcome)
            return
        try:
            self._on_runs(decode_runs(item, self._segment_size()))
        except CorruptedError as error:
            self._have_checked(error)
            self._end_stream()
            self._on_lost()
            self._corrupted_pause = min(max(2 * self._corrupted_pause, AGAIN_SECONDS), MOST_AGAIN_SECONDS)
            self._try_again(error, self._corrupted_pause)
        else:
            self._corrupted_pause = 0.0

    def _have_checked(self, error: CorruptedError) -> None:
        """Have the master check its own disk for the corrupted record: then it heals it."""
        place = error.commit_log_offset
        if place is not None and self._link is not None and self._link.is_up:
            payload = wire.CHECK_LOG.encode_arguments(place - place % self._segment_size(), place + CHECKED_BYTES)
            self._link.send(wire.CHECK_LOG, payload, ASK_SECONDS, lambda error, answer: None)

    def acknowledge(self, replica: int, end: int) -> None:
        """Tell the master the synced end of the log."""
        if self._link is not None and self._stream is not None:
            payload = wire.HAVE.encode_arguments(replica, self._number, end)
            self._link.send(wire.HAVE, payload, ASK_SECONDS, lambda error, answer: None)
