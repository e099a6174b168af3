"""SyncChannel: asks for durability and takes the answer.

Each channel has one request under way at a time. An error, or the end of the sync process, is final.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
import subprocess
import sys
from pathlib import Path
from typing import Final, Protocol

from entrepot.domain.errors import StorageFullError, StoreFailedError

NO_ROOM: Final = -errno.ENOSPC
LONGEST_SYNC_SECONDS = 3600.0


class SyncChannel(Protocol):
    """A channel of one request at a time."""

    def fileno(self) -> int:
        """Return a descriptor that is readable when the answer is there."""

    def sync(self, paths: list[str]) -> None:
        """Ask for files to be made durable."""

    def publish(self, paths: list[str], draft: str, final: str) -> None:
        """Ask for files to be made durable, then for `draft` to replace `final`, durably."""

    def commit(self, paths: list[str], state_path: str, changes: bytes) -> None:
        """Ask for files to be made durable, then for the state file's rows to change in one durable transaction."""

    def finish(self) -> None:
        """Take the answer, waiting for it. Raises StorageFullError where a commit found no room: nothing changed, and
        it may be tried again. Raises StoreFailedError for any other error."""

    def close(self) -> None: ...


class ProcessSyncChannel:
    """A channel to the sync process."""

    def __init__(self, channel: socket.socket, process: subprocess.Popen[bytes], *, is_last: bool) -> None:
        self._socket = channel
        self._is_last = is_last
        channel.settimeout(LONGEST_SYNC_SECONDS)  # calls wait, even if the event loop made it non-blocking
        self._process = process

    def fileno(self) -> int:
        return self._socket.fileno()

    def sync(self, paths: list[str]) -> None:
        self._ask("\n".join(("sync", *paths)))

    def publish(self, paths: list[str], draft: str, final: str) -> None:
        self._ask("\n".join(("publish", *paths, draft, final)))

    def commit(self, paths: list[str], state_path: str, changes: bytes) -> None:
        self._ask("\n".join(("commit", *paths, state_path)), changes)

    def finish(self) -> None:
        try:
            answer = self._socket.recv(4)
        except OSError as error:
            raise StoreFailedError(f"the sync process cannot be heard: {error}") from error
        if len(answer) != 4:
            raise StoreFailedError("the sync process has ended")
        (code,) = struct.unpack(">i", answer)
        if code == NO_ROOM:
            raise StorageFullError
        if code:
            raise StoreFailedError(f"making data durable failed: {os.strerror(code)}")

    def close(self) -> None:
        self._socket.close()
        if self._is_last:  # the process ends once both of its sockets are closed
            self._process.wait()

    def _ask(self, text: str, data: bytes = b"") -> None:
        raw = text.encode()
        try:
            self._socket.sendall(b"".join((struct.pack(">II", 4 + len(raw) + len(data), len(raw)), raw, data)))
        except OSError as error:
            raise StoreFailedError(f"the sync process cannot be reached: {error}") from error


def start_sync_process(lock_descriptor: int | None = None) -> tuple[ProcessSyncChannel, ProcessSyncChannel]:
    """Start the process; return its channel for group commits and the one for checkpoints, to be closed first.
    `lock_descriptor`: of the data directory's lock, which the process holds while it lives."""
    ours, theirs = zip(socket.socketpair(), socket.socketpair(), strict=True)
    script = Path(__file__).with_name("sync_process.py")
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", str(script), *(str(s.fileno()) for s in theirs)],
        pass_fds=[*(s.fileno() for s in theirs), *(() if lock_descriptor is None else (lock_descriptor,))],
        stdin=subprocess.DEVNULL,
        start_new_session=True,  # a Ctrl-C at the terminal is for the server, which still has to sync
    )
    for end in theirs:
        end.close()
    return ProcessSyncChannel(ours[0], process, is_last=True), ProcessSyncChannel(ours[1], process, is_last=False)
