"""Words to the service manager that started this process: sd_notify(3) of systemd. Without one, nothing is said.

`NOTIFY_SOCKET` names the manager's socket. `WATCHDOG_USEC` is the time in which it wants to hear that the process
lives, or it restarts the process. Only the process that it started speaks: a child calls `leave_to_parent` first.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable, Mapping
from typing import Final

import structlog

from entrepot.domain.printable import printable

SEND_SECONDS: Final = 1.0
"""Longest wait for a manager that does not read. A sign of life does not wait at all: the next one follows."""
MAX_STATUS: Final = 1000
"""Characters of a status."""
_SOCKET: Final = "NOTIFY_SOCKET"
_WATCHDOG: Final = ("WATCHDOG_USEC", "WATCHDOG_PID")

log = structlog.get_logger(__name__)


def notify_ready(addresses: Mapping[str, str]) -> None:
    """Every listener is open: `systemctl start` returns."""
    where = ", ".join(f"{door} {address}" for door, address in addresses.items())
    _send("READY=1", _status(f"serving {where}"))


def notify_status(text: str) -> None:
    """Tell what the process does now, for people."""
    _send(_status(text))


def notify_stopping(code: int) -> None:
    """The process will end with this exit code, once it has drained."""
    _send("STOPPING=1", _status("draining" if code == 0 else "ending after a failure: the log tells of it"))


def notify_alive() -> None:
    """The process does its work: the watchdog's time begins anew."""
    _send("WATCHDOG=1", waits=False)


def watchdog_seconds() -> float | None:
    """The time in which the service manager wants a sign of life from this process; None if it wants none."""
    usec, pid = (os.environ.get(name, "") for name in _WATCHDOG)
    if not usec.isdecimal() or int(usec) == 0 or (pid and pid != str(os.getpid())):
        return None
    return int(usec) / 1e6


def keep_alive(seconds: float | None, tell: Callable[[], object]) -> None:
    """Call `tell` twice in each of `seconds`, from the running event loop: as long as the loop turns. None: never."""
    if seconds is None:
        return
    loop, pause = asyncio.get_running_loop(), seconds / 2

    def turn() -> None:
        loop.call_later(pause, turn)
        tell()

    turn()


def leave_to_parent() -> None:
    """Say nothing from now on, in this process and its children."""
    for name in (_SOCKET, *_WATCHDOG):
        os.environ.pop(name, None)


def _status(text: str) -> str:
    return f"STATUS={printable(text)[:MAX_STATUS]}"


def _send(*lines: str, waits: bool = True) -> None:
    name = os.environ.get(_SOCKET, "")
    if not name:
        return
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
            channel.settimeout(SEND_SECONDS if waits else 0.0)
            channel.sendto("\n".join(lines).encode(), _address(name))
    except (OSError, ValueError) as error:
        log.warning("the service manager cannot be told", seldom="notify", address=name, error=str(error))


def _address(name: str) -> bytes:
    """The address of a Unix socket: a path, or `@` and the name of an abstract one. Raises ValueError."""
    if name.startswith("@"):
        return b"\0" + os.fsencode(name[1:])
    if not name.startswith("/"):
        raise ValueError("it is neither a path nor an abstract socket")
    return os.fsencode(name)
