"""BackupRun: the backup that a broker makes of itself, when an operator asks for it.

It is made in a thread, beside the broker, from its files, as the command does it. All brokers of a cluster asked at one
time have moments close to each other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from entrepot.broker.settings.backup import BackupSettings
from entrepot.domain.background import background
from entrepot.domain.backups import BackupStatus
from entrepot.domain.clock import Clock
from entrepot.domain.errors import Code, EntrepotError

if TYPE_CHECKING:
    from entrepot.broker.backup.saving import Saved

log = structlog.get_logger(__name__)


class BackupRun:
    """The runs of one broker. `name`: of the broker, and of its place below the settings' one. `confirmed`: returns the
    confirmed end of its log."""

    def __init__(
        self, settings: BackupSettings, data_dir: Path, name: str, clock: Clock, confirmed: Callable[[], int]
    ) -> None:
        self._settings, self._data_dir, self._clock, self._confirmed = settings, data_dir, clock, confirmed
        self._status = BackupStatus(name, settings.place)
        self._is_closed = False

    async def ask(self, is_to_start: bool) -> BackupStatus:
        """Return the state, of a new run if it is to start and none is under way. Raises PRECONDITION_FAILED without a
        place."""
        if not self._settings.place:
            raise EntrepotError(
                Code.PRECONDITION_FAILED, f"broker {self._status.broker!r} has no place for a backup (backup.place)"
            )
        if is_to_start and not self._status.is_running and not self._is_closed:
            began_ms, end = self._clock.now_ms(), self._confirmed()
            self._status = BackupStatus(self._status.broker, self._settings.place, began_ms, is_running=True)
            background().start("backup", self._run(end))
        return self._status

    def close(self) -> None:
        """End a run under way before its next part, which nobody waits for: the place has the backup before."""
        self._is_closed = True

    async def _run(self, end: int) -> None:
        status = self._status._replace(is_running=False)
        try:
            saved = await asyncio.to_thread(self._save, end)
        except (EntrepotError, OSError) as error:
            problem = error.message if isinstance(error, EntrepotError) else str(error)
            log.error("the backup failed", place=status.place, problem=problem)
            self._status = status._replace(problem=problem)
        except BaseException as error:
            self._status = status._replace(problem=f"{type(error).__name__}: {error}")
            raise
        else:
            found = saved.manifest
            log.info("backup finished", place=status.place, end=found.end, copied_bytes=saved.copied_bytes)
            self._status = status._replace(
                begin=found.begin,
                end=found.end,
                taken_ms=found.taken_ms,
                copied_bytes=saved.copied_bytes,
                key=found.key,
            )

    def _save(self, end: int) -> Saved:
        from entrepot.broker.backup.saving import save
        from entrepot.broker.backup.sealing import seal_of
        from entrepot.broker.backup.target import check_sealed, open_target
        from entrepot.broker.tiered.store_options import StoreOptions

        settings = self._settings
        check_sealed(settings.place, is_sealed=settings.key_file is not None, is_plain=settings.is_plain)
        seal = None if settings.key_file is None else seal_of(settings.key_file)
        options = StoreOptions(endpoint=settings.endpoint, region=settings.region, allow_http=settings.allow_http)
        target = open_target(settings.place, options, seal, is_new=True).at(self._status.broker)
        return save(self._data_dir, target, self._clock.now_ms(), self._check_open, end)

    def _check_open(self) -> None:
        if self._is_closed:
            raise EntrepotError(Code.UNAVAILABLE, "the broker stops: the backup is the one before")
