"""Copies of segments, and their digests."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from entrepot.broker.store.private_files import open_private

CHUNK: Final = 1 << 20


def copy_durably(source: Path, target: Path, length: int) -> str:
    """Copy the first bytes of a file, fewer where it is shorter, to a new one; return their SHA-256. Raises OSError."""
    digest = hashlib.sha256()
    with open(open_private(str(target), os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb") as copy:
        for data in _chunks(source, length):
            digest.update(data)
            copy.write(data)
        copy.flush()
        os.fsync(copy.fileno())
    return digest.hexdigest()


def digest_of(path: Path, length: int) -> str:
    """Return the SHA-256 of the first bytes of a file. Raises OSError."""
    found = hashlib.sha256()
    for data in _chunks(path, length):
        found.update(data)
    return found.hexdigest()


def _chunks(path: Path, length: int) -> Iterator[bytes]:
    with path.open("rb") as file:
        while data := file.read(min(CHUNK, length)):
            length -= len(data)
            yield data
