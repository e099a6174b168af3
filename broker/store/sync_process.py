"""The flusher: a small process that also has the store's files open and calls fdatasync on request.

A thread in the store's own process would have to win the GIL back after each sync, and starves. fdatasync covers a file
whoever wrote it. Each file stays open here from its first sync on: the kernel reports an unseen write-back error to the
next caller of sync. `sync_channel.ProcessSyncChannel` runs this as a script, with isolated Python and only the
standard library. It ends when its parent does (end of file on the socket).

Wire: request = u32 length, u32 length of the text, the text in lines: `sync`, `publish` or `commit`, then paths; then
bytes (`commit`). Reply = i32: 0, or the errno, or NO_ROOM. Requests of one socket are answered in order. There are
two sockets, served by two threads: group commits must not wait for a checkpoint.

    sync     fdatasync every path (a directory: fsync)
    publish  fdatasync every path but the last two; then move the first of these over the second, both made durable.
    commit   fdatasync every path but the last, which is the state file: change its rows by the bytes, in one
             transaction (`state_file.py`). A missing path is skipped: a queue file of a topic deleted meanwhile
"""

from __future__ import annotations

import errno
import os
import socket
import sqlite3
import struct
import sys
import threading
import time
from collections.abc import Iterator

MAX_OPEN = 64
MAX_LINKED = 100_000
WAIT_SECONDS = 0.05
"""Pause between tries to open a file while the system has no descriptor."""
STATE_VERSION = 1
"""Version of the state file's tables and rows, as in `state_file.py`: nothing of the project is imported here."""
CACHE_KIB = 65_536
"""Memory for pages of the state file, in KiB: the changing rows of many queues are scattered over it."""
NO_ROOM = -errno.ENOSPC
"""Answer to a commit without room: nothing was changed. (A sync without room is an error like any other.)"""


class Files:
    """Descriptors by path, a few at a time. A new file has its directory synced as well."""

    def __init__(self) -> None:
        self._open: dict[str, int] = {}
        self._linked: set[str] = set()  # paths whose directory was synced since they were there

    def sync(self, path: str) -> None:
        descriptor = self._open.get(path)
        if descriptor is None:
            descriptor = open_at_last(path)
            if len(self._open) >= MAX_OPEN:
                os.close(self._open.pop(next(iter(self._open))))
            self._open[path] = descriptor
        if path not in self._linked:
            if len(self._linked) >= MAX_LINKED:
                self._linked.clear()
            self._linked.add(path)
            sync_directory(os.path.dirname(path))
        if os.path.isdir(path):
            os.fsync(descriptor)
        else:
            os.fdatasync(descriptor)

    def forget(self, path: str) -> None:
        descriptor = self._open.pop(path, None)
        if descriptor is not None:
            os.close(descriptor)


class State:
    """The state file, open for writing. After sqlite3.Error the next use opens it anew."""

    def __init__(self) -> None:
        self._connection: sqlite3.Connection | None = None

    def commit(self, path: str, data: bytes) -> None:
        """Change rows as encoded changes state, in one durable transaction."""
        connection = self._connection or self._open(path)
        try:
            connection.execute("BEGIN IMMEDIATE")
            ((rows, total),) = connection.execute("SELECT rows, sum FROM digest").fetchall()
            for key, crc, value in read_changes(data):
                old = connection.execute("SELECT rowid, crc FROM state WHERE key = ?", (key,)).fetchone()
                total ^= old[1] if old else 0
                if value is None:
                    if old:
                        rows -= 1
                        connection.execute("DELETE FROM state WHERE rowid = ?", old[:1])
                    continue
                total ^= crc
                if old:  # keeps its place in the index of keys
                    connection.execute("UPDATE state SET crc = ?, value = ? WHERE rowid = ?", (crc, value, old[0]))
                else:
                    rows += 1
                    connection.execute("INSERT INTO state (key, crc, value) VALUES (?, ?, ?)", (key, crc, value))
            connection.execute("UPDATE digest SET rows = ?, sum = ?", (rows, total))
            connection.execute("COMMIT")
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()  # uncommitted changes are rolled back
            self._connection = None

    def _open(self, path: str) -> sqlite3.Connection:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))  # its journals get the same mode
        connection = self._connection = sqlite3.connect(path, isolation_level=None)
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")  # no shared memory: a full disk has no room for it
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(
            "CREATE TABLE IF NOT EXISTS state (key BLOB PRIMARY KEY, crc INTEGER NOT NULL, value BLOB NOT NULL)"
        )
        connection.execute("CREATE TABLE IF NOT EXISTS digest (rows INTEGER NOT NULL, sum INTEGER NOT NULL)")
        if not connection.execute("SELECT 1 FROM digest").fetchall():
            connection.execute("INSERT INTO digest VALUES (0, 0)")
        connection.execute(f"PRAGMA user_version = {STATE_VERSION}")
        connection.execute("COMMIT")
        return connection


def read_changes(data: bytes) -> Iterator[tuple[bytes, int, bytes | None]]:
    """Yield (key, checksum, value or None) of encoded changes."""
    at = 0
    while at < len(data):
        crc, key_length, length = struct.unpack_from(">IHI", data, at)
        at += 10
        key = data[at : at + key_length]
        at += key_length
        if length == 0xFFFFFFFF:
            yield key, crc, None
        else:
            yield key, crc, data[at : at + length]
            at += length


def open_at_last(path: str) -> int:
    """Open for reading; wait while the system has no descriptor. Nothing is lost by waiting: nothing is confirmed."""
    while True:
        try:
            return os.open(path, os.O_RDONLY)
        except OSError as error:
            if error.errno not in (errno.EMFILE, errno.ENFILE):
                raise
            time.sleep(WAIT_SECONDS)


def sync_file(path: str) -> None:
    """Make a file durable that is about to be renamed."""
    descriptor = open_at_last(path)
    try:
        os.fdatasync(descriptor)
    finally:
        os.close(descriptor)


def sync_directory(path: str) -> None:
    descriptor = open_at_last(path or ".")
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def carry_out(files: Files, state: State, verb: str, paths: list[str], data: bytes) -> int:
    """Do one request; returns 0 or the errno of the first failure."""
    try:
        if verb == "publish":
            *others, draft, final = paths
            for path in others:
                files.sync(path)
            sync_file(draft)
            os.replace(draft, final)
            sync_directory(os.path.dirname(final))
        elif verb == "commit":
            *others, state_path = paths
            for path in others:
                try:
                    files.sync(path)
                except FileNotFoundError:
                    pass
                finally:
                    files.forget(path)
            state.commit(state_path, data)
        else:
            for path in paths:
                files.sync(path)
    except OSError as error:
        return error.errno or -1
    except sqlite3.Error as error:
        return NO_ROOM if "full" in str(error) else errno.EIO
    return 0


def receive_exactly(channel: socket.socket, length: int) -> bytes:
    parts: list[bytes] = []
    while length:
        try:
            more = channel.recv(length)
        except ConnectionResetError:  # the parent ended while an answer was on its way
            more = b""
        if not more:
            return b""
        parts.append(more)
        length -= len(more)
    return b"".join(parts)


def serve(channel: socket.socket) -> None:
    files, state = Files(), State()
    try:
        while head := receive_exactly(channel, 8):
            length, text_length = struct.unpack(">II", head)
            request = receive_exactly(channel, length - 4)
            verb, *paths = request[:text_length].decode().split("\n")
            channel.sendall(struct.pack(">i", carry_out(files, state, verb, paths, request[text_length:])))
    except BrokenPipeError:  # the parent ended before its answer
        pass
    finally:
        state.close()


def main() -> None:
    log_socket, background_socket = (socket.socket(fileno=int(number)) for number in sys.argv[1:3])
    background = threading.Thread(target=serve, args=(background_socket,))
    background.start()
    serve(log_socket)
    background.join()


if __name__ == "__main__":
    main()
