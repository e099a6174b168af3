"""Snapshot: a Delta table at one version. It never changes; moving it forward costs as much as the commit has."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

from entrepot.broker.tiered.delta_actions import Action, AddFile, Commit, Metadata, Protocol, RemoveFile, Transaction
from entrepot.broker.tiered.layered import Layered
from entrepot.broker.tiered.objects import TierError
from entrepot.broker.tiered.packed_files import PackedFiles, packed
from entrepot.domain.errors import Code

MAX_FOREIGN_NAMED: Final = 16
PROGRESS: Final = "next/"
"""Prefix of the app ids with the end of each queue in a table."""

K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class ForeignCommit:
    """A commit that another program made."""

    version: int
    engine: str
    operation: str


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A table at one version.

    `tombstones`: removed files with their times, epoch milliseconds. `foreign`: the latest commits by other programs,
    `foreign_commits` their count, both since `counted_from`: a checkpoint does not tell who committed. `newest_ms`: by
    the reader's clock, when no later version was there. Two snapshots are equal if they have the same table, however
    they were read.
    """

    version: int
    protocol: Protocol
    metadata: Metadata
    files: PackedFiles
    transactions: Mapping[str, int]
    tombstones: Mapping[str, int]
    foreign: tuple[ForeignCommit, ...] = field(default=(), compare=False)
    foreign_commits: int = field(default=0, compare=False)
    counted_from: int = field(default=0, compare=False)
    newest_ms: int = field(default=0, compare=False)

    @property
    def ends(self) -> dict[int, int]:
        """End of each queue with uploads, even if these are gone since; by world's queue."""
        return self.numbers(PROGRESS, int)

    def numbers(self, prefix: str, key: Callable[[str], K]) -> dict[K, int]:
        """Transactions whose app id has a prefix, by the rest of it."""
        return {key(name[len(prefix) :]): at for name, at in self.transactions.items() if name.startswith(prefix)}

    @property
    def is_foreign(self) -> bool:
        """True if some commit since `counted_from` was another program's."""
        return self.foreign_commits > 0


class Replay:
    """A snapshot in the making: commits of consecutive versions over a ground, or over nothing."""

    def __init__(self, ground: Snapshot | None = None) -> None:
        self._ground = ground
        self.version = ground.version if ground else -1
        self._protocol = ground.protocol if ground else None
        self._metadata = ground.metadata if ground else None
        self._files: dict[str, bytes | None] = {}
        self._tombstones: dict[str, int | None] = {}
        self._transactions: dict[str, int | None] = {}
        self._foreign = list(ground.foreign) if ground else []
        self._foreign_commits = ground.foreign_commits if ground else 0
        self._counted_from = ground.counted_from if ground else 0

    def begin(self, version: int, actions: Iterable[Action]) -> None:
        """Begin with a checkpoint of this version."""
        self.version = version
        self._counted_from = version + 1
        self._apply(actions)

    def add(self, commit: Commit) -> None:
        """Add the next version."""
        self.version += 1
        if commit.is_foreign:
            self._foreign_commits += 1
            self._foreign.append(
                ForeignCommit(self.version, commit.info.engine_info or "", commit.info.operation or "")
            )
            del self._foreign[:-MAX_FOREIGN_NAMED]
        self._apply(commit.actions)

    def _apply(self, actions: Iterable[Action]) -> None:
        added: set[str] = set()
        for action in actions:
            match action:
                case AddFile():
                    added.add(action.path)
                    self._files[action.path] = packed(action)
                    self._tombstones[action.path] = None
                case RemoveFile():
                    if action.path not in added:
                        self._files[action.path] = None
                        self._tombstones[action.path] = action.deletion_timestamp or 0
                case Transaction():
                    self._transactions[action.app_id] = action.version
                case Metadata():
                    self._metadata = action
                case Protocol():
                    self._protocol = action

    def snapshot(self, newest_ms: int, name: str) -> Snapshot:
        """Return the table at the last version. Raises TierError, with `name`, for one without protocol or metadata."""
        ground = self._ground
        if self._protocol is None or self._metadata is None:
            raise TierError(f"{name} has no protocol or no metadata", Code.MESSAGE_CORRUPTED)
        return Snapshot(
            version=self.version,
            protocol=self._protocol,
            metadata=self._metadata,
            files=ground.files.changed(self._files) if ground else PackedFiles.of(self._files),
            transactions=_moved(ground.transactions if ground else None, self._transactions),
            tombstones=_moved(ground.tombstones if ground else None, self._tombstones),
            foreign=tuple(self._foreign),
            foreign_commits=self._foreign_commits,
            counted_from=self._counted_from,
            newest_ms=newest_ms,
        )


def moved(snapshot: Snapshot, commits: Sequence[Commit], newest_ms: int) -> Snapshot:
    """Return the snapshot after these commits, which follow on it."""
    replay = Replay(snapshot)
    for commit in commits:
        replay.add(commit)
    return replay.snapshot(newest_ms, f"version {replay.version}")


def _moved(ground: Mapping[str, V] | None, changes: dict[str, V | None]) -> Mapping[str, V]:
    layered = ground if isinstance(ground, Layered) else Layered(dict(ground or {}))
    return layered.changed(changes)
