"""Files with a secret: for their owner alone from the first moment, and there whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def write_private(path: Path, text: str) -> None:
    """Write a file of one line, in the place of one that is there. Raises OSError."""
    with _draft(path, text) as draft:
        draft.replace(path)


def create_private(path: Path, text: str) -> None:
    """Write a new file of one line. Raises FileExistsError where one is there, OSError."""
    with _draft(path, text) as draft:
        os.link(draft, path)


@contextmanager
def _draft(path: Path, text: str) -> Iterator[Path]:
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.unlink(missing_ok=True)
    try:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(descriptor, "w", encoding="ascii") as file:
            file.write(f"{text}\n")
            file.flush()
            os.fsync(descriptor)
        yield draft
    finally:
        draft.unlink(missing_ok=True)
