"""Processes that a parent forks and waits for until they are ready.  They end when it does, however that ends."""

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
        """In a child: hold it no more."""
        os.close(self._held)

    def stop_at_its_end(self) -> None:
        """In a child with an event loop: be told to stop when nobody holds it any more."""
        asyncio.get_running_loop().add_reader(self._end, self._stop)

    def _stop(self) -> None:
        asyncio.get_running_loop().remove_reader(self._end)
        os.kill(os.getpid(), signal.SIGTERM)


def start_child(work: Callable[[int], int], is_known: Callable[[int], object]) -> bool:
    """Fork, and wait until the child is ready; returns whether it is, and has not ended before.

    `work` is what the child does: it writes a byte to the descriptor once it is ready, and returns the exit code.
    `is_known` gets the process id before this process takes a signal to stop.
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
        return os.read(ready_read, 1) == b"1"  # nothing but the end of the pipe where it has ended
    finally:
        os.close(ready_read)


def _forget_parent() -> None:
    """Let go of what a child inherits and is the parent's alone."""
    os.setpgid(0, 0)  # a terminal's Ctrl-C is the parent's to pass on
    signal.set_wakeup_fd(-1)
    for number in (*STOPS, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)
