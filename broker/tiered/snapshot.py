"""Snapshot: a Delta table at one version. It never changes; moving it forward costs as much as the commit has."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from entrepot.broker.tiered.delta_actions import Action, AddFile, Commit, Metadata, Protocol, RemoveFile, Transaction
from entrepot.broker.tiered.objects import TierError
from entrepot.domain.errors import Code

MAX_LAYER: Final = 256
"""Most changes over a common ground; with more the ground is copied, so that copying costs little per commit."""
MAX_FOREIGN_NAMED: Final = 16
PROGRESS: Final = "next/"
"""Prefix of the app ids with the end of each queue in a table."""

K = TypeVar("K")
V = TypeVar("V")


class Layered(Mapping[str, V], Generic[V]):
    """An immutable mapping: a ground shared by versions, and this version's changes (None: gone)."""

    __slots__ = ("_ground", "_layer", "_len")

    def __init__(self, ground: dict[str, V], layer: dict[str, V | None] | None = None, length: int = -1) -> None:
        self._ground = ground
        self._layer = layer or {}
        self._len = len(ground) if length < 0 else length

    def __getitem__(self, key: str) -> V:
        value = self._layer[key] if key in self._layer else self._ground[key]
        if value is None:
            raise KeyError(key)
        return value

    def __contains__(self, key: object) -> bool:
        return self._layer[key] is not None if key in self._layer else key in self._ground

    def __iter__(self) -> Iterator[str]:
        layer = self._layer
        yield from (key for key in self._ground if key not in layer)
        yield from (key for key, value in layer.items() if value is not None)

    def __len__(self) -> int:
        return self._len

    def changed(self, changes: Mapping[str, V | None]) -> Layered[V]:
        """Return another one with these changes; None removes."""
        if not changes:
            return self
        length = self._len
        for key, value in changes.items():
            length += (value is not None) - (key in self)
        layer = {**self._layer, **changes}
        if len(layer) <= MAX_LAYER:
            return Layered(self._ground, layer, length)
        ground = dict(self._ground)
        for key, value in layer.items():
            if value is None:
                ground.pop(key, None)
            else:
                ground[key] = value
        return Layered(ground)


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
    files: Mapping[str, AddFile]
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
        self._files: dict[str, AddFile | None] = {}
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
                    self._files[action.path] = action
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
            files=_moved(ground.files if ground else None, self._files),
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
