"""The process of a forgetful disk: a file system in memory, mounted by the kernel's FUSE protocol.

It is told by lines on its standard input, and ends, unmounted, when that does.  Writes come here before they are
answered, as nothing is cached to be written later; locks and mapped files are the kernel's own work.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import select
import stat
import struct
import sys
import traceback
from collections.abc import Callable
from random import Random
from typing import Any, Final

from tests.support.brokers.forgetful_tree import Node, Tree

MAX_WRITE: Final = 1 << 20
_SPACE: Final = 1 << 40
_BLOCK: Final = 4096
_KNOWN_SECONDS: Final = 3600
"""Validity of what the kernel was told: nobody else changes anything."""
_MINOR: Final = 31
_ASYNC_READ, _BIG_WRITES, _PARALLEL_DIROPS, _MAX_PAGES = 1 << 0, 1 << 5, 1 << 18, 1 << 22
_SET_MODE, _SET_UID, _SET_GID, _SET_SIZE, _SET_ATIME, _SET_MTIME = 1, 2, 4, 8, 16, 32
_RENAME_NOREPLACE: Final = 1
_KEEP_SIZE, _PUNCH_HOLE = 1, 2
_MS_NOSUID, _MS_NODEV, _MNT_DETACH = 2, 4, 2
_IN: Final = struct.Struct("<IIQQIIIHH")
_OUT: Final = struct.Struct("<IiQ")
_ATTRIBUTES: Final = struct.Struct("<6Q10I")
_STEPS: Final = frozenset({4, 8, 9, 10, 11, 12, 13, 16, 20, 30, 43, 45})
"""Requests that change something, or sync it."""
_SILENT: Final = b"\xff"
"""Stands for no answer."""
Handler = Callable[[Node, memoryview], bytes]


class Mount:
    """A tree at a place.  `ignores`: what is said to be synced and is not, `files` or `directories`.  `steps_left`: how
    many more steps it takes before it stops and answers nobody, where it is to stop."""

    def __init__(self, place: str, tree: Tree) -> None:
        self.place, self.tree = place, tree
        self.ignores: set[str] = set()
        self.steps_left: int | None = None
        self.is_stopped = False
        self._owner = (0, 0)
        self._number = 0
        self._buffer = memoryview(bytearray(MAX_WRITE + _BLOCK))
        self.descriptor = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK)
        options = f"fd={self.descriptor},rootmode=40000,user_id=0,group_id=0,allow_other,default_permissions"
        try:
            _call("mount", b"forgetful", place.encode(), b"fuse", _MS_NOSUID | _MS_NODEV, options.encode())
        except OSError:
            os.close(self.descriptor)
            raise
        self._handlers: dict[int, Handler] = {
            1: self._look_up,
            2: self._forget,
            3: lambda node, _: self._answer_attributes(node),
            4: self._set_attributes,
            8: lambda node, data: self._make(node, data, _number_at(data), 16),
            9: lambda node, data: self._make(node, data, stat.S_IFDIR | _number_at(data), 8),
            10: self._remove,
            11: self._remove,
            12: lambda node, data: self._rename(node, data, 0, 8),
            13: self._link,
            15: self._read,
            16: self._write,
            17: self._space,
            20: lambda node, _: self._sync(node, "files"),
            26: self._begin,
            28: self._list,
            30: lambda node, _: self._sync(node, "directories"),
            36: lambda _, __: _SILENT,
            42: self._forget_many,
            43: self._allocate,
            45: lambda node, data: self._rename(node, data, _number_at(data, 8), 16),
        }

    def end(self) -> None:
        """Whoever still has it mounted or open finds that it is gone."""
        os.close(self.descriptor)
        _call("umount2", self.place.encode(), _MNT_DETACH)

    def serve(self) -> None:
        """Answer one request."""
        try:
            length = os.readv(self.descriptor, [self._buffer])
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.EINTR, errno.EAGAIN):
                return
            raise
        _, operation, unique, number, uid, gid, *_ = _IN.unpack_from(self._buffer)
        self._owner, self._number = (uid, gid), number
        if operation in _STEPS and self.steps_left is not None:
            self.is_stopped = not self.steps_left
            if self.is_stopped:
                return
            self.steps_left -= 1
        answer, code = b"", 0
        try:
            handler = self._handlers.get(operation)
            if handler is None:
                code = -errno.ENOSYS
            else:
                answer = handler(self.tree.known.get(number, self.tree.root), self._buffer[_IN.size : length])
        except OSError as error:
            code = -(error.errno or errno.EIO)
        except Exception:
            traceback.print_exc()
            code = -errno.EIO
        if answer is not _SILENT:
            try:
                os.writev(self.descriptor, [_OUT.pack(_OUT.size + len(answer), code, unique), answer])
            except FileNotFoundError:  # who asked was killed
                pass

    # -- what the kernel asks --------------------------------------------------------------------------------------

    def _begin(self, _: Node, data: memoryview) -> bytes:
        _, _, readahead, flags = struct.unpack_from("<4I", data)
        flags &= _ASYNC_READ | _BIG_WRITES | _PARALLEL_DIROPS | _MAX_PAGES
        pages = MAX_WRITE // _BLOCK
        return struct.pack("<4I2H2I2H8I", 7, _MINOR, readahead, flags, 64, 48, MAX_WRITE, 1, pages, 0, *[0] * 8)

    def _look_up(self, parent: Node, data: memoryview) -> bytes:
        [name] = _names(data)
        return self._entry(self.tree.look_up(parent, name))

    def _forget(self, _: Node, data: memoryview) -> bytes:
        self.tree.forget(self._number, *struct.unpack_from("<Q", data))
        return _SILENT

    def _forget_many(self, _: Node, data: memoryview) -> bytes:
        [count] = struct.unpack_from("<I", data)
        for number, times in struct.iter_unpack("<QQ", data[8 : 8 + 16 * count]):
            self.tree.forget(number, times)
        return _SILENT

    def _set_attributes(self, node: Node, data: memoryview) -> bytes:
        valid, size, atime, mtime, atime_ns, mtime_ns, mode, uid, gid = struct.unpack_from(
            "<I4x8xQ8xQQ8xII4xI4xII", data
        )
        if valid & _SET_MODE:
            node.mode = mode
        if valid & (_SET_UID | _SET_GID):
            node.owner = (uid if valid & _SET_UID else node.owner[0], gid if valid & _SET_GID else node.owner[1])
        if valid & _SET_SIZE:
            node.file.resize(size)
            node.touch()
        if valid & _SET_ATIME:
            node.times[0] = atime * 10**9 + atime_ns
        if valid & _SET_MTIME:
            node.times[1] = mtime * 10**9 + mtime_ns
        return self._answer_attributes(node)

    def _make(self, parent: Node, data: memoryview, mode: int, skip: int) -> bytes:
        [name] = _names(data[skip:])
        return self._entry(self.tree.make(parent, name, mode, self._owner))

    def _remove(self, parent: Node, data: memoryview) -> bytes:
        [name] = _names(data)
        self.tree.remove(parent, name)
        return b""

    def _rename(self, parent: Node, data: memoryview, flags: int, skip: int) -> bytes:
        if flags & ~_RENAME_NOREPLACE:
            raise OSError(errno.EINVAL, "a rename of another kind")
        target = self.tree.known[struct.unpack_from("<Q", data)[0]]
        name, new_name = _names(data[skip:])
        self.tree.rename(parent, name, target, new_name, may_replace=not flags)
        return b""

    def _link(self, parent: Node, data: memoryview) -> bytes:
        node = self.tree.known[struct.unpack_from("<Q", data)[0]]
        [name] = _names(data[8:])
        return self._entry(self.tree.link(node, parent, name))

    def _read(self, node: Node, data: memoryview) -> bytes:
        offset, size = struct.unpack_from("<8xQI", data)
        return bytes(node.file.data[offset : offset + size])

    def _write(self, node: Node, data: memoryview) -> bytes:
        offset, size = struct.unpack_from("<8xQI", data)
        node.file.write(data[40 : 40 + size], offset)
        node.touch()
        return struct.pack("<II", size, 0)

    def _allocate(self, node: Node, data: memoryview) -> bytes:
        offset, length, mode = struct.unpack_from("<8xQQI", data)
        if mode & ~(_KEEP_SIZE | _PUNCH_HOLE):
            raise OSError(errno.EOPNOTSUPP, "room of another kind")
        if mode & _PUNCH_HOLE:
            end = min(offset + length, len(node.file.data))
            node.file.write(bytes(max(0, end - offset)), offset)
        elif not mode and offset + length > len(node.file.data):
            node.file.resize(offset + length)
        return b""

    def _sync(self, node: Node, kind: str) -> bytes:
        if kind not in self.ignores:
            node.sync()
        return b""

    def _list(self, node: Node, data: memoryview) -> bytes:
        offset, size = struct.unpack_from("<8xQI", data)
        found = b""
        for at, (name, child) in enumerate(list(node.names.items())[offset:], offset + 1):
            encoded = os.fsencode(name)
            entry = struct.pack("<QQII", child.number, at, len(encoded), stat.S_IFMT(child.mode) >> 12) + encoded
            entry += bytes(-len(entry) % 8)
            if len(found) + len(entry) > size:
                break
            found += entry
        return found

    def _space(self, _: Node, __: memoryview) -> bytes:
        blocks = _SPACE // _BLOCK
        return struct.pack("<5Q10I", blocks, blocks, blocks, 1 << 20, 1 << 20, _BLOCK, 255, _BLOCK, *[0] * 7)

    # -- what it is told -------------------------------------------------------------------------------------------

    def _entry(self, node: Node) -> bytes:
        return struct.pack("<4Q2I", node.number, 0, _KNOWN_SECONDS, _KNOWN_SECONDS, 0, 0) + _attributes(node)

    def _answer_attributes(self, node: Node) -> bytes:
        return struct.pack("<Q2I", _KNOWN_SECONDS, 0, 0) + _attributes(node)


def _attributes(node: Node) -> bytes:
    seconds, parts = zip(*(divmod(each, 10**9) for each in node.times), strict=True)
    size = len(node.file.data)
    about = (node.mode, node.links, *node.owner, 0, _BLOCK, 0)
    return _ATTRIBUTES.pack(node.number, size, -(-size // _BLOCK) * 8, *seconds, *parts, *about)


def _number_at(data: memoryview, offset: int = 0) -> int:
    return int.from_bytes(data[offset : offset + 4], "little")


def _names(data: memoryview) -> list[str]:
    return [os.fsdecode(name) for name in bytes(data).split(b"\0")[:-1]]


def _call(name: str, *arguments: Any) -> None:
    function = getattr(ctypes.CDLL(None, use_errno=True), name)
    converted = [ctypes.c_ulong(each) if isinstance(each, int) else each for each in arguments]
    if function(*converted):
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def answered(mount: Mount, asked: dict[str, Any]) -> tuple[Mount, dict[str, Any]]:
    """What to go on with after a line, and the answer to it."""
    if "ignore" in asked:
        mount.ignores = set(asked["ignore"])
        return mount, {}
    if "stop after" in asked:
        mount.steps_left = asked["stop after"]
        return mount, {}
    if "look" in asked:
        return mount, {"stopped": mount.is_stopped}
    mount.end()  # first: nobody who is late writes on what is found next
    seed = asked["cut"]
    tree, losses = mount.tree.after_cut(None if seed is None else Random(seed))
    following = Mount(mount.place, tree)
    following.ignores = mount.ignores
    return following, {"names": losses.names, "sectors": losses.sectors}


def main(place: str) -> None:
    mount = Mount(place, Tree())
    print(json.dumps({}), flush=True)
    try:
        while True:
            waiting = select.poll()
            if not mount.is_stopped:
                waiting.register(mount.descriptor, select.POLLIN)
            waiting.register(0, select.POLLIN)
            ready = dict(waiting.poll())
            if mount.descriptor in ready:
                mount.serve()
            if 0 in ready:
                line = sys.stdin.readline()  # a line at a time is asked
                if not line:
                    return
                mount, answer = answered(mount, json.loads(line))
                print(json.dumps(answer), flush=True)
    finally:
        mount.end()


if __name__ == "__main__":
    main(sys.argv[1])
