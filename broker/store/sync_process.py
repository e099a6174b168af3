"""The flusher: a small process that has the store's files open too and calls fdatasync when asked.

A thread in the store's own process would have to win the GIL back after each sync, and starves.  fdatasync covers a
file whoever wrote it; each file stays open here from its first sync on, and the kernel reports a write-back error that
nobody has seen yet to whoever syncs next.  Run as a script by `sync_channel.ProcessSyncChannel`, with isolated Python
and nothing but the standard library imported.  It ends when its parent does (end of file on the socket).

Wire: request = u32 length, then lines: `sync` or `publish`, then paths.
Reply = i32: 0, or the errno.  Requests of one socket are answered in order.  There are two sockets, served by two
threads: group commits must not wait for a checkpoint.

    sync     fdatasync every path (a directory: fsync)
    publish  fdatasync every path but the last two; then move the first of these over the second, both made durable.
             A path that is gone is passed over: a checkpoint's queue file, of a topic deleted meanwhile
"""

from __future__ import annotations

import os
import socket
import struct
import sys
import threading

MAX_OPEN = 64
MAX_LINKED = 100_000


class Files:
    """Descriptors by path, a few at a time.  A file met for the first time has its directory synced as well."""

    def __init__(self) -> None:
        self._open: dict[str, int] = {}
        self._linked: set[str] = set()  # paths whose directory was synced since they were there

    def sync(self, path: str) -> None:
        descriptor = self._open.get(path)
        if descriptor is None:
            descriptor = os.open(path, os.O_RDONLY)
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


def sync_file(path: str) -> None:
    """Make a file durable that will not keep its name."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fdatasync(descriptor)
    finally:
        os.close(descriptor)


def sync_directory(path: str) -> None:
    descriptor = os.open(path or ".", os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def carry_out(files: Files, verb: str, paths: list[str]) -> int:
    """Do one request; returns 0 or the errno of the first failure."""
    try:
        if verb == "publish":
            *others, draft, final = paths
            for path in others:
                try:
                    files.sync(path)
                except FileNotFoundError:
                    pass
                finally:
                    files.forget(path)
            sync_file(draft)
            os.replace(draft, final)
            sync_directory(os.path.dirname(final))
        else:
            for path in paths:
                files.sync(path)
    except OSError as error:
        return error.errno or -1
    return 0


def receive_exactly(channel: socket.socket, length: int) -> bytes:
    data = b""
    while len(data) < length:
        try:
            more = channel.recv(length - len(data))
        except ConnectionResetError:  # the parent went while an answer was on its way
            more = b""
        if not more:
            return b""
        data += more
    return data


def serve(channel: socket.socket) -> None:
    files = Files()
    while head := receive_exactly(channel, 4):
        verb, *paths = receive_exactly(channel, struct.unpack(">I", head)[0]).decode().split("\n")
        channel.sendall(struct.pack(">i", carry_out(files, verb, paths)))


def main() -> None:
    log_socket, background_socket = (socket.socket(fileno=int(number)) for number in sys.argv[1:3])
    threading.Thread(target=serve, args=(background_socket,), daemon=True).start()
    serve(log_socket)


if __name__ == "__main__":
    main()
