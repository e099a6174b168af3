"""Child processes that a parent forks and awaits until they are ready. They end when it does, however it ends."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from typing import Final

STOPS: Final = (signal.SIGTERM, signal.SIGINT)


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


def start_child(work: Callable[[int], int], is_known: Callable[[int], object]) -> bool:
    """Fork a child; return True once it is ready, False if it ended before.

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
        return os.read(ready_read, 1) == b"1"  # only the end of the pipe comes where it has ended
    finally:
        os.close(ready_read)


def _forget_parent() -> None:
    """Release the parent's own inheritance: process group, signal handlers and wake-up descriptor."""
    os.setpgid(0, 0)  # the parent passes on a terminal's Ctrl-C
    signal.set_wakeup_fd(-1)
    for number in (*STOPS, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)
