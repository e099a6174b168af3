"""The cleared end of a log: only zeros follow it, in space that stays reserved."""

from __future__ import annotations

import errno

from entrepot.broker.store.damage import SCAN_CHUNK
from entrepot.broker.store.disk import Disk, is_want_of_room


def used_end(disk: Disk, descriptor: int, position: int, length: int) -> int:
    """Return the end of a segment's last non-zero byte, or `position` if there is none from there on."""
    used = position
    for at in range(position, length, SCAN_CHUNK):
        data = disk.read(descriptor, min(SCAN_CHUNK, length - at), at).rstrip(b"\0")
        used = at + len(data) if data else used
    return used


def is_cleared(disk: Disk, descriptor: int, position: int, used: int, length: int) -> bool:
    """Overwrite a segment's used bytes with zeros from a position on. True if the space up to `length` is reserved;
    holes of a copied file are filled if there is room."""
    try:
        if position < length:
            disk.allocate(descriptor, position, length - position)
        for at in range(position, used, SCAN_CHUNK):
            disk.write(descriptor, bytes(min(SCAN_CHUNK, used - at)), at)
    except OSError as error:
        if is_want_of_room(error) or error.errno == errno.EROFS:
            return False
        raise
    return True
