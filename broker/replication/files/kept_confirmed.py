"""KeptConfirmed: the confirmed offset of a replica's log, on its disk (`confirmed`).

A replica that comes back knows by it what it must never give up: it stops where its master has less, and does not cut.
Rows know only an earlier offset, that of their last checkpoint. The file is written behind: what was confirmed in the
last moments before a crash is not in it. Controllers have heard of that (`domain/replication/lost_ends.py`).

Overwritten in place, in one sector: with a checksum, as a power loss may tear it. Then it says nothing.
"""

from __future__ import annotations

import asyncio
import os
import threading
import zlib
from pathlib import Path
from typing import Final

import structlog

from entrepot.broker.store.private_files import open_private
from entrepot.broker.store.small_files import sync_directory
from entrepot.domain.background import background

FILE: Final = "confirmed"
KEEP_SECONDS: Final = 0.25
"""Interval between two writes while it moves, in seconds."""
log = structlog.get_logger(__name__)


class KeptConfirmed:
    """The file of one data directory. `kept`: the offset on the disk."""

    def __init__(self, data_dir: Path) -> None:
        self.path = data_dir / FILE
        self.kept = self._wanted = self._load()
        self._timer: asyncio.TimerHandle | None = None
        self._writing: asyncio.Task[None] | None = None
        self._lock = threading.Lock()
        self._problem = ""

    @property
    def known(self) -> int:
        """The last offset, on the disk or not."""
        return self._wanted

    def _load(self) -> int:
        try:
            offset, _, checksum = self.path.read_bytes().strip().partition(b" ")
            return int(offset) if checksum == _checksum(offset) else 0
        except (FileNotFoundError, ValueError):
            return 0

    def note(self, offset: int) -> None:
        """Have an offset kept, soon."""
        if offset <= self._wanted:
            return
        self._wanted = offset
        if self._timer is None and self._writing is None:
            self._timer = asyncio.get_running_loop().call_later(KEEP_SECONDS, self._write_soon)

    def _write_soon(self) -> None:
        self._timer = None
        self._writing = background(asyncio.get_running_loop()).start("the confirmed offset", self._write())
        self._writing.add_done_callback(self._written)

    async def _write(self) -> None:
        await asyncio.to_thread(self._try_to_put)

    def _written(self, task: asyncio.Task[None]) -> None:
        self._writing = None
        wanted, self._wanted = self._wanted, self.kept
        if not task.cancelled():
            self.note(wanted)

    def _try_to_put(self) -> None:
        problem = ""
        try:
            self._put()
        except OSError as error:
            problem = str(error)
        if problem and problem != self._problem:
            log.error("the confirmed offset is not kept", path=str(self.path), problem=problem)
        self._problem = problem

    def lower(self, to: int) -> None:
        """Give up everything after an offset, durably, before it is cut.  Raises OSError."""
        if max(self.kept, self._wanted) > to:
            with self._lock:
                self._wanted = to
            self._put()

    def close(self) -> None:
        """Keep the last offset, as far as the disk takes it."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._wanted != self.kept:
            self._try_to_put()

    def _put(self) -> None:
        with self._lock:  # a thread may be late: what was given up meanwhile must not come back
            offset, is_new = self._wanted, not self.path.exists()
            text = b"%020d" % offset
            descriptor = open_private(str(self.path), os.O_WRONLY | os.O_CREAT)
            try:
                os.pwrite(descriptor, text + b" " + _checksum(text) + b"\n", 0)
                os.fdatasync(descriptor)
            finally:
                os.close(descriptor)
            if is_new:
                sync_directory(self.path.parent)
            self.kept = offset


def _checksum(text: bytes) -> bytes:
    return b"%08x" % zlib.crc32(text)
