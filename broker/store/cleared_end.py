"""The end of a log, cleared: nothing is behind it but zeros, in space that stays reserved."""

from __future__ import annotations

import errno

from broker.store.damage import SCAN_CHUNK
from broker.store.disk import Disk, is_want_of_space


def used_end(disk: Disk, descriptor: int, position: int, length: int) -> int:
    """Behind the last byte of a segment that is not zero; `position` if there is none from there on."""
    used = position
    for at in range(position, length, SCAN_CHUNK):
        data = disk.read(descriptor, min(SCAN_CHUNK, length - at), at).rstrip(b"\0")
        used = at + len(data) if data else used
    return used


def is_cleared(disk: Disk, descriptor: int, position: int, used: int, length: int) -> bool:
    """Overwrite a segment's bytes with zeros from a position on, so far as they are used; says whether the space up to
    `length` is reserved like that.  Holes of a file that was copied are filled, if there is room for them."""
    try:
        if position < length:
            disk.allocate(descriptor, position, length - position)
        for at in range(position, used, SCAN_CHUNK):
            disk.write(descriptor, bytes(min(SCAN_CHUNK, used - at)), at)
    except OSError as error:
        if is_want_of_space(error) or error.errno == errno.EROFS:
            return False
        raise
    return True
