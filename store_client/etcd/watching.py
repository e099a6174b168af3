"""Watch: one watcher of a prefix, on a stream of its own, which is opened again whenever it ends.

Invariants: a write is told once, whole, after all earlier ones; none is left out between two calls of `on_begun`.  So a
new stream goes on behind the last revision told.  The watch begins anew in two cases alone: etcd has compacted that
revision away, or has been restored to an older one.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterable
from typing import Final

import grpc
import grpc.aio
import structlog

from entrepot.domain.background import background
from entrepot.domain.errors import EntrepotError
from entrepot.domain.key_value import KeyValueEvent, OnEvents
from entrepot.protocols.etcd import kv_pb2 as kv
from entrepot.protocols.etcd import rpc_pb2 as pb
from entrepot.store_client.etcd.calls import RANGE, Broken, WatchStream, broken
from entrepot.store_client.etcd.members import Members
from entrepot.store_client.etcd.refusals import is_about_token
from entrepot.store_client.etcd.requests import Keys, end_of

PAUSE_SECONDS: Final = 0.1
"""Pause before a stream is opened again."""
SETTLE_SECONDS: Final = 1.0
"""Time for a watcher to learn what there is, once the watch has begun anew: until then it is as old as before."""
SILENT_PROBES: Final = 2
"""Questions in a row after which a stream without any answer is given up."""
log = structlog.get_logger(__name__)


class Watch:
    """One watcher.  `tried` is set once it has begun, or has failed once; `current_at`: time up to which it has told
    everything."""

    def __init__(
        self, members: Members, keys: Keys, prefix: str, on_events: OnEvents, on_begun: Callable[[], None]
    ) -> None:
        self._members, self._keys, self._prefix = members, keys, prefix
        self._on_events, self._on_begun = on_events, on_begun
        self._loop = asyncio.get_running_loop()
        self.tried = asyncio.Event()
        self.current_at = self._loop.time()
        self._next = 0
        """Revision from which on a stream is wanted; 0: a new beginning."""
        self._cluster = 0
        self._begun_at = self.current_at
        self._stream: WatchStream | None = None
        self._is_open = False
        self._token = ""
        self._kept: list[kv.Event] = []
        """Events of a response whose other fragments are on their way."""
        self._sought: tuple[float, int] | None = None
        """Time and revision of the last question for progress."""
        self._unanswered = 0
        self._is_told = False
        """True once the log has an end of a stream that has not begun again."""
        self._is_closed = False
        self._work = background().keep("watches of etcd", self._run)

    def move(self) -> None:
        """End the stream; the next one is at the present member."""
        if self._stream is not None:
            self._stream.cancel()

    def close(self) -> None:
        """Tell nothing any more, also not from within a callback."""
        self._is_closed = True
        self.tried.set()
        self._work.cancel()

    # -- the stream ----------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        while True:
            turn = self._members.turn
            try:
                await self._follow()
            except EntrepotError as error:
                self._failed(error.message)
            except (Broken, grpc.RpcError, asyncio.InvalidStateError) as error:
                found = broken(error) if isinstance(error, grpc.RpcError) else error
                self._failed(str(found))
                self._members.leave(turn)
            except asyncio.CancelledError:
                task = asyncio.current_task()
                if task is None or task.cancelling():
                    raise
            finally:
                self._close_stream()
            self.tried.set()
            await asyncio.sleep(PAUSE_SECONDS)

    def _failed(self, text: str) -> None:
        if is_about_token(text):
            self._members.forget(self._token)
        if not self._is_told:
            log.warning("a watch of etcd ended; will retry", prefix=self._prefix, problem=text[:300])
            self._is_told = True

    def _close_stream(self) -> None:
        if self._stream is not None:
            self._stream.cancel()
        self._stream, self._is_open, self._sought = None, False, None
        self._kept, self._unanswered = [], 0

    async def _follow(self) -> None:
        start = await self._start()
        stream, self._token = await self._members.watch()
        self._stream = stream
        key = self._keys.stored(self._prefix)
        wanted = pb.WatchCreateRequest(
            key=key, range_end=end_of(key), start_revision=start, fragment=True, progress_notify=True
        )
        await stream.write(pb.WatchRequest(create_request=wanted))
        async for answer in stream:
            self._unanswered = 0
            if answer.canceled:
                self._canceled(answer)
                return
            if answer.created:
                self._created(start)
            self._take(answer)

    async def _start(self) -> int:
        """Return the revision to watch from: the next one to tell, or that of a new beginning."""
        question = pb.RangeRequest(key=self._keys.stored(""), count_only=True)
        header = (await self._members.ask(RANGE, question, patience=0.0)).header
        is_restored = self._cluster not in (0, header.cluster_id) or header.revision < self._next - 1
        if self._next and is_restored:
            log.warning("etcd was restored to an older state; a watch begins anew", prefix=self._prefix)
            self._next = 0
        self._cluster = header.cluster_id
        return self._next or header.revision + 1

    def _created(self, start: int) -> None:
        self._is_open, self._is_told = True, False
        if not self._next:
            self._next, self._begun_at = start, self._loop.time()
            self._call(self._on_begun)
        self.tried.set()

    def _canceled(self, answer: pb.WatchResponse) -> None:
        if answer.compact_revision:
            log.warning("etcd has compacted what a watch had not told; it begins anew", prefix=self._prefix)
            self._next = 0
        else:
            self._failed(answer.cancel_reason or "canceled")

    # -- what is told --------------------------------------------------------------------------------------------

    def _take(self, answer: pb.WatchResponse) -> None:
        self._kept += answer.events
        if answer.fragment:
            return
        events, self._kept = self._kept, []
        for revision, group in itertools.groupby(events, lambda event: event.kv.mod_revision):
            if revision >= self._next:
                self._next = revision + 1
                self._tell(revision, group)
        if not events and not answer.created:  # progress: all up to this revision was told
            self._next = max(self._next, answer.header.revision + 1)
        self._look()

    def _tell(self, revision: int, group: Iterable[kv.Event]) -> None:
        events = [
            KeyValueEvent(self._keys.plain(e.kv.key), None if e.type == kv.Event.DELETE else e.kv.value, revision)
            for e in group
        ]
        self._call(lambda: self._on_events(events))

    def _call(self, told: Callable[[], None]) -> None:
        try:
            if not self._is_closed:
                told()
        except Exception:  # a fault of the watcher: others go on
            log.exception("a watcher of key-values failed; others go on", prefix=self._prefix)

    # -- is it current -------------------------------------------------------------------------------------------

    async def probe(self, asked_at: float, revision: int) -> None:
        """Learn whether all up to `revision` is told, which was the newest one at `asked_at`.  A stream that answers
        no such question is given up."""
        stream = self._stream
        if stream is None:
            return
        self._sought = asked_at, revision
        if self._is_open and self._look():
            return
        self._unanswered += 1
        if self._unanswered > SILENT_PROBES:
            self.move()
        if self._unanswered > SILENT_PROBES or not self._is_open:
            return
        try:
            await stream.write(pb.WatchRequest(progress_request=pb.WatchProgressRequest()))
        except (grpc.RpcError, asyncio.InvalidStateError):
            self.move()  # it has ended: its reader knows as well

    def _look(self) -> bool:
        if self._sought is None or self._next <= self._sought[1]:
            return False
        asked_at, self._sought = self._sought[0], None
        if asked_at >= self._begun_at + SETTLE_SECONDS:
            self.current_at = max(self.current_at, asked_at)
        return True
