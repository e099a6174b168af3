"""SessionJournal: one writer for the records of all connected sessions, a batch at a time.

A packet that needs a durable record waits here for one write of the store at most; meanwhile other sessions' changes
gather for the next. Each write expects the version of the session's last write, so a session that another gateway took
over is fenced: its write fails, and nothing that waited for it happens.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final, Protocol

import structlog

from entrepot.domain.background import background
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.key_value import KeyValue, KeyValueChange
from entrepot.domain.ports import Store
from entrepot.gateway.messaging.incidents import Incidents, Outcome

MAX_BATCH_SESSIONS: Final = 1000
MAX_BATCH_BYTES: Final = 4 << 20
LAZY_SECONDS: Final = 0.05
"""Longest wait of a lazy write for company (the contract allows an acknowledgement 100 ms)."""
AGAIN_SECONDS: Final = 0.2
"""Pause between tries while the store cannot be reached, or is full."""

PART: Final = "sessions"
"""The sessions' name among incidents."""

log = structlog.get_logger(__name__)


class Journaled(Protocol):
    """A session's records."""

    def take_changes(self) -> list[KeyValueChange]:
        """Return the changes to write now. Not called again before `written` or `fenced`."""

    def written(self, version: int) -> None:
        """Note that the taken changes are durable at this version."""

    def is_own(self, found: Sequence[KeyValue | None]) -> bool:
        """True if the found values are its own, from a write of unknown outcome; it notes their versions."""

    def fenced(self) -> None:
        """Note that another gateway has the session."""

    def refused(self, reason: EntrepotError) -> None:
        """Note that its changes cannot be written, and never will be."""

    @property
    def name(self) -> str: ...

    def __hash__(self) -> int: ...


Part = tuple[Journaled, list[KeyValueChange]]


class SessionJournal:
    """The writer of sessions' records."""

    def __init__(self, store: Store, incidents: Incidents) -> None:
        self._store, self._incidents = store, incidents
        self._dirty: dict[Journaled, None] = {}
        self._lazy: dict[Journaled, None] = {}
        self._task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._is_scheduled = False

    def submit(self, session: Journaled) -> None:
        """Write the session's changes soon."""
        self._dirty[session] = None
        if self._task is None and not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._start)

    def submit_lazily(self, session: Journaled) -> None:
        """Write the changes with the next write, or a little later."""
        self._lazy[session] = None
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(LAZY_SECONDS, self._lazy_due)

    async def settle(self) -> None:
        """Return when everything submitted is written, or was given up."""
        self._lazy_due()
        while self._dirty or self._task is not None:
            if self._task is None:
                self._start()
            assert self._task is not None
            await asyncio.shield(self._task)

    def _lazy_due(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        lazy, self._lazy = self._lazy, {}
        for session in lazy:
            self.submit(session)

    def _start(self) -> None:
        self._is_scheduled = False
        if self._task is None and self._dirty:
            self._task = background().keep("writes of sessions", self._run)

    async def _run(self) -> None:
        while self._dirty:
            await self._write(self._take_batch())
        self._task = None

    def _take_batch(self) -> list[Part]:
        parts: list[Part] = []
        size = 0
        for session in list(self._dirty):
            if len(parts) >= MAX_BATCH_SESSIONS or size >= MAX_BATCH_BYTES:
                break
            del self._dirty[session]
            self._lazy.pop(session, None)
            try:
                changes = session.take_changes()
            except Exception as fault:  # noqa: BLE001 - a fault of one session: the others are written
                self._set_aside(session, fault)
                continue
            if changes:
                parts.append((session, changes))
                size += sum(len(change.value or b"") for change in changes)
        return parts

    async def _write(self, parts: list[Part]) -> None:
        """Write all parts; one that is fenced, or cannot be written, does not hurt the others."""
        while parts:
            try:
                version = await self._store.key_values.write([change for _, changes in parts for change in changes])
            except Exception as error:  # noqa: BLE001 - a fault of ours, too: of one session, as a rule
                parts = await self._left_after(error, parts)
                continue
            for session, _ in parts:
                try:
                    session.written(version)
                except Exception as fault:  # noqa: BLE001 - a fault of one session: the others are told
                    self._set_aside(session, fault)
            return

    async def _left_after(self, error: Exception, parts: list[Part]) -> list[Part]:
        """Handle a write that failed; return the parts to write again."""
        refusal = error if isinstance(error, EntrepotError) else None
        if self._store.condition.failure is not None:
            log.error("sessions cannot be written", sessions=len(parts), problem=str(error))
            for session, _ in parts:
                self._refuse(session, refusal or self._store.condition.failure)
            return []
        if refusal is not None and refusal.code not in (Code.PRECONDITION_FAILED, Code.BAD_REQUEST):
            log.warning("sessions wait to be written", sessions=len(parts), problem=refusal.message)
            await asyncio.sleep(AGAIN_SECONDS)
            return parts
        if len(parts) > 1:
            middle = len(parts) // 2
            await self._write(parts[:middle])
            return parts[middle:]
        if refusal is None:
            self._set_aside(parts[0][0], error)
            return []
        if refusal.code is Code.PRECONDITION_FAILED:
            return await self._adopted(parts[0])
        log.error("a session cannot be written", session=parts[0][0].name, problem=refusal.message)
        self._refuse(parts[0][0], refusal)
        return []

    def _set_aside(self, session: Journaled, fault: Exception) -> None:
        """Give up a session whose own handling failed: nobody can say what its record would be."""
        reason = f"a session was not written: {type(fault).__name__}: {fault}"
        self._incidents.note(PART, Outcome.SET_ASIDE, reason, place=session.name, fault=fault)
        self._refuse(session, EntrepotError(Code.INTERNAL_ERROR, "the session cannot be written"))

    def _refuse(self, session: Journaled, reason: EntrepotError) -> None:
        try:
            session.refused(reason)
        except Exception as fault:  # noqa: BLE001 - a fault of one session: the others go on
            self._incidents.note(
                PART, Outcome.SET_ASIDE, "the end of a session failed", place=session.name, fault=fault
            )

    async def _adopted(self, part: Part) -> list[Part]:
        """The part to write again after a conflict of versions; none if the session is another's, or was set aside."""
        session = part[0]
        try:
            return [(session, session.take_changes())] if await self._adopt(part) else []
        except Exception as fault:  # noqa: BLE001 - a fault of one session: the others are written
            self._set_aside(session, fault)
            return []

    async def _adopt(self, part: Part) -> bool:
        """Handle a conflict of versions: the session's own earlier write of unknown outcome, or another gateway's."""
        session, changes = part
        while (found := await self._found(changes)) is None:
            if self._store.condition.failure is not None:
                session.fenced()
                return False
            await asyncio.sleep(AGAIN_SECONDS)
        if session.is_own(found):
            return True
        session.fenced()
        return False

    async def _found(self, changes: list[KeyValueChange]) -> list[KeyValue | None] | None:
        try:
            return await self._store.key_values.get([change.key for change in changes])
        except Exception as error:  # noqa: BLE001 - whatever it was, the next question may do better
            log.warning("a session's record cannot be read now", seldom="sessions", problem=str(error))
            return None
