"""Files that only the process's user reads: a store has keys, secrets and everybody's messages.

They are private from the beginning, whatever the umask. `tighten` mends a directory of an earlier version.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from entrepot.broker.store.spare_descriptors import SPARE

FILE_MODE: Final = 0o600
DIRECTORY_MODE: Final = 0o700
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
MAX_TOLD: Final = 3
"""Most paths named by `Tightened.problems`."""


def open_private(path: str, flags: int) -> int:
    """Open a file, private to this user if it is new, also where no descriptor is left. An `opener` for `open`."""
    return SPARE.open(path, flags | os.O_CLOEXEC, FILE_MODE)


def make_directories(path: str, mode: int = DIRECTORY_MODE) -> list[str]:
    """Make a directory with its missing parents; return the new ones, the highest first."""
    try:
        os.mkdir(path, mode)
    except FileExistsError:
        if not os.path.isdir(path):
            raise
        return []
    except FileNotFoundError:
        parent = os.path.dirname(path)
        if parent in ("", path) or os.path.isdir(parent):  # an existing parent takes none: /proc
            raise
        return [*make_directories(parent, mode), *make_directories(path, mode)]
    return [path]


def is_open_to_others(path: str) -> bool:
    """True if somebody else than its owner may enter, list or change a directory."""
    return bool(os.stat(path).st_mode & _OTHERS)


@dataclass(slots=True)
class Tightened:
    """The result of `tighten`. `changed` files and directories were open to others; `failed` still are."""

    changed: int = 0
    failed: int = 0
    problems: list[str] = field(default_factory=list)

    def _fail(self, path: str, why: str) -> None:
        self.failed += 1
        if len(self.problems) < MAX_TOLD:
            self.problems.append(f"{path}: {why}")

    def _close(self, path: str, mode: int) -> None:
        if not mode & _OTHERS:
            return
        if mode & stat.S_ISVTX:
            self._fail(path, "it is a directory for everybody (sticky)")
            return
        try:
            os.chmod(path, stat.S_IMODE(mode) & ~_OTHERS)
            self.changed += 1
        except OSError as error:
            self._fail(path, error.strerror or str(error))

    def _close_below(self, directory: str, is_ours: Callable[[str], bool]) -> None:
        try:
            entries = [each for each in os.scandir(directory) if is_ours(each.name) and not each.is_symlink()]
        except OSError as error:
            self._fail(directory, error.strerror or str(error))
            return
        for entry in entries:
            if entry.is_dir():
                self._close_below(entry.path, lambda _: True)
            with suppress(FileNotFoundError):
                self._close(entry.path, entry.stat(follow_symlinks=False).st_mode)


def tighten(root: str, names: Collection[str]) -> Tightened:
    """Take a data directory, and these names in it (also `<name>.draft`, `<name>-wal`), from other users. A closed
    directory is not walked: nobody else gets into it. Links are not followed."""
    found = Tightened()
    if is_open_to_others(root):
        found._close_below(
            root, lambda name: any(name == each or name.startswith((f"{each}.", f"{each}-")) for each in names)
        )
        found._close(root, os.stat(root).st_mode)  # last: an interrupted walk is done again
    return found
