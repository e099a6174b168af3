"""Child processes that a parent forks and awaits until they are ready. They end when it does, however it ends."""

from __future__ import annotations

import asyncio
import mmap
import os
import select
import signal
import struct
import time
from collections.abc import Callable
from typing import Final

from entrepot.gateway.service_notification import leave_to_parent

STOPS: Final = (signal.SIGTERM, signal.SIGINT)
MEANWHILE_SECONDS: Final = 0.1
_TIME: Final = struct.Struct("d")


class LifeLine:
    """A pipe that nobody writes to: it ends when every process that holds it has ended."""

    def __init__(self) -> None:
        self._end, self._held = os.pipe2(os.O_CLOEXEC)

    def let_go(self) -> None:
        """Release it in a child."""
        os.close(self._held)

    def stop_at_its_end(self) -> None:
        """Send SIGTERM to this child, which has an event loop, at the end of the life line."""
        asyncio.get_running_loop().add_reader(self._end, self._stop)

    def _stop(self) -> None:
        asyncio.get_running_loop().remove_reader(self._end)
        os.kill(os.getpid(), signal.SIGTERM)


class ProofOfLife:
    """The time of a child's last sign of life, in memory that it shares with its parent. `seconds`: the longest time
    until the next one; None: none is asked for."""

    def __init__(self, seconds: float | None, now: Callable[[], float] = time.monotonic) -> None:
        """`now`: a clock that parent and child have in common."""
        self.seconds, self._now = seconds, now
        self._last = mmap.mmap(-1, _TIME.size)
        self.give()

    def give(self) -> None:
        """Tell that the child lives."""
        _TIME.pack_into(self._last, 0, self._now())

    @property
    def is_overdue(self) -> bool:
        """True once the child has been silent for too long."""
        last: float = _TIME.unpack_from(self._last)[0]
        return self.seconds is not None and self._now() - last > self.seconds


def start_child(
    work: Callable[[int], int], is_known: Callable[[int], object], meanwhile: Callable[[], object] = lambda: None
) -> bool:
    """Fork a child; return True once it is ready, False if it ended before. `meanwhile` is called while it starts.

    `work` runs in the child: it writes a byte to the descriptor once it is ready, and returns the exit code. `is_known`
    gets the process id before this process takes a signal to stop.
    """
    ready_read, ready_write = os.pipe2(os.O_CLOEXEC)
    signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)  # until the child is known, and has handlers of its own
    pid = os.fork()
    if pid == 0:
        os.close(ready_read)
        code = 1
        try:
            _forget_parent()
            code = work(ready_write)
        finally:
            os._exit(code)
    os.close(ready_write)
    is_known(pid)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)
    try:
        while not select.select([ready_read], [], [], MEANWHILE_SECONDS)[0]:
            meanwhile()
        return os.read(ready_read, 1) == b"1"  # only the end of the pipe comes where it has ended
    finally:
        os.close(ready_read)


def _forget_parent() -> None:
    """Release the parent's own inheritance: process group, signal handlers and wake-up descriptor."""
    leave_to_parent()
    os.setpgid(0, 0)  # the parent passes on a terminal's Ctrl-C
    signal.set_wakeup_fd(-1)
    for number in (*STOPS, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)
